"""Ask every point in turn; each answer is a row, also that nothing fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from typing import TypedDict, cast

from explorer.costs.interval import interval
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.execution.cluster import Cluster, ask_cluster
from explorer.sweeps.execution.order import Order
from explorer.sweeps.execution.questions import (
    FAILED,
    INVALID,
    UNSUPPORTED,
    Answer,
    Limits,
    Question,
    answered,
    refused,
)
from explorer.sweeps.execution.queue import AnswerStore, Course, ask_all
from explorer.sweeps.execution.workers import Workers
from explorer.sweeps.points import AXES, Point, check_count
from solvers.errors import InvalidPlan, InvalidProblem, UnsupportedProblem
from solvers.evaluation.evaluate import Metrics
from solvers.formats.json_text import finite_or_none
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.solve import solve
from solvers.search.monitor import never
from solvers.search.planner import Planner

__all__ = ["FAILED", "INVALID", "STARTS", "UNSUPPORTED", "Cell", "Row", "before", "cell_rows", "cells", "row_object",
           "sweep_rows"]  # fmt: skip

STARTS = ("auto",)
"""Planners that begin with an earlier answer. They improve whatever they are given; of the others a row is to say what
that planner finds by itself."""

USUAL = Limits()
Solve = Callable[..., Result]


@dataclass(frozen=True)
class Row:
    """The answer at a point. result: None where the question could not be asked, for the ``reason``. metrics: of its
    plan. started_from: the position of the row whose plan the search began with, None if it began afresh. model and
    planner: as asked, where a sweep has several."""

    point: Point
    result: Result | None = None
    metrics: Metrics | None = None
    status: str = INVALID
    reason: str = ""
    started_from: int | None = None
    model: str = ""
    planner: str = ""

    @property
    def plan(self) -> Plan | None:
        return None if self.result is None else self.result.plan


def sweep_rows(
    workload: Workload,
    base: Settings,
    points: Sequence[Point],
    planner: Planner,
    limits: Limits = USUAL,
    *,
    fresh: bool = False,
    should_stop: Callable[[], bool] = never,
    solver: Solve = solve,
) -> Iterator[Row]:
    """A row for every point, as it is found; each search within ``limits``.

    A planner of STARTS begins with the plan of the row before that differs in the fewest values (the last of these;
    one without a plan starts nobody), unless ``fresh``: so a larger cap, or one more device, never makes a plan worse.
    When ``should_stop`` turns true, the search at hand still gives its best plan, and no other begins. solver: what
    solves a problem.
    """
    rows: list[Row] = []
    starts = planner.name in STARTS and not fresh
    order = Order(len(points), lambda position: _nearest(points, position) if starts else ())
    while not should_stop() and (position := order.next()) is not None:
        point = points[position]
        begun = order.start(position)
        start = None if begun is None else rows[begun].plan
        try:
            answer = answered(
                solver(
                    make_problem(workload, point.settings(base)), planner, start=start, should_stop=should_stop,
                    **asdict(limits),
                )
            )  # fmt: skip
        except (InvalidProblem, UnsupportedProblem, InvalidPlan) as error:
            answer = refused(error)
        rows.append(_row(point, answer, begun))
        order.answered(position, answer.plan is not None)
        yield rows[-1]


@dataclass(frozen=True, eq=False)
class Cell:
    """One question of a sweep of several models and planners. planner: as `choose_planner` reads it."""

    workload: Workload
    planner: str
    point: Point


def cells(workloads: Sequence[Workload], planners: Sequence[str], points: Sequence[Point]) -> tuple[Cell, ...]:
    """Every model with every planner at every point, the points changing first. Raises InvalidProblem for more than
    MAX_POINTS."""
    check_count(len(workloads) * len(planners) * len(points))
    return tuple(Cell(*one) for one in product(workloads, planners, points))


def before(cells: Sequence[Cell], *, fresh: bool = False) -> Callable[[int], Sequence[int]]:
    """Position -> the earlier cells whose plan its search may begin with, the nearest first: of the same model and
    planner, that differ in the fewest values, and of these the last. () for planners that are not in STARTS."""
    groups: dict[tuple[int, str], list[int]] = {}
    place: dict[int, int] = {}
    for position, cell in enumerate(cells):
        group = groups.setdefault((id(cell.workload), cell.planner), [])
        place[position] = len(group)
        group.append(position)

    @cache
    def nearest(position: int) -> Sequence[int]:
        cell = cells[position]
        if fresh or cell.planner.partition(":")[0] not in STARTS:
            return ()
        group = groups[id(cell.workload), cell.planner]
        return [group[i] for i in _nearest([cells[p].point for p in group[: place[position] + 1]], place[position])]

    return nearest


def cell_rows(
    cells: Sequence[Cell],
    base: Settings,
    limits: Limits,
    workers: Workers | Cluster,
    library: AnswerStore,
    *,
    fresh: bool = False,
    should_stop: Callable[[], bool] = never,
    on_course: Callable[[Course], None] = lambda _: None,
) -> Iterator[tuple[int, Row]]:
    """(position, row) for every cell, as they come. Each search begins as that of `sweep_rows` does, whoever the
    workers are and in whichever order they answer; see `ask_all` and `ask_cluster` for the rest."""

    def question(position: int) -> Question:
        cell = cells[position]
        return Question(
            make_problem(cell.workload, cell.point.settings(base)), cell.planner, limits, cell.workload.reference
        )

    nearest = before(cells, fresh=fresh)
    if isinstance(workers, Cluster):
        answers = ask_cluster(
            workers, len(cells), nearest, question, library, should_stop=should_stop, on_course=on_course
        )
    else:
        order = Order(len(cells), nearest)
        answers = ask_all(order, question, workers, library, should_stop=should_stop, on_course=on_course)
    for returned in answers:
        cell = cells[returned.position]
        row = _row(cell.point, returned.answer, returned.started_from)
        yield returned.position, replace(row, model=cell.workload.reference, planner=cell.planner)


def _row(point: Point, answer: Answer, begun: int | None) -> Row:
    started_from = None if answer.result is None else begun
    return Row(point, answer.result, answer.metrics(), answer.status, answer.reason, started_from)


def _nearest(points: Sequence[Point], position: int) -> list[int]:
    """The points before, those first that differ in the fewest values, and of these the last."""
    return sorted(range(position), key=lambda i: (points[i].distance(points[position]), -i))


class RowView(TypedDict):
    """A row, numbers in seconds, bytes and samples a second; the values of `AXES` beside them, by their names."""

    status: str
    reason: str
    planner: str | None
    stop_reason: str | None
    objective: str | None
    objective_s: float | None
    low_s: float | None
    high_s: float | None
    bound_s: float | None
    gap: float | None
    iteration_s: float | None
    throughput_per_s: float | None
    bubble: float | None
    peak_memory_bytes: float | None
    order: str | None
    devices_used: int | None
    micro_batches_used: int | None
    runtime_s: float | None
    started_from: int | None


def row_object(row: Row) -> RowView:
    """A row as JSON, null where there is none. low_s, high_s: between which the objective may lie where it is estimated
    (`costs.interval`)."""
    axes = {axis: getattr(row.point, axis) for axis in AXES}
    result, metrics = row.result, row.metrics
    plan = row.plan
    within = None if result is None else interval(result.problem, plan, result.objective_s)
    fields: RowView = {
        "status": row.status,
        "reason": row.reason,
        "planner": None if result is None else result.planner,
        "stop_reason": None if result is None else result.stop_reason.value,
        "objective": None if result is None else result.problem.objective.value,
        "objective_s": None if result is None else finite_or_none(result.objective_s),
        "low_s": None if within is None else within.low_s,
        "high_s": None if within is None else within.high_s,
        "bound_s": None if result is None or not math.isfinite(result.bound_s) else result.bound_s,
        "gap": None if result is None else finite_or_none(result.gap),
        "iteration_s": None if metrics is None else finite_or_none(metrics.iteration_s),
        "throughput_per_s": None if metrics is None else finite_or_none(metrics.throughput_per_s),
        "bubble": None if metrics is None else finite_or_none(metrics.bubble),
        "peak_memory_bytes": None if metrics is None else finite_or_none(max(metrics.peak_memory_bytes)),
        "order": None if plan is None else plan.pipeline,
        "devices_used": None if plan is None else len(plan.devices_used()),
        "micro_batches_used": None if plan is None or result is None else _split(result, plan),
        "runtime_s": None if result is None else result.runtime_s,
        "started_from": row.started_from,
    }
    return cast(RowView, {**axes, **fields})


def _split(result: Result, plan: Plan) -> int:
    """Micro-batches of the stage that has most."""
    return max(max(1, result.problem.mini_batch // stage.micro_batch_size) for stage in plan.stages)
