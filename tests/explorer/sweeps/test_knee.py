"""The knee of a curve, and curves of several pipelines over memory."""

from __future__ import annotations

import pytest

import explorer
from explorer.costs.regions import Recompute
from explorer.question.settings import Settings
from explorer.sweeps.answers import Sweep, curves_picture
from explorer.sweeps.knee import knee
from explorer.sweeps.points import Axes, Point, points
from explorer.view.pictures.shapes import Label
from solvers.errors import InvalidProblem
from solvers.problem.problem import Pipeline
from tests.explorer.runner.plans import workload
from tests.explorer.view.small import chain_workload


def test_the_knee_is_where_more_begins_to_help_little() -> None:
    assert knee([1, 2, 3, 4, 5], [10, 4, 3.5, 3.2, 3]) == 1


def test_there_is_none_in_a_straight_line_a_flat_one_or_one_that_rises() -> None:
    assert knee([1, 2, 3], [3, 2, 1]) is None
    assert knee([1, 2, 3], [2, 2, 2]) is None
    assert knee([1, 2, 3], [1, 2, 3]) is None
    assert knee([1, 2], [3, 1]) is None


def test_points_without_a_plan_are_passed_over_and_worse_ones_count_as_the_best_before() -> None:
    assert knee([1, 2, 3, 4, 5], [None, 10, 4, 4.4, 3]) == 2


def test_a_pipeline_is_a_value_of_a_point_and_plans_of_others_are_the_last_to_begin_with() -> None:
    question = points(Axes(memory_bytes=(8e9, 16e9), pipeline=(Pipeline.ZB_V, Pipeline.V_MIN)))
    assert [point.words() for point in question[:2]] == ["7.45 GiB, zb-v", "7.45 GiB, v-min"]
    assert question[3].settings(Settings()).pipeline is Pipeline.V_MIN
    assert question[3].distance(question[1]) < question[3].distance(question[2])
    assert Point(2).distance(Point(4)) == 1


@pytest.mark.slow
def test_a_sweep_over_caps_and_pipelines_is_a_line_each() -> None:
    swept = explorer.sweep(
        chain_workload(), memory=[8e9, 16e9], pipelines=["1f1b", "zb-v"], effort="quick", library=False
    )
    assert [row.status for row in swept].count("INVALID") == 0
    picture = Sweep(swept).curve()
    assert picture is not None
    words = {shape.text for shape in picture.shapes if isinstance(shape, Label)}
    assert {"1f1b", "zb-v"} <= words
    assert "zb-v" in picture.title
    assert picture.svg().count("polyline") >= 2


def test_a_knee_has_a_ring() -> None:
    bent = curves_picture({"zb-v": [10.0, 4.0, 3.5, 3.2, 3.0]}, [1e9, 2e9, 3e9, 4e9, 5e9], "Iteration time")
    straight = curves_picture({"zb-v": [5.0, 4.0, 3.0, 2.0, 1.0]}, [1e9, 2e9, 3e9, 4e9, 5e9], "Iteration time")
    assert bent.svg().count("<title>knee</title>") == 1
    assert "<title>knee</title>" not in straight.svg()


@pytest.mark.slow
def test_a_sweep_over_caps_and_ways_to_recompute_is_a_line_each() -> None:
    swept = explorer.sweep(
        workload("gpt-small"),
        devices=[2],
        memory=[7e5, 1e6],
        recomputes=["none", "budget"],
        effort="quick",
        library=False,
    )
    assert [row.point.recompute for row in swept] == [Recompute.NONE, Recompute.BUDGET] * 2
    assert [row.plan is not None for row in swept] == [False, True, True, True]
    picture = swept.curve()
    assert picture is not None
    assert {"none", "budget"} <= {shape.text for shape in picture.shapes if isinstance(shape, Label)}
    with pytest.raises(InvalidProblem, match="recompute"):
        explorer.sweep(workload("gpt-small"), recomputes=["half"], library=False)
