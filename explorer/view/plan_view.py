"""A plan as plain data: everything the page shows of it, computed next to the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Required, TypedDict, Unpack, cast

from explorer.costs.interval import interval
from explorer.costs.times.share import costs_words
from explorer.costs.trained_in import assumed_notes
from explorer.view.figures import figures_of, metrics_object
from explorer.view.folded import class_name, folded, numbers_words, of_devices
from explorer.view.graph.search import thinned
from explorer.view.graph.skeleton import structure_hash
from explorer.view.graph.stage_graph import again_s, stage_edges, stage_facts
from explorer.view.instants.played import course
from explorer.view.plan_types import Answered, Device, FigureView, Metrics, PlanView, ScheduleView
from explorer.view.timeline.bars import bars
from explorer.view.timeline.charts import memory_curve
from explorer.view.timeline.exchanges import OfActions, OfSpan, exchanges, of_spans
from explorer.view.timeline.lanes import UNKNOWN, endpoints, link_uses
from explorer.view.timeline.operator_bars import operator_bars
from explorer.view.timeline.order import order_of
from explorer.view.timeline.path import path_view
from explorer.view.timeline.phases import plan_phases
from explorer.view.timeline.why import breakdown
from solvers.evaluation.evaluate import Metrics as Evaluated
from solvers.evaluation.evaluate import examine
from solvers.evaluation.memory_parts import memory_parts
from solvers.formats.json_text import finite_or_none
from solvers.formats.result_json import degree_json
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result, Status
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Execution, Objective, Origin, Problem


class AnswerFields(TypedDict, total=False):
    """What a search says of a plan. stop_reason: "" while it goes on; runtime_s: so far."""

    planner: Required[str]
    objective_s: Required[float]
    bound_s: Required[float]
    status: Status
    stop_reason: str
    runtime_s: float
    notes: Sequence[str]
    trace: Sequence[Progress]


def plan_view(problem: Problem, plan: Plan, **answer: Unpack[AnswerFields]) -> PlanView:
    """The view of a plan, final or incumbent, under the problem's objective.

    graph: see `structure_hash`; placement: per operator the list of its devices; stage_of: per operator its stage;
    stages, stage_edges: see `stage_facts` and `stage_edges`; phases: see `plan_phases`; seconds: per
    operator its compute time for one micro-batch; origins: where each of these is from (`Origin`), None where they do
    not differ; pinned: the operators that are; metrics: see `metrics_object`; figures: the fields of `Figures`. Of many
    devices that do the same there is one (see `devices`).
    """
    metrics, schedule = examine(problem, plan)
    exchanged = exchanges(problem, plan), of_spans(problem, plan)
    whole, (problem, plan, schedule, every) = problem, folded(problem, plan, schedule)
    shown = of_devices(metrics, [same[0] for same in every])
    single = problem.objective is Objective.MAKESPAN
    named = devices(problem, every, len(whole.cluster.accelerators))
    placement, stage_of = _placement(problem, plan)
    edges = stage_edges(problem, plan)
    samples = problem.mini_batch if single else plan.stages[0].micro_batch_size
    drawn = _schedule_view(problem, plan, schedule, shown, [device["name"] for device in named], exchanged)
    idle = _idle(drawn["busy_s"], drawn["span_s"]) if single else None
    within = interval(problem, plan, answer["objective_s"])
    return {
        **_answered(answer),
        **drawn,
        "objective": str(problem.objective),
        "contiguity": str(problem.contiguity),
        "subgraphs": (problem.subgraphs_per_device or 0) if problem.is_latency else None,
        "graph": structure_hash(problem.graph),
        "devices": named,
        "placement": placement,
        "stage_of": stage_of,
        "stages": stage_facts(plan, schedule, edges),
        "stage_edges": list(edges),
        "phases": plan_phases(plan, schedule),
        "pipeline": plan.pipeline,
        "order": order_of(problem, plan),
        "samples": samples,
        "mini_batch": problem.mini_batch,
        "costs_from": costs_words(problem, plan, share_first=True),
        "pinned": sorted(problem.pins),
        "modules": [o.module_path for o in problem.graph.operators],
        "seconds": _seconds(problem, placement, samples),
        "origins": _origins(problem, placement, samples),
        "metrics": cast(Metrics, metrics_object(shown)),
        "figures": cast(
            FigureView, asdict(figures_of(whole, metrics, answer["bound_s"], answer["objective_s"], idle, within))
        ),
    }


def _answered(answer: AnswerFields) -> Answered:
    return {
        "status": str(answer.get("status", Status.FEASIBLE)),
        "stop_reason": answer.get("stop_reason", ""),
        "planner": answer["planner"],
        "objective_s": finite_or_none(answer["objective_s"]),
        "bound_s": finite_or_none(answer["bound_s"]) or 0.0,
        "runtime_s": answer.get("runtime_s", 0.0),
        "notes": list(answer.get("notes", ())),
        "trace": thinned(answer.get("trace", ())),
    }


def _schedule_view(
    problem: Problem,
    plan: Plan,
    schedule: Schedule,
    metrics: Evaluated,
    names: Sequence[str],
    exchanged: tuple[OfActions, OfSpan],
) -> ScheduleView:
    """bars: see `bars`; by_operator: whether the schedule is one of single operators, with all_spans of it as bars (see
    `operator_bars`); links: see `link_uses`; path: see `path_view`; span_s: the end of the schedule drawn; bottleneck:
    the device that decides the objective; course: see `explorer.view.instants.played`. exchanged: what members of
    groups exchange in actions, and in spans."""
    span_s, busy = schedule.makespan_s, schedule.busy_per_device_s()
    by_operator = problem.objective is Objective.MAKESPAN and problem.execution is Execution.OPERATOR
    links = link_uses(schedule, names)
    at = {use["resource"]: i for i, use in enumerate(links)}
    senders = endpoints(schedule) if by_operator else [UNKNOWN] * len(schedule.spans)
    drawn_bars, all_spans = operator_bars(schedule, senders, at, exchanged=exchanged[1]) if by_operator else (
        bars(schedule, again_s=again_s(plan, schedule), links=at, exchanged=exchanged[0]), False)  # fmt: skip
    loads = metrics.load_s if problem.objective is Objective.MAX_LOAD else busy
    bottleneck = max(range(len(loads)), key=lambda d: loads[d])
    moves = [(s.device, s.to_device, s.start_s, s.end_s) for s in schedule.spans]
    exchange_s = sum(exchanged[1](s).seconds for s in schedule.spans if s.device == bottleneck)
    parts = memory_parts(problem, plan, metrics.peak_memory_bytes)
    return {
        "bars": drawn_bars,
        "by_operator": by_operator,
        "all_spans": all_spans,
        "links": links,
        "path": path_view(schedule, senders, [o.name for o in problem.graph.operators], names, at, exchanged[1]),
        "spans": len(schedule.spans),
        "course": course(schedule),
        "span_s": span_s,
        "busy_s": list(busy),
        "bottleneck": bottleneck,
        "breakdown": breakdown(moves, bottleneck, span_s, exchange_s),
        "memory": [
            {**memory_curve(c.times_s, c.nbytes, c.static_bytes, span_s), "parts": list(held.items())}
            for c, held in zip(schedule.memory, parts, strict=True)
        ],
    }


def result_view(result: Result) -> PlanView | None:
    """The view of a result's plan, or None if it has none."""
    if result.plan is None:
        return None
    view = plan_view(
        result.problem,
        result.plan,
        planner=result.planner,
        objective_s=result.objective_s,
        bound_s=result.bound_s,
        status=result.status,
        stop_reason=str(result.stop_reason),
        runtime_s=result.runtime_s,
        notes=(*result.notes, *assumed_notes(result.problem, result.plan)),
        trace=result.trace,
    )
    return {**view, "by_degrees": [degree_json(row) for row in result.by_degrees]} if result.by_degrees else view


def devices(problem: Problem, every: Sequence[Sequence[int]] = (), gpus: int | None = None) -> list[Device]:
    """Devices with the names people read: "GPU 3", "CPU 0", "CPU core 3"; memory_bytes is None without a cap. node: the
    host. every: the numbers of those for which each stands, where these are not their own; then alike says which these
    are: "0-127". A tensor-parallel group is a device with the numbers of its members: "GPU 0-3". gpus: how many
    accelerators there are of these."""
    specs = problem.cluster.devices
    sizes = [device.members or problem.graph.tensor_parallel for device in specs]
    mixed = any(device.members for device in specs)
    before = [0, *accumulate(sizes)]
    total = before[-1] if mixed else (len(problem.cluster.accelerators) if gpus is None else gpus) * sizes[0]
    rows: list[Device] = []
    for i, device in enumerate(specs):
        same, size = every[i] if every else (i,), sizes[i]
        firsts = [before[group] if mixed else group * size for group in same]
        members = [first + member for first in firsts for member in range(size)]
        shown: Device = {
            "index": i,
            "name": class_name(device.kind, members, total),
            "alike": numbers_words(members) if len(same) > 1 else "",
            "count": len(same),
            "kind": device.kind,
            "memory_bytes": finite_or_none(device.memory_bytes),
            "node": device.node,
        }
        if size > 1:
            shown["members"] = size
        rows.append(shown)
    return rows


def _idle(busy_s: Sequence[float], span_s: float) -> float:
    """Share of the time of the devices that do anything in one pass."""
    used = [busy for busy in busy_s if busy > 0]
    return max(0.0, 1 - sum(used) / (span_s * len(used))) if span_s and used else 0.0


def _placement(problem: Problem, plan: Plan) -> tuple[list[list[int]], list[int]]:
    placement: list[list[int]] = [[] for _ in problem.graph.operators]
    stage_of = [-1] * len(placement)
    for index, stage in enumerate(plan.stages):
        for operator in stage.operators:
            placement[operator] += [d for d in stage.devices if d not in placement[operator]]
            stage_of[operator] = index
    return placement, stage_of


def _seconds(problem: Problem, placement: list[list[int]], samples: int) -> list[float]:
    tables = {d.kind: problem.compute.at(d.kind, samples).tolist() for d in problem.cluster.devices}
    kinds = [d.kind for d in problem.cluster.devices]
    return [float(tables[kinds[places[0]]][i]) if places else 0.0 for i, places in enumerate(placement)]


def _origins(problem: Problem, placement: list[list[int]], samples: int) -> list[int] | None:
    if not problem.compute.origins:
        return None
    tables = {d.kind: problem.compute.origin_at(d.kind, samples) for d in problem.cluster.devices}
    kinds = [d.kind for d in problem.cluster.devices]
    origins = [tables[kinds[places[0]]] if places else None for places in placement]
    return [int(Origin.ESTIMATED if of is None else of[i]) for i, of in enumerate(origins)]
