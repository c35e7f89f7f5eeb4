"""Key figures tell their change, and call it good or bad only where that is plain."""

from dataclasses import replace

import pytest

from explorer.view.cards import cards
from explorer.view.figures import figures
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import evaluate
from tests.explorer.view.small import chain_problem, even_plan

PROBLEM = chain_problem(4)
PLAN = even_plan(PROBLEM)


@pytest.fixture(scope="module")
def view():
    seconds = evaluate(PROBLEM, PLAN).iteration_s
    return plan_view(PROBLEM, PLAN, planner="auto", objective_s=seconds, bound_s=seconds / 2)


def test_the_throughput_leads_and_more_of_it_is_good(view):
    before = figures(view)
    cards_shown = cards(view, replace(before, per_s=before.per_s / 2))
    assert [card.name for card in cards_shown] == [
        "Throughput",
        "Iteration time",
        "Bubble",
        "Peak memory",
        "Lower bound",
    ]
    assert (cards_shown[0].change, cards_shown[0].tone) == ("+100 %", "good")
    assert cards(view, replace(before, per_s=before.per_s * 2))[0].tone == "bad"


def test_a_time_is_better_or_worse_only_for_the_same_samples(view):
    before = figures(view)
    longer = replace(before, objective_s=before.objective_s * 2)
    assert (cards(view, longer)[1].change, cards(view, longer)[1].tone) == ("−50 %", "good")
    other = cards(view, replace(longer, mini_batch=2 * before.mini_batch))
    assert (other[1].change, other[1].tone) == ("−50 %", "")
    assert "was 32" in other[0].note


def test_a_time_of_another_objective_does_not_compare(view):
    cards_shown = cards(view, replace(figures(view), objective="max-load", objective_s=1e-9))
    assert cards_shown[1].change == ""


def test_more_memory_and_a_longer_bubble_have_no_colour(view):
    before = figures(view)
    cards_shown = cards(view, replace(before, peak_bytes=before.peak_bytes / 2, idle=0.0))
    assert (cards_shown[3].change, cards_shown[3].tone) == ("+100 %", "")
    assert cards_shown[2].change.endswith(" pt")
    assert cards_shown[2].tone == ""


def test_what_did_not_change_and_what_has_nothing_before_it_is_not_shown(view):
    for before in (None, figures(view)):
        assert [card.change for card in cards(view, before)] == [""] * 5


def test_a_plan_that_has_run_tells_what_it_took_and_no_change(view):
    cards_shown = cards(view, replace(figures(view), objective_s=1.0, per_s=1.0, idle=0.1), measured_s=0.5)
    assert cards_shown[1].note == "run: 500 ms"
    assert [card.change for card in cards_shown] == [""] * 5
