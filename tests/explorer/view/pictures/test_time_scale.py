"""From seconds to pixels, by hand."""

from __future__ import annotations

import pytest

from explorer.view.pictures.time_scale import BREAK, LEAST_SHOWN, TimeScale, time_scale
from explorer.view.plan_types import PlanView
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import judge
from tests.explorer.view.small import chain_problem, even_plan

CUT = TimeScale(x=100.0, per_s=10.0, end_s=50.0, cut_s=20.0, resume_s=40.0, left_out=4, period_s=5.0, alike=True)


def view(micro_batches: int) -> PlanView:
    problem = chain_problem(4, mini_batch=micro_batches, micro_batches=micro_batches)
    plan = even_plan(problem)
    return plan_view(problem, plan, planner="", objective_s=judge(problem, plan).objective_s, bound_s=0.0)


@pytest.mark.parametrize(
    ("interval", "parts"),
    [
        ((0.0, 10.0), [(100.0, 100.0)]),
        ((15.0, 25.0), [(250.0, 50.0)]),
        ((25.0, 35.0), []),
        ((35.0, 45.0), [(300.0 + BREAK, 50.0)]),
        ((15.0, 45.0), [(250.0, 50.0), (300.0 + BREAK, 50.0)]),
    ],
)
def test_an_interval_is_drawn_on_the_sides_of_the_break(
    interval: tuple[float, float], parts: list[tuple[float, float]]
) -> None:
    assert CUT.parts(*interval) == parts


def test_a_few_micro_batches_are_drawn_whole() -> None:
    assert not time_scale(view(8), 100.0, 1000.0).is_cut


def test_of_many_the_middle_is_left_out_and_ramp_and_drain_are_not() -> None:
    plan = view(64)
    scale = time_scale(plan, 100.0, 1000.0)
    rows = [row for row in plan["phases"]["devices"] if row is not None]
    assert scale.is_cut
    assert scale.cut_s > max(row[0] for row in rows)
    assert scale.resume_s < min(row[1] for row in rows)
    assert scale.resume_s - scale.cut_s == pytest.approx(scale.left_out * scale.period_s, rel=0.05)
    assert scale.left_out <= 64 - 2 * LEAST_SHOWN
    assert scale.at(scale.end_s) == pytest.approx(1100.0)
