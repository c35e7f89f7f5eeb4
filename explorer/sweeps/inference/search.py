"""Search replicas, tensor parallelism, stages and batches of a decoder for throughput and time per token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from explorer.question.clusters import make_cluster
from explorer.question.nodes.groups import members_of
from explorer.question.problems import make_problem
from explorer.question.settings import ClusterSettings, MemorySettings, Settings
from explorer.question.together import Unit
from explorer.sweeps.degrees import degrees_to_try
from explorer.sweeps.inference.decoder import Decoder, Phases, graph_holding, without_cache
from explorer.sweeps.inference.points import Point, best_within, pareto_front
from explorer.sweeps.inference.units import layer_of, outer_groups, partition
from explorer.words import text
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.errors import InvalidProblem, PlacementError
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.load import loads
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Objective, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.search.monitor import never

MOST_BATCH = 1024
"""Sequences of a micro-batch: beyond it times are not estimated."""
SIZES_BETWEEN = 4
"""Sizes that are tried between the last power of two that fits and the first that does not."""
TOKEN_BYTES = 8.0
"""The token that the last stage sends to the first, for each sequence."""
SHARES_LEFT = (0.25, 0.5, 0.75, 1.0)
"""Of what comes and goes at most, how much is left for it: the less, the faster the stages, if they fit."""
LIMIT_S = 60.0
"""Of one search; it takes a fraction of a second."""


@dataclass(frozen=True)
class Served:
    """points: all that fit. reasons: why a degree of tensor parallelism or a number of stages has none, by
    (tensor, pipeline). cache_bytes: of one sequence. notes: of the traces."""

    points: tuple[Point, ...]
    reasons: dict[tuple[int, int], str]
    cache_bytes: float
    notes: tuple[str, ...]

    @property
    def front(self) -> tuple[Point, ...]:
        """The points that no other beats in both, by time per token."""
        return tuple(pareto_front(self.points))

    def best(self, time_per_token_s: float | None = None) -> Point | None:
        """The largest throughput within a limit; None where nothing is within it."""
        return best_within(self.points, time_per_token_s)


@dataclass(frozen=True)
class _Split:
    """One tensor-parallel degree and number of stages: the decode phase with a micro-batch of 1 in every stage, the
    prefill of one prompt, both without a cache, and the caches of one sequence, [operators]. counts: whether the cache
    is counted at all."""

    tensor: int
    pipeline: int
    decode: Problem
    prefill: Problem
    phases: Phases
    counts: bool = True

    def question(self, micro_batch: int) -> Problem:
        """The decode phase with the KV cache of all that is in flight."""
        sequences = micro_batch * self.pipeline
        graph = self.decode.graph
        graph = graph_holding(graph, self.phases.cache, sequences) if self.counts else without_cache(graph)
        return replace(self.decode, graph=graph, mini_batch=sequences, micro_batches=self.pipeline)


def serve(
    decoder: Decoder,
    settings: Settings,
    *,
    should_stop: Callable[[], bool] = never,
    begin: Callable[[str], None] = lambda _: None,
    count_cache: bool = True,
) -> Served:
    """Every split of the cluster's devices into replicas of stages of tensor-parallel groups, at every batch that fits.

    decoder: the model and its lengths. settings: cluster, memory and stack; what is of training or of a search is not
    used. begin: called with what comes next. count_cache: False leaves the cache out of the partition and of the
    memory, for comparison. Raises PlacementError where nothing can be asked, in one line.
    """
    whole = decoder.at(1)
    layers = {layer for layer in layer_of(whole.decode.graph) if layer is not None}
    cluster = make_cluster(whole.decode, settings)
    _check(cluster)
    count = len(cluster.accelerators)
    tried, refused = degrees_to_try(cluster)
    reasons = {(degree, 1): why for degree, why in refused.items()}
    points: list[Point] = []
    notes: list[str] = list(whole.decode.notes)
    for degree in tried:
        if should_stop():
            break
        begin(f"dividing tensors over {text.plural(degree, 'device')}")
        try:
            phases = decoder.at(degree, members_of(cluster, degree, decoder.model))
        except PlacementError as error:
            reasons[degree, 1] = str(error)
            continue
        notes += phases.decode.notes
        for stages in _stages(count // degree, len(layers)):
            if should_stop():
                break
            if not _fits_nodes(cluster, degree * stages):
                reasons[degree, stages] = f"replicas of {degree * stages} devices share nodes unevenly"
                continue
            begin(f"{text.plural(stages, 'stage')} of {text.plural(degree, 'device')}")
            try:
                split = _split(phases, settings, cluster, degree, stages, count_cache)
                more = list(_points(split, count // (degree * stages), should_stop))
            except PlacementError as error:
                reasons[degree, stages] = str(error)
                continue
            points += more
            if not more:
                reasons[degree, stages] = _why_nothing(split)
    return Served(tuple(points), reasons, whole.cache_bytes, tuple(dict.fromkeys(notes)))


def _stages(groups: int, layers: int) -> list[int]:
    """Numbers of stages that groups make replicas of without one left over, at most one a layer."""
    return [stages for stages in range(1, min(groups, layers) + 1) if groups % stages == 0]


def _fits_nodes(cluster: Cluster, size: int) -> bool:
    """Whether replicas of so many devices, one after the other, are all within nodes or of whole nodes."""
    nodes: dict[int, int] = {}
    for device in cluster.accelerators:
        nodes[cluster.devices[device].node] = nodes.get(cluster.devices[device].node, 0) + 1
    each = min(nodes.values())
    return len(nodes) == 1 or size % each == 0 or each % size == 0


def _check(cluster: Cluster) -> None:
    kinds = sorted({device.kind for device in cluster.devices})
    if len(kinds) > 1 or cluster.cpus:
        raise InvalidProblem(f"replicas are on accelerators of one kind, found {', '.join(kinds)}; give one")


def _split(phases: Phases, settings: Settings, cluster: Cluster, degree: int, stages: int, counts: bool) -> _Split:
    """Raises PlacementError where members of groups or their links do not fit."""
    part = cluster.part(cluster.accelerators[: degree * stages])
    usual: dict[str, Any] = {
        one.name: one.default for group in (ClusterSettings, MemorySettings) for one in fields(group)
    }
    question = replace(
        settings,
        **usual | {"cluster": part, "times": settings.times, "transfers": Transfers.DUPLEX},
        training=False, objective=Objective.MAX_LOAD, mini_batch=stages, micro_batches=stages, max_replicas=1,
        whole=Unit.LAYERS, in_sequence=True,
    )  # fmt: skip
    decode = make_problem(phases.decode, replace(question, together=outer_groups(phases.decode.graph)))
    alone = replace(question, objective=Objective.ITERATION, mini_batch=1, micro_batches=1, transfers=None)
    prefill = make_problem(phases.prefill, replace(alone, in_sequence=False, whole=None))
    return _Split(degree, stages, decode, prefill, phases, counts)


def _points(split: _Split, replicas: int, should_stop: Callable[[], bool]) -> Iterator[Point]:
    """One for each micro-batch, ascending: powers of two, and some sizes up to the largest that fits."""
    passes: dict[tuple[tuple[int, ...], ...], tuple[float, tuple[float, ...]]] = {}

    def at(micro_batch: int) -> Point | None:
        return _point(split, replicas, micro_batch, passes)

    size = 1
    while size <= MOST_BATCH and not should_stop():
        if (point := at(size)) is None:
            break
        yield point
        size *= 2
    low, high = size // 2, size
    for _ in range(SIZES_BETWEEN if 1 < size <= MOST_BATCH else 0):
        between = (low + high) // 2
        if between == low or should_stop():
            return
        if (point := at(between)) is None:
            high = between
        else:
            yield point
            low = between


def _point(
    split: _Split,
    replicas: int,
    micro_batch: int,
    passes: dict[tuple[tuple[int, ...], ...], tuple[float, tuple[float, ...]]],
) -> Point | None:
    """None where it does not fit, be it the prompt. passes: seconds and peaks without a cache of prefills, by what the
    stages hold."""
    result = partitioned(split.question(micro_batch))
    if result.plan is None or len(result.plan.stages) < split.pipeline:
        return None
    problem, plan = result.problem, result.plan
    where = tuple(stage.operators for stage in plan.stages)
    if where not in passes:
        passes[where] = prompt_pass(split.prefill, problem.graph, plan)
    first_s, prompt_bytes = passes[where]
    each = split.phases.cache if split.counts else (0.0,) * len(problem.graph)
    cache = tuple(micro_batch * split.pipeline * sum(each[o] for o in operators) for operators in where)
    peaks = evaluate(problem, plan).peak_memory_bytes
    decode = tuple(peaks[stage.devices[0]] for stage in plan.stages)
    peak = tuple(max(a, b + held) for a, b, held in zip(decode, prompt_bytes, cache, strict=True))
    room = [problem.cluster.devices[stage.devices[0]].memory_bytes for stage in plan.stages]
    if any(held > most for held, most in zip(peak, room, strict=True)):
        return None
    return Point(
        split.tensor, split.pipeline, replicas, micro_batch, token_seconds(problem, plan), first_s,
        partition(problem.graph, where), peak, cache, result,
    )  # fmt: skip


def partitioned(problem: Problem) -> Result:
    """The stages with the least max-load within the memory: layers are whole and in a row.

    The exact search knows what is held all the time; what comes and goes beside it is found by simulation. Where the
    best stages do not fit because of that, they are searched again in what it leaves.
    """
    result = solve(problem, DownsetDP(), time_limit_s=LIMIT_S)
    if result.plan is not None or result.status is Status.INFEASIBLE:
        return result
    free = solve(replace(problem, cluster=roomy(problem.cluster)), DownsetDP(), time_limit_s=LIMIT_S)
    if free.plan is None:
        return result
    metrics = evaluate(free.problem, free.plan)
    comes = max(peak - held for peak, held in zip(metrics.peak_memory_bytes, metrics.static_bytes, strict=True))
    for share in SHARES_LEFT:
        plan = _held_within(problem, comes * share)
        if plan is not None and _fits(problem, plan):
            return solve(problem, DownsetDP(), start=plan, time_limit_s=LIMIT_S)
    return result


def _held_within(problem: Problem, left_bytes: float) -> Plan | None:
    """The best stages of which what is held all the time leaves so many bytes of each device; None if there are
    none."""
    devices = tuple(replace(one, memory_bytes=one.memory_bytes - left_bytes) for one in problem.cluster.devices)
    if min(one.memory_bytes for one in devices) <= 0:
        return None
    static = tuple(problem.static_bytes().tolist())
    held = replace(problem, stated_bytes=static, cluster=replace(problem.cluster, devices=devices))
    return solve(held, DownsetDP(), time_limit_s=LIMIT_S).plan


def _fits(problem: Problem, plan: Plan) -> bool:
    peaks = evaluate(problem, plan).peak_memory_bytes
    return all(peak <= one.memory_bytes for peak, one in zip(peaks, problem.cluster.devices, strict=True))


def token_seconds(problem: Problem, plan: Plan) -> float:
    """From one token of a sequence to its next, with as many micro-batches in flight as there are stages: every stage
    is busy with each of them once, and no micro-batch is faster than all stages and messages one after the other."""
    samples = plan.stages[0].micro_batch_size
    busiest_s = loads(problem, plan).max_load_s() * samples
    return max(len(plan.stages) * busiest_s, pass_seconds(problem, plan, samples))


def pass_seconds(problem: Problem, plan: Plan, samples: int) -> float:
    """One micro-batch through all stages, with the messages between them and the token back to the first."""
    home = {o: stage.devices[0] for stage in plan.stages for o in stage.operators if not _copied(problem, o)}
    seconds = 0.0
    for stage in plan.stages:
        kind = problem.cluster.devices[stage.devices[0]].kind
        seconds += float(problem.compute.at(kind, samples)[list(stage.operators)].sum())
    for number, tensor in enumerate(problem.graph.tensors):
        if tensor.producer in home and tensor.nbytes.at(samples) > 0:
            src = home[tensor.producer]
            for dst in sorted({home[reader] for reader in tensor.consumers if reader in home} - {src}):
                seconds += problem.tensor_s(number, samples, src, dst)
    first, last = plan.stages[0].devices[0], plan.stages[-1].devices[0]
    return seconds + (0.0 if first == last else problem.cluster.transfer_s(TOKEN_BYTES * samples, last, first))


def _copied(problem: Problem, operator: int) -> bool:
    return problem.graph.operators[operator].replicable


def prompt_pass(prefill: Problem, graph: OpGraph, plan: Plan) -> tuple[float, tuple[float, ...]]:
    """(seconds, peak bytes of each stage without a cache) of one prompt through the stages of a plan of decode.

    graph: that of the plan. Operators go where those of their name are; what decode has not, to the latest stage of
    what it reads, or else the earliest that reads it.
    """
    home = {graph.operators[o].name: number for number, stage in enumerate(plan.stages) for o in stage.operators}
    stage_of: dict[int, int] = {}
    for o in prefill.graph.topological_order:
        before = max((stage_of[each] for each in prefill.graph.predecessors[o]), default=0)
        stage_of[o] = max(before, home.get(prefill.graph.operators[o].name, before))
    placement = [plan.stages[stage_of[o]].devices for o in range(len(prefill.graph))]
    free = replace(prefill, cluster=roomy(prefill.cluster))
    metrics = evaluate(free, assemble(free, placement, 1))
    return metrics.iteration_s, tuple(metrics.peak_memory_bytes[stage.devices[0]] for stage in plan.stages)


def roomy(cluster: Cluster) -> Cluster:
    """The cluster with memory for anything."""
    return replace(cluster, devices=tuple(replace(device, memory_bytes=2.0**60) for device in cluster.devices))


def _why_nothing(split: _Split) -> str:
    """What one sequence in every stage takes."""
    question = split.question(1)
    cap = min(device.memory_bytes for device in question.cluster.devices)
    weights = sum(operator.param_bytes for operator in question.graph.operators)
    cache = sum(split.phases.cache) * split.pipeline
    result = partitioned(question)
    if result.status is Status.INFEASIBLE or result.plan is None:
        what = f"weights of {text.nbytes(weights)} and a KV cache of {text.nbytes(cache)}"
        return (
            f"does not fit {text.plural(split.pipeline, 'stage')} of {text.nbytes(cap)} with one sequence each: {what}"
        )
    if len(result.plan.stages) < split.pipeline:
        return "no more stages than before are of use"
    return f"a prompt does not fit beside the weights in {text.nbytes(cap)} a device"
