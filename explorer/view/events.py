"""What a solving worker sends to the page, as plain data: events in the order in which they happen."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

from explorer.costs.devices import DEVICES
from explorer.view.comparison import Row, contradictions
from explorer.view.graph.node_data import NodeData
from explorer.view.graph.search import thinned
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_types import Device, Lean, PlanView, RunView, Skeleton, Step
from explorer.view.plan_view import devices, plan_view, result_view
from explorer.words import text
from solvers.evaluation.evaluate import evaluate, judge
from solvers.formats.json_text import finite_or_none
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result, Status
from solvers.planners.shortfall import Shortfall
from solvers.problem.problem import Objective, Problem


class Waiting(TypedDict):
    """See `waiting`."""

    kind: Literal["waiting"]
    before: int
    why: str


class Loading(TypedDict):
    """See `loading`."""

    kind: Literal["loading"]
    text: str


class Compiling(TypedDict):
    """See `compiling`."""

    kind: Literal["compiling"]
    kernel: str
    seconds: float


class ModelEvent(TypedDict):
    """See `model`."""

    kind: Literal["model"]
    hash: str
    skeleton: bytes


class ProgressEvent(TypedDict):
    """See `progress`."""

    kind: Literal["progress"]
    elapsed_s: float
    objective_s: float | None
    bound_s: float
    note: str
    steps: list[Step]
    plan: PlanView | None


class Sized(TypedDict):
    name: str
    bytes: float


class Blamed(Sized):
    text: str


class Lack(TypedDict):
    """What the leanest plain split lacks on a device, and what that holds, the largest first."""

    device: str
    needs_bytes: float
    cap_bytes: float
    parts: list[Sized]
    modules: list[Sized]


class Infeasible(TypedDict):
    """See `infeasible`."""

    proved: bool
    notes: list[str]
    cap_bytes: float | None
    devices: int
    total_bytes: float
    fits_memory_bytes: float | None
    lack: Lack | None
    bound_memory_bytes: float | None
    blame: list[Blamed]


class Outcome(TypedDict):
    """How a search ended. cut_off: why, where that was not of itself; searched: how it was searched, where not as the
    page asks; packed: the answer itself."""

    kind: Literal["result"]
    status: str
    stop_reason: str
    planner: str
    runtime_s: float
    bound_s: float
    notes: list[str]
    infeasible: Infeasible | None
    cut_off: NotRequired[str]
    searched: NotRequired[str]
    packed: NotRequired[bytes]


class ResultEvent(Outcome):
    """See `result`."""

    plan: PlanView | None


class PackedOutcome(Outcome):
    """A result whose plan is packed."""

    plan: bytes


class ComparingEvent(TypedDict):
    """See `comparing`."""

    kind: Literal["comparing"]
    position: int
    runs: int
    planner: str
    elapsed_s: float
    objective_s: float | None


class RowEvent(TypedDict):
    """See `row`."""

    kind: Literal["row"]
    row: Row
    objective: str
    plan: bytes | None


class ComparedEvent(TypedDict):
    """See `compared`."""

    kind: Literal["compared"]
    finished: int
    runs: int
    contradictions: list[str]


class GivenView(TypedDict):
    """A plan that somebody gave, packed, with its graph. words: what it is. controls: what a page sets its own to."""

    plan: bytes
    skeleton: Skeleton
    words: str
    controls: NotRequired[Mapping[str, object]]


class OpenedEvent(TypedDict):
    """See `opened`."""

    kind: Literal["opened"]
    what: str
    name: str
    words: str
    devices: int
    memory_bytes: float | None
    plan: GivenView | None
    values: NodeData | None
    skeleton: Skeleton | None


class PlacedEvent(TypedDict):
    """See `placed`."""

    kind: Literal["placed"]
    view: GivenView


class Done(TypedDict):
    """See `done`. Of which shape it is, is said where a job's kind is done, in `explorer.jobs`. cut_off: as of
    `ResultEvent`."""

    kind: Literal["done"]
    answer: Mapping[str, object]
    cut_off: NotRequired[str]


class Part(TypedDict):
    """See `part`; its shape as of `Done`."""

    kind: Literal["part"]
    part: Mapping[str, object]


class Failed(TypedDict):
    """See `failed`. lines: of the log of a run, until then."""

    kind: Literal["failed"]
    message: str
    lines: NotRequired[list[str]]


class Prepared(TypedDict):
    """See `prepared`."""

    kind: Literal["prepared"]
    held: str
    target: str
    model: str
    text: bytes
    ranks: int
    refused: list[str]
    warnings: list[str]
    elsewhere: str


class Running(TypedDict):
    """See `running`."""

    kind: Literal["running"]
    phase: str
    done: int
    of: int
    lines: list[str]


class Ran(TypedDict):
    """See `ran`."""

    kind: Literal["ran"]
    run: RunView


class Planned(TypedDict):
    planner: str
    measured_s: float


class PlannedBefore(Planned):
    estimated_s: float


class ReplannedView(TypedDict):
    """A plan made again with measured costs, see `explorer.jobs.replan.replan_job`. text and plan: packed."""

    held: str
    target: str
    before: PlannedBefore
    after: Planned
    objective: str
    costs_from: str
    text: bytes
    plan: bytes
    skeleton: Skeleton
    words: str


class Replanned(ReplannedView):
    """See `replanned`."""

    kind: Literal["replanned"]


Searching = Waiting | Loading | Compiling | ModelEvent | ProgressEvent | ResultEvent
Event = (
    Searching | ComparingEvent | RowEvent | ComparedEvent | OpenedEvent | PlacedEvent | Done | Part | Failed
    | Prepared | Running | Ran | Replanned
)  # fmt: skip
"""Plain data, distinguished by ``kind``: waiting before anything else, compiling at any time; loading, model, progress,
result or failed for a solve; loading, model, comparing, row, compared or failed for a comparison."""

LAST = ("result", "compared", "prepared", "ran", "replanned", "opened", "placed", "done", "failed")
"""Kinds of which every job has exactly one, at its end."""

BLAMED = 5


def waiting(before: int, why: str = "") -> Waiting:
    """The job does not begin yet, or not again. before: how many have to end, or begin, before it does. why: what else
    keeps it waiting."""
    return {"kind": "waiting", "before": before, "why": why}


def before_you(event: Waiting) -> str:
    """The words of a ``waiting`` event."""
    return event["why"] or f"{event['before']} before you" if event["before"] else "for the solver"


def loading(what: str) -> Loading:
    """The worker is at something before the search: ``what`` is a short phrase."""
    return {"kind": "loading", "text": what}


def compiling(kernel: str, seconds: float) -> Compiling:
    """The worker compiles a kernel ("": no more), ``seconds`` so far since it started."""
    return {"kind": "compiling", "kernel": kernel, "seconds": seconds}


def model(workload: Workload) -> ModelEvent:
    """The graph to draw: its skeleton as `packed` leaves it, and the hash of that, by which one that is at hand already
    need not be unpacked."""
    drawn = skeleton(workload)
    return {"kind": "model", "hash": drawn["hash"], "skeleton": packed(drawn)}


def progress(
    problem: Problem, planner: str, step: Progress, plan: Plan | None, since: Sequence[Progress] = ()
) -> ProgressEvent:
    """A step of the search, with the view of the incumbent if there is a new one. since: the steps since the
    last one that was reported, this one left out."""
    view = None
    if plan is not None:
        view = plan_view(
            problem,
            plan,
            planner=planner,
            objective_s=step.objective_s,
            bound_s=step.bound_s,
            runtime_s=step.elapsed_s,
        )
    return {
        "kind": "progress",
        "elapsed_s": step.elapsed_s,
        "objective_s": finite_or_none(step.objective_s),
        "bound_s": finite_or_none(step.bound_s) or 0.0,
        "note": step.note,
        "steps": thinned([*since, step]),
        "plan": view,
    }


def result(
    outcome: Result,
    fits_memory_bytes: float | None = None,
    bound_memory_bytes: float | None = None,
    held: str = "",
    lack: Shortfall | None = None,
) -> ResultEvent:
    """The end of the search. fits_memory_bytes: the smallest cap a plan was found for, when none
    fits the cap asked for; bound_memory_bytes: a proved lower bound on any such cap. held: the name under
    which the worker holds the plan. lack: what plain splits lack, where there is no plan."""
    return {
        "kind": "result",
        "status": str(outcome.status),
        "stop_reason": str(outcome.stop_reason),
        "planner": outcome.planner,
        "runtime_s": outcome.runtime_s,
        "bound_s": finite_or_none(outcome.bound_s) or 0.0,
        "notes": list(outcome.notes),
        "plan": held_view(outcome, held),
        "infeasible": None
        if outcome.plan is not None
        else infeasible(outcome.problem, outcome.status, outcome.notes, fits_memory_bytes, bound_memory_bytes, lack),
    }


def cut_off(step: ProgressEvent, why: str) -> ResultEvent:
    """The end of a search whose process is gone: the plan of its last ``progress`` that had one, which nobody holds.
    why: for people, "" where they asked for it."""
    notes = [why] if why else []
    last = step["plan"]
    assert last is not None
    plan: PlanView = {**last, "notes": [*last["notes"], *notes], "stop_reason": "CANCELLED", "held": ""}
    return {
        "kind": "result",
        "status": "FEASIBLE",
        "stop_reason": "CANCELLED",
        "planner": plan["planner"],
        "runtime_s": step["elapsed_s"],
        "bound_s": step["bound_s"],
        "notes": notes,
        "plan": {**plan, "front": [], "trace": step["steps"]},
        "infeasible": None,
        "cut_off": why,
    }


def answered(status: str, stop_reason: str, planner: str, runtime_s: float, plan: PlanView) -> ResultEvent:
    """The ``result`` event that would have brought a plan."""
    return {
        "kind": "result",
        "status": status,
        "stop_reason": stop_reason,
        "planner": planner,
        "runtime_s": runtime_s,
        "bound_s": plan["bound_s"],
        "notes": plan["notes"],
        "plan": plan,
        "infeasible": None,
    }


def held_view(outcome: Result, held: str) -> PlanView | None:
    """The view of a result's plan with the name under which it is held, or None if there is no plan."""
    view = result_view(outcome)
    return None if view is None else {**view, "held": held, "front": front(outcome)}


def front(outcome: Result) -> list[Lean]:
    """The plans beside an answer, the fastest first: slower, the share of the answer's objective; less_bytes on
    ``device``, the one that holds most in the answer; peak_bytes, of the device that holds most in this plan."""
    if outcome.plan is None or not outcome.front:
        return []
    problem = outcome.problem
    own = judge(problem, outcome.plan)
    names = [device["name"] for device in devices(problem)]
    peaks = evaluate(problem, outcome.plan).peak_memory_bytes
    fullest = max(range(len(peaks)), key=lambda device: peaks[device])
    return [
        {
            "slower": one.objective_s / outcome.objective_s - 1 if outcome.objective_s > 0 else 0.0,
            "objective_s": one.objective_s,
            "less_bytes": own.peak_bytes - one.peak_bytes,
            "peak_bytes": one.peak_bytes,
            "device": names[fullest],
        }
        for one in outcome.front
    ]


def comparing(position: int, runs: int, planner: str, step: Progress) -> ComparingEvent:
    """The run at hand of a comparison, the ``position``-th of ``runs``, and how far it is."""
    return {
        "kind": "comparing",
        "position": position,
        "runs": runs,
        "planner": planner,
        "elapsed_s": step.elapsed_s,
        "objective_s": finite_or_none(step.objective_s),
    }


def row(result: Row, objective: Objective, outcome: Result | None, held: str = "") -> RowEvent:
    """A finished run of a comparison under ``objective``. plan: the view of its plan as `packed` leaves
    it, or None; a page keeps many of them and looks at few. held: as in `result`."""
    view = None if outcome is None else held_view(outcome, held)
    return {"kind": "row", "row": result, "objective": objective.value, "plan": None if view is None else packed(view)}


def compared(rows: Sequence[Row], runs: int) -> ComparedEvent:
    """The end of a comparison of which ``rows`` came; fewer than ``runs`` if it was stopped."""
    return {"kind": "compared", "finished": len(rows), "runs": runs, "contradictions": contradictions(rows)}


def packed(view: PlanView | Skeleton) -> bytes:
    """A plan's view, or a graph's skeleton, in a tenth of the memory; `unpacked` gives it back."""
    return zlib.compress(json.dumps(view, allow_nan=False).encode(), 1)


def unpacked(view: bytes) -> PlanView:
    """Only for what `packed` made in this program."""
    plan: PlanView = json.loads(zlib.decompress(view))
    return plan


def unpacked_graph(view: bytes) -> Skeleton:
    """The same for a graph's skeleton."""
    graph: Skeleton = json.loads(zlib.decompress(view))
    return graph


def packed_plan(event: ResultEvent) -> PackedOutcome:
    """A ``result`` event with its plan `packed`; `unpacked_plan` gives it back."""
    assert event["plan"] is not None
    return {**event, "plan": packed(event["plan"])}


def unpacked_plan(event: PackedOutcome) -> ResultEvent:
    return {**event, "plan": unpacked(event["plan"])}


def opened(
    what: str,
    name: str,
    words: str,
    devices: int = 0,
    memory_bytes: float | None = None,
    plan: GivenView | None = None,
    values: NodeData | None = None,
    drawn: Skeleton | None = None,
) -> OpenedEvent:
    """A file was read. what: "model", "plan", "profile", "times", "cluster", "values", "placement" or "traces"; words:
    a few on what is in it; devices: accelerators that it states, 0 for none; memory_bytes: what the largest of a
    cluster has. drawn: the skeleton of a model, so that it is drawn before anybody solves it."""
    return {
        "kind": "opened",
        "what": what,
        "name": name,
        "words": words,
        "devices": devices,
        "memory_bytes": finite_or_none(memory_bytes) if memory_bytes is not None else None,
        "plan": plan,
        "values": values,
        "skeleton": drawn,
    }


def placed(view: GivenView) -> PlacedEvent:
    """A placement made by hand was judged."""
    return {"kind": "placed", "view": view}


def done(what: Mapping[str, object]) -> Done:
    """The end of a job about plans that are there."""
    return {"kind": "done", "answer": what}


def part(what: Mapping[str, object]) -> Part:
    """One of several answers of a job about plans."""
    return {"kind": "part", "part": what}


def failed(message: str) -> Failed:
    """Bad input, an unsupported problem, or a defect; ``message`` is one line for people."""
    return {"kind": "failed", "message": message}


def _lack(lack: Shortfall | None, devices: Sequence[Device]) -> Lack | None:
    if lack is None:
        return None
    return {
        "device": devices[lack.device]["name"],
        "needs_bytes": lack.peak_bytes,
        "cap_bytes": lack.cap_bytes,
        "parts": [{"name": name, "bytes": size} for name, size in lack.parts.items()],
        "modules": [{"name": name, "bytes": size} for name, size in list(lack.modules.items())[:BLAMED]],
    }


def infeasible(
    problem: Problem,
    status: Status,
    notes: tuple[str, ...],
    fits_memory_bytes: float | None,
    bound_memory_bytes: float | None,
    lack: Shortfall | None = None,
) -> Infeasible:
    """Why there is no plan: what the leanest plain split lacks, the operators that hold most, and the caps that would
    do; of those that were found only one that such a device can have."""
    static = problem.static_bytes().tolist()
    heaviest = sorted(range(len(static)), key=lambda i: -static[i])[:BLAMED]
    named = devices(problem)
    caps = [d["memory_bytes"] for d in named if d["memory_bytes"]]
    own = [kind.memory_bytes for d in named if (kind := DEVICES.get(d["kind"])) is not None]
    real = fits_memory_bytes is None or len(own) < len(named) or fits_memory_bytes <= max(own)
    return {
        "proved": status is Status.INFEASIBLE,
        "notes": list(notes),
        "cap_bytes": min(caps, default=None),
        "devices": len(named),
        "total_bytes": sum(static),
        "fits_memory_bytes": finite_or_none(fits_memory_bytes) if fits_memory_bytes is not None and real else None,
        "lack": _lack(lack, named),
        "bound_memory_bytes": finite_or_none(bound_memory_bytes) if bound_memory_bytes is not None else None,
        "blame": [
            {"name": problem.graph.operators[i].name, "bytes": static[i], "text": text.nbytes(static[i])}
            for i in heaviest
            if static[i] > 0
        ],
    }
