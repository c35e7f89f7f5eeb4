"""A sweep asks every point, keeps every answer, and starts from the nearest one where that is fair."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.question.planner_choice import choose_planner
from explorer.question.settings import Settings
from explorer.sweeps.points import Axes, Point, points
from explorer.sweeps.sweep import INVALID, Row, row_object, sweep_rows
from solvers.errors import InvalidPlan
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from tests.explorer.view.small import MIB, chain_workload

BASE = Settings(mini_batch=8)


def swept(question: tuple[Point, ...], planner: str = "equal", **more: Any) -> list[Row]:
    return list(sweep_rows(chain_workload(), BASE, question, choose_planner(planner), **more))


class Remembering:
    """Solves with `equal` whatever is asked, and remembers the starts."""

    def __init__(self) -> None:
        self.starts: list[Plan | None] = []

    def __call__(self, problem: Problem, _: object, *, start: Plan | None, **__: object) -> Result:
        self.starts.append(start)
        return solve(problem, "equal")


def test_a_row_for_every_point_also_where_nothing_fits_or_can_be_solved() -> None:
    rows = swept((Point(2), Point(2, memory_bytes=MIB), Point(2, micro_batches=3)))
    assert [row.status for row in rows] == ["FEASIBLE", "INFEASIBLE", INVALID]
    assert rows[0].plan is not None
    assert rows[1].reason.startswith("every plan needs at least")
    assert "micro_batches must divide the mini-batch of 8" in rows[2].reason
    shown = [row_object(row) for row in rows]
    assert [row["iteration_s"] is None for row in shown] == [False, True, True]
    assert shown[0]["throughput_per_s"] == pytest.approx(8 / shown[0]["iteration_s"])
    assert 0 < shown[0]["bound_s"] <= shown[0]["objective_s"]
    assert shown[0].keys() == shown[2].keys()


def test_auto_begins_with_the_nearest_plan_before() -> None:
    solver = Remembering()
    question = points(Axes(devices=(1, 2), memory_bytes=(8e9, 16e9)))
    rows = swept(question, "auto", solver=solver)
    # 2 devices of 8 GB: nearest is 1 device of 8 GB, not the latest; then the same devices
    assert [row.started_from for row in rows] == [None, 0, 0, 2]
    assert solver.starts == [None, rows[0].plan, rows[0].plan, rows[2].plan]


def test_other_planners_and_fresh_sweeps_begin_with_nothing() -> None:
    for planner, fresh in (("equal", False), ("auto", True)):
        solver = Remembering()
        rows = swept((Point(1), Point(2)), planner, fresh=fresh, solver=solver)
        assert solver.starts == [None, None]
        assert [row.started_from for row in rows] == [None, None]


def test_a_row_without_a_plan_starts_nobody() -> None:
    solver = Remembering()
    rows = swept((Point(2, memory_bytes=MIB), Point(2)), "auto", solver=solver)
    assert rows[0].plan is None
    assert rows[1].started_from is None


def test_a_stop_keeps_the_rows_that_are_there() -> None:
    solver = Remembering()
    rows = swept((Point(1), Point(2), Point(4)), solver=solver, should_stop=lambda: len(solver.starts) == 2)
    assert [row.point for row in rows] == [Point(1), Point(2)]


def test_a_planner_that_breaks_a_rule_costs_its_row_only() -> None:
    def broken(problem: Problem, *_: object, **__: object) -> Result:
        if len(problem.cluster) == 1:
            raise InvalidPlan("a rule")
        return solve(problem, "equal")

    rows = swept((Point(1), Point(2)), solver=broken)
    assert [(row.status, row.reason) for row in rows] == [("FAILED", "a rule"), ("FEASIBLE", "")]


def test_faster_links_are_requested() -> None:
    rows = swept(points(Axes(devices=(4,), bandwidth_bytes_per_s=(1e9, 100e9))))
    times = [row.metrics.iteration_s for row in rows if row.metrics is not None]
    assert times[0] > times[1]
