"""The course of a search: every plan counts, and the picture keeps its scale."""

import json
import math

from explorer.view.graph.search import FAR, curve, evenly, thinned
from explorer.web.redraw.drawing import search_message
from solvers.plan.result import Progress

INF = math.inf
TRACE = (
    Progress(0.0, INF, 4.0, "bound"),
    Progress(0.1, 10.0, 4.0),
    Progress(0.5, 8.0, 4.0),
    Progress(0.7, 8.0, 6.0),
    Progress(2.0, 7.0, 6.0),
)


def test_a_curve_has_a_mark_a_plan_and_goes_down_in_stairs():
    shown = curve(thinned(TRACE), 4.0)
    assert [x for x, _ in shown["marks"]] == [0.025, 0.125, 0.5]
    heights = [y for _, y in shown["objective"]]
    assert heights == sorted(heights, reverse=True)
    assert shown["objective"][-1][0] == 1.0
    bound = [y for _, y in shown["bound"]]
    assert bound == sorted(bound)
    assert bound[-1] < heights[-1]
    assert (shown["plans"], shown["first_s"], shown["best_s"], shown["bound_s"]) == (3, 10.0, 7.0, 6.0)


def test_a_bound_far_below_is_stated_and_not_drawn():
    shown = curve(thinned((Progress(0.1, 10.0, 10.0 * FAR / 2), Progress(0.2, 9.0, 1.0))))
    assert shown["bound"] == []
    assert shown["bound_below"]
    assert min(y for _, y in shown["objective"]) > 0


def test_first_plans_that_are_far_off_do_not_flatten_the_rest():
    shown = curve(thinned((Progress(0.1, 1000.0, 9.0), Progress(0.2, 12.0, 9.0), Progress(0.3, 10.0, 9.0))))
    assert shown["high_s"] < 30
    heights = [y for _, y in shown["marks"]]
    assert heights[0] == max(heights) <= 1.0
    assert heights[1] - heights[2] > 0.1


def test_a_search_without_a_plan_yet_is_a_curve_too():
    assert curve([])["marks"] == []
    assert curve(thinned((Progress(0.1, INF, 3.0),)))["bound"][-1][0] == 1.0
    assert search_message([], True, 0.0)["curve"]["words"] == "No plan yet."


def test_long_traces_are_thinned_from_first_to_last():
    steps = thinned([Progress(float(i), 1000.0 - i, 0.0) for i in range(5000)], 100)
    assert len(steps) == 100
    assert (steps[0][0], steps[-1][0]) == (0.0, 4999.0)
    assert evenly(steps, 100) == steps


def test_the_message_says_how_much_was_won():
    shown = search_message(thinned(TRACE), False, 4.0)
    json.dumps(shown, allow_nan=False)
    assert shown["curve"]["words"] == "3 plans in 4 s: 10 s to 7 s, −30 %"
    assert shown["curve"]["gap"] == "14.3 %"
