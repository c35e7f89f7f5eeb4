"""What is drawn of a plan, and of a graph, as typed plain data: what goes from the solver's side to every drawing.

All of it is JSON. `explorer.view.plan_view` and `explorer.view.graph.skeleton` make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from solvers.formats.result_json import DegreeRow

Step = tuple[float, float | None, float | None, str, str]
"""Of a search: elapsed_s, objective_s (None before there is a plan), bound_s, note, and the planner at work ("" where
one works alone)."""
StageEdge = tuple[int, int, float, bool]
"""Source, target, bytes, whether between nodes: see `explorer.view.graph.stage_graph.stage_edges`."""
RowPhases = list[float]
"""See `explorer.view.timeline.phases.row_phases`."""


class Device(TypedDict):
    """name: what people read, "GPU 3"; memory_bytes: None without a cap; node: the host. alike: the numbers of those
    for which it stands, "" if it does so for itself alone; count: how many these are. Views of earlier versions lack
    both. members: of a tensor-parallel group; memory is that of each."""

    index: int
    name: str
    kind: str
    memory_bytes: float | None
    node: int
    alike: NotRequired[str]
    count: NotRequired[int]
    members: NotRequired[int]


class Stage(TypedDict):
    """See `explorer.view.graph.stage_graph.stage_facts`."""

    devices: list[int]
    operators: int
    micro_batch_size: int
    in_flight: int
    recompute: bool
    again: int
    forward_s: float
    backward_s: float
    busy_s: float
    share: float
    glue: bool
    depth: int


class Bars(TypedDict):
    """One list a column: device, start_s, end_s, kind (F B I W U, R for a forward that runs again, or T for a
    transfer), stage (-1 unknown), micro_batch (-1: several, or none), to_device (-1: not a transfer), nbytes, spans
    (how many spans were merged into it), link (position of the resource that a transfer occupies in the plan's links,
    or -1), operator (the one that runs or sends, -1: none or several) and reader (of a transfer: the operator that
    waits for it, or -1)."""

    device: list[int]
    start_s: list[float]
    end_s: list[float]
    kind: list[str]
    stage: list[int]
    micro_batch: list[int]
    to_device: list[int]
    nbytes: list[float]
    spans: list[int]
    link: list[int]
    operator: list[int]
    reader: list[int]


class MeasuredBars(Bars):
    """Bars of a run, whose kind is S too, an all-reduce. predicted_s: None where the plan has no such action."""

    segment: list[int]
    wait_s: list[float]
    predicted_s: list[float | None]


class LinkUse(TypedDict):
    """A resource that carries transfers: its name in the schedule, label (as people read it), senders (devices),
    transfers (how many), nbytes (their sum), busy_s."""

    resource: str
    label: str
    senders: list[int]
    transfers: int
    nbytes: float
    busy_s: float


class PathPart(TypedDict):
    kind: str
    device: int
    words: str
    share: float
    spans: int


class HeavySpan(TypedDict):
    operator: int
    device: int
    name: str
    words: str
    start_s: float
    seconds: float
    share: float


class PathView(TypedDict):
    """See `explorer.view.timeline.path.path_view`."""

    device: list[int]
    link: list[int]
    start_s: list[float]
    end_s: list[float]
    steps: int
    sentence: str
    parts: list[PathPart]
    heaviest: list[HeavySpan]


class Held(TypedDict):
    """A memory curve: from each time on, so many bytes."""

    times_s: list[float]
    nbytes: list[float]


class Course(TypedDict):
    """A schedule span by span, see `explorer.view.instants.played`. Columns, one entry a span, in the order of their
    starts: start_s, end_s, kind (of `explorer.words.actions`), of (the kind of the action that made what a transfer
    carries, or S for an all-reduce; of an action its own), stage, micro_batch, device, to_device (-1 for compute), on
    (the device that it occupies, or -1), resource (position in resources), nbytes, operator (that runs or sends, -1 if
    that is no single one), cause (position of the span whose end let it start, or -1), ready_s (from when it could
    have started, had its resource been free)."""

    span_s: float
    resources: list[str]
    memory: list[Held]
    start_s: list[float]
    end_s: list[float]
    kind: list[str]
    of: list[str]
    stage: list[int]
    micro_batch: list[int]
    device: list[int]
    to_device: list[int]
    on: list[int]
    resource: list[int]
    nbytes: list[float]
    operator: list[int]
    cause: list[int]
    ready_s: list[float]


class MemoryView(TypedDict):
    """points: [share of the span, bytes], ascending in time. parts: [name, bytes] of the peak."""

    points: list[list[float]]
    static_bytes: float
    peak_bytes: float
    parts: NotRequired[Sequence[tuple[str, float]]]


class Metrics(TypedDict):
    """See `explorer.view.figures.metrics_object`."""

    max_load_s: float | None
    makespan_s: float | None
    iteration_s: float | None
    throughput_per_s: float | None
    bubble: float | None
    cut_bytes: float | None
    between_nodes_bytes: float | None
    peak_memory_bytes: list[float | None]
    load_s: list[float | None]


class Lean(TypedDict):
    """A plan beside an answer, see `explorer.view.events.front`."""

    slower: float
    objective_s: float
    less_bytes: float
    peak_bytes: float
    device: str


class Answered(TypedDict):
    """How a plan was found, and what was proved of it. held: the name under which a worker holds it; front: the plans
    beside it; by_degrees: the best plan for every degree, where these were searched; source: the path of the file that
    it was read from; beside: the name of the answer that it was found beside."""

    status: str
    stop_reason: str
    planner: str
    objective_s: float | None
    bound_s: float
    runtime_s: float
    notes: list[str]
    trace: list[Step]
    held: NotRequired[str]
    front: NotRequired[list[Lean]]
    by_degrees: NotRequired[list[DegreeRow]]
    source: NotRequired[str]
    beside: NotRequired[str]


class ScheduleView(TypedDict):
    """The simulated schedule of a plan, as it is drawn."""

    bars: Bars
    by_operator: bool
    all_spans: bool
    links: list[LinkUse]
    path: PathView
    spans: int
    course: Course | None
    span_s: float
    busy_s: list[float]
    bottleneck: int
    breakdown: dict[str, float]
    memory: list[MemoryView]


class OtherOrder(TypedDict):
    """What the stages of a plan take in another order. over: the rule or the cap that forbids it, or ""."""

    objective_s: float | None
    peak_bytes: float | None
    over: str


class OrderView(TypedDict):
    """In which order a plan takes its micro-batches. name: a pipeline's, or "custom". in_flight: most that each device
    keeps. textbook: the same stages in 1F1B, where the plan's order is another kind of that; ahead: with
    more in flight than the 1F1B that the plan is; None where that is not known."""

    name: str
    in_flight: list[int]
    textbook: OtherOrder | None
    ahead: OtherOrder | None


class FigureView(TypedDict):
    """The fields of `explorer.view.figures.Figures`."""

    question: str
    graph: str
    objective: str
    mini_batch: int
    objective_s: float | None
    low_s: float | None
    high_s: float | None
    bound_s: float
    max_load_s: float | None
    makespan_s: float | None
    iteration_s: float | None
    per_s: float | None
    idle: float | None
    peak_bytes: float | None
    cut_bytes: float | None
    between_nodes_bytes: float | None


class PlanView(Answered, ScheduleView):
    """A plan, final or incumbent; see `explorer.view.plan_view.plan_view`."""

    objective: str
    contiguity: str
    subgraphs: int | None
    graph: str
    devices: list[Device]
    placement: list[list[int]]
    stage_of: list[int]
    stages: list[Stage]
    stage_edges: list[StageEdge]
    phases: dict[str, list[RowPhases | None]]
    pipeline: str
    order: OrderView
    samples: int
    mini_batch: int
    costs_from: str
    pinned: list[int]
    modules: list[str]
    seconds: list[float]
    origins: list[int] | None
    metrics: Metrics
    figures: FigureView


class Sharding(TypedDict):
    """How tensors are divided over groups. Per operator: members (of its group), placements (of its output, see
    `solvers.problem.graph.Operator`), before (of what a forward operator reads first), kinds (of what members exchange
    for it, "" for nothing) and exchanged ([fixed, per sample] bytes that each of them sends)."""

    members: list[int]
    placements: list[str]
    before: list[str]
    kinds: list[str]
    exchanged: list[tuple[float, float]]


class Skeleton(TypedDict):
    """A graph. hash; graph: see `explorer.view.graph.skeleton.structure_hash`; operators: their number; stated: whether
    the source brings its own times; memory_bytes: of the largest device of such a source, 0 without a cap (None:
    devices are chosen). Per operator: names, types, modules, phases, anchors (the forward operator that stands for it
    on screen), work (FLOPs, or seconds where the source states them), params (bytes), saved ([fixed, per sample]
    bytes). tensors: (producer, consumers, fixed bytes, bytes per sample); shapes: of each, "8×1024
    float32", or "".
    sharding: where tensors are divided over a group."""

    hash: str
    graph: str
    name: str
    reference: str
    operators: int
    parameters: int | None
    costs_from: str
    stated: bool
    memory_bytes: float | None
    samples: int
    training: bool
    objective: str
    notes: list[str]
    names: list[str]
    types: list[str]
    modules: list[str]
    phases: list[str]
    anchors: list[int]
    work: list[float]
    params: list[float]
    saved: list[list[float]]
    tensors: list[tuple[int, list[int], float, float]]
    shapes: list[str]
    sharding: NotRequired[Sharding]


def used_devices(plan: PlanView) -> int:
    """How many devices work, those for which one of the view stands among them. plan: a plan's view."""
    return sum(d.get("count", 1) for d, busy in zip(plan["devices"], plan["busy_s"], strict=True) if busy > 0)


class ErrorReport(TypedDict):
    """Seconds, and their share of the measured time."""

    s: float
    share: float


class OperatorReport(TypedDict):
    """See `explorer.measured.comparison.OperatorError`."""

    predicted_s: float
    measured_s: float
    runs: int
    profiled: bool
    ratio: float | None


class SegmentReport(TypedDict):
    """See `explorer.measured.comparison.SegmentError`."""

    segment: int
    stages: list[int]
    devices: list[int]
    kind: str
    measured_s: float
    predicted_s: float | None
    ratio: float | None


class LinkReport(TypedDict):
    """See `explorer.measured.comparison.LinkError`."""

    src: int
    dst: int
    messages: float
    waited: int
    nbytes: float
    measured_s: float | None
    predicted_s: float | None
    latency_s: float
    bandwidth_bytes_per_s: float
    how: str


class PartReport(TypedDict):
    """See `explorer.measured.comparison.PartError`."""

    name: str
    predicted_bytes: float
    measured_bytes: float


class DeviceReport(TypedDict):
    """See `explorer.measured.comparison.DeviceError`."""

    device: int
    rank: int
    busy_predicted_s: float
    busy_measured_s: float
    wait_s: float
    peak_predicted_bytes: float
    peak_measured_bytes: float | None
    parts: list[PartReport]


class AgreementReport(TypedDict):
    """See `explorer.runner.bundles.outcome.Agreement`."""

    loss: float | None
    gradient: float | None
    parameter: float | None
    worst: str
    dtype: str
    compared: int
    way: str
    undefined: int


class EnvironmentReport(TypedDict):
    """See `explorer.runner.bundles.outcome.Environment`."""

    hosts: list[str]
    devices: list[str]
    backend: str
    torch: str
    python: str
    threads: int
    date: str
    pinned: bool


class BubbleReport(TypedDict):
    predicted: float
    measured: float


class BarsReport(TypedDict):
    predicted: Bars
    fed: Bars
    measured: MeasuredBars


class Report(TypedDict):
    """How a run compares with its plan, see `explorer.measured.comparison_object`."""

    objective: str
    predicted_s: float
    within: NotRequired[list[float] | None]
    operators_fed_s: float
    fed_s: float
    measured_s: float
    fastest_s: float
    iterations_s: list[float]
    drawn_s: float
    errors: dict[str, ErrorReport]
    error: float
    fed_error: float
    fed_each_error: float
    bubble: BubbleReport
    segments: list[SegmentReport]
    operators: list[OperatorReport | None]
    links: list[LinkReport]
    devices: list[DeviceReport]
    bars: BarsReport
    agreement: AgreementReport | None
    environment: EnvironmentReport | None
    noise: float | None
    noise_word: str
    losses: list[float]
    notes: list[str]


class MeasuredView(TypedDict):
    """A plan and what was measured of it, see `explorer.jobs.run_kinds.view_of`. plan: packed."""

    held: str
    planner: str
    model: str
    status: str
    reason: str
    culprit: int
    notes: list[str]
    devices: list[str]
    report: Report | None
    plan: bytes
    skeleton: Skeleton


class RunView(MeasuredView):
    """A run that has ended, see `explorer.jobs.run_kinds.run_view`. text: of the plan, packed; b"" where the page
    has it already."""

    bundle: str
    target: str
    when: str
    log: list[str]
    folder: str
    command: str
    words: str
    text: bytes
