"""Ask every point in turn; each answer is a row, also that nothing fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.points import AXES, Point
from solvers.errors import InvalidPlan, InvalidProblem, UnsupportedProblem
from solvers.evaluation.evaluate import Metrics, evaluate
from solvers.formats.json_text import finite_or_none
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.solve import solve
from solvers.search.effort import Effort
from solvers.search.monitor import ignore, never
from solvers.search.planner import Planner

INVALID, UNSUPPORTED, FAILED = "INVALID", "UNSUPPORTED", "FAILED"
"""Besides the statuses of results: the settings of the point contradict each other or the model, the planner cannot
represent it, or it broke a rule (a defect)."""
STARTS = ("auto",)
"""Planners that begin with an earlier answer. They improve whatever they are given; of the others a row is to say what
that planner finds by itself."""

Solve = Callable[..., Result]


@dataclass(frozen=True)
class Row:
    """The answer at a point. result: None where the question could not be asked, for the ``reason``. metrics: of its
    plan. started_from: the position of the row whose plan the search began with, None if it began afresh."""

    point: Point
    result: Result | None = None
    metrics: Metrics | None = None
    status: str = INVALID
    reason: str = ""
    started_from: int | None = None

    @property
    def plan(self) -> Plan | None:
        return None if self.result is None else self.result.plan


def sweep_rows(
    workload: Workload,
    base: Settings,
    asked: Sequence[Point],
    planner: Planner,
    *,
    effort: Effort = Effort.NORMAL,
    time_limit_s: float = 60.0,
    gap: float = 0.0,
    seed: int = 0,
    fresh: bool = False,
    should_stop: Callable[[], bool] = never,
    on_begin: Callable[[int, Point], None] = lambda _, __: None,
    on_progress: Callable[[Progress, Plan | None], None] = ignore,
    ask: Solve = solve,
) -> Iterator[Row]:
    """A row for every point, as it is found; each search for at most ``time_limit_s``.

    A planner of STARTS begins with the plan of the row before that differs in the fewest values (the last of these),
    unless ``fresh``: so a larger cap, or one more device, never makes a plan worse. When ``should_stop`` turns true,
    the search at hand still gives its best plan, and no other begins. on_begin gets the position of the point that
    begins, on_progress the steps of its search. ask: what solves a problem.
    """
    rows: list[Row] = []
    for position, point in enumerate(asked):
        if should_stop():
            return
        on_begin(position, point)
        begun = None if fresh or planner.name not in STARTS else _nearest(rows, point)
        start = None if begun is None else rows[begun].plan
        try:
            problem = make_problem(workload, point.settings(base))
            result = ask(
                problem, planner, start=start, effort=effort, time_limit_s=time_limit_s, gap=gap, seed=seed,
                should_stop=should_stop, on_progress=on_progress,
            )  # fmt: skip
            metrics = None if result.plan is None else evaluate(problem, result.plan)
        except InvalidProblem as error:
            row = Row(point, status=INVALID, reason=str(error))
        except UnsupportedProblem as error:
            row = Row(point, status=UNSUPPORTED, reason=str(error))
        except InvalidPlan as error:
            row = Row(point, status=FAILED, reason=str(error))
        else:
            reason = "" if result.plan is not None else "; ".join(result.notes)
            row = Row(point, result, metrics, result.status.value, reason, begun)
        rows.append(row)
        yield row


def _nearest(rows: Sequence[Row], point: Point) -> int | None:
    with_plan = [i for i, row in enumerate(rows) if row.plan is not None]
    return min(with_plan, key=lambda i: (rows[i].point.apart(point), -i), default=None)


def row_object(row: Row) -> dict[str, Any]:
    """A row as JSON, numbers in seconds, bytes and samples a second; null where there is none."""
    found: dict[str, Any] = {axis: getattr(row.point, axis) for axis in AXES}
    result, metrics = row.result, row.metrics
    plan = row.plan
    found |= {
        "status": row.status,
        "reason": row.reason,
        "planner": None if result is None else result.planner,
        "stop_reason": None if result is None else result.stop_reason.value,
        "objective": None if result is None else result.problem.objective.value,
        "objective_s": None if result is None else finite_or_none(result.objective_s),
        "bound_s": None if result is None or not math.isfinite(result.bound_s) else result.bound_s,
        "gap": None if result is None else finite_or_none(result.gap),
        "iteration_s": None if metrics is None else finite_or_none(metrics.iteration_s),
        "throughput_per_s": None if metrics is None else finite_or_none(metrics.throughput_per_s),
        "peak_memory_bytes": None if metrics is None else finite_or_none(max(metrics.peak_memory_bytes)),
        "devices_used": None if plan is None else len(plan.devices_used()),
        "micro_batches_used": None if plan is None or result is None else _split(result, plan),
        "runtime_s": None if result is None else result.runtime_s,
        "started_from": row.started_from,
    }
    return found


def _split(result: Result, plan: Plan) -> int:
    """Micro-batches of the stage that has most."""
    return max(max(1, result.problem.mini_batch // stage.micro_batch_size) for stage in plan.stages)
