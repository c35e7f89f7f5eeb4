"""Two plans of one question on one page, message by message, without sockets."""

from __future__ import annotations

import json

import pytest

from explorer.view import events
from explorer.view.comparison import UNSUPPORTED, Row, result_row
from explorer.view.session import PAIR, Choices
from explorer.web.handlers.pairs import follow_pair
from explorer.web.redraw.picture import pair_strip
from explorer.web.serving.live import encode
from solvers.evaluation.evaluate import evaluate
from solvers.plan.result import Result, Status, StopReason
from solvers.search.effort import Effort
from tests.browser.test_conversation import Recorder, kinds, status
from tests.explorer.view.small import branches_problem, branches_workload, pair_plans
from tests.explorer.web.pages import OpenPage

PLANNERS = ("graph-pipeline", "pipedream-iter")
CHOICES = Choices(("branches",), ("auto", *PLANNERS), ("toy",))
PROBLEM = branches_problem()
PLANS = dict(zip(PLANNERS, pair_plans(PROBLEM), strict=True))


def outcome(planner):
    plan = PLANS.get(planner, PLANS["graph-pipeline"])
    seconds = evaluate(PROBLEM, plan).iteration_s
    return Result(PROBLEM, plan, Status.FEASIBLE, StopReason.FINISHED, seconds, 0.0, 0.1, planner)


def row(planner):
    answer = outcome(planner)
    return events.row(
        result_row(planner, "heuristic", "", answer, evaluate(PROBLEM, answer.plan)), PROBLEM.objective, answer
    )


@pytest.fixture
def page():
    return OpenPage(Recorder(), CHOICES)


def solved(page, planner="auto", **session):
    page.receive({"type": "solve", "session": {"planner": planner, **session}})
    on_event = page.backend.requests[-1][1]
    on_event(events.model(branches_workload()))
    on_event(events.result(outcome(planner)))


def strip(page):
    return json.dumps([m["props"]["pair"] for m in page.sent if "pair" in m.get("props", {})][-1], default=str)


def finish(page, *planners):
    on_event = page.backend.requests[-1][1]
    for planner in planners:
        on_event(row(planner))
    on_event(events.compared([], len(planners)))


def test_both_are_requested_and_the_first_is_shown(page):
    solved(page)
    assert "Compare with a sequential pipeline" in encode({"s": pair_strip(page.state)})
    page.receive({"type": "pair"})
    assert page.backend.requests[-1][0].planners == PLANNERS[:1]
    assert not page.backend.requests[-1][0].settings.in_sequence
    finish(page, "graph-pipeline")
    assert page.backend.requests[-1][0].planners == PLANNERS[1:]
    assert page.backend.requests[-1][0].settings.in_sequence
    finish(page, "pipedream-iter")
    assert page.plan["planner"] == "graph-pipeline"
    assert page.session.planner == "graph-pipeline"
    assert "1.69" in encode({"s": pair_strip(page.state)})
    before = len(page.backend.requests)
    page.receive({"type": "show-pair", "element": "1"})
    assert page.plan["planner"] == "pipedream-iter"
    assert len(page.backend.requests) == before
    assert "planner=pipedream-iter" in status(page)["query"]
    assert "in_sequence=true" in status(page)["query"]
    assert next(m for m in page.sent if m["type"] == "adopt" and m["controls"]["planner"] == "pipedream-iter")[
        "controls"
    ]["in_sequence"]
    assert "pair=" in status(page)["query"]


def test_the_plan_at_hand_is_not_requested_again(page):
    page.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(page, "pipedream-iter", in_sequence=True)
    assert page.backend.requests[-1][0].planners == ("graph-pipeline",)
    finish(page, "graph-pipeline")
    assert page.plan["planner"] == "pipedream-iter"
    ends = [m["figure"]["axis"]["end"] for m in page.sent if m["type"] == "plan"]
    page.receive({"type": "show-pair", "element": "0"})
    assert [m for m in page.sent if m["type"] == "plan"][-1]["figure"]["axis"]["end"] == ends[-1]


def test_other_settings_are_another_question_and_coming_back_asks_nobody(page):
    page.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(page, "graph-pipeline")
    finish(page, "pipedream-iter")
    solved(page, "graph-pipeline", micro_batches=4)
    assert page.backend.requests[-1][0].planners == ("pipedream-iter",)
    finish(page, "pipedream-iter")
    before = len(page.backend.requests)
    solved(page, "graph-pipeline", theme="dark")
    assert len(page.backend.requests) == before


def test_a_new_question_stops_the_search_for_the_other_plan(page):
    page.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(page, "graph-pipeline")
    older = page.backend.requests[-1][1]
    page.receive({"type": "solve", "session": {"planner": "graph-pipeline", "micro_batches": 4}})
    assert "job2" in page.backend.cancelled
    page.sent.clear()
    older(row("pipedream-iter"))
    assert page.sent == []


def test_a_planner_that_cannot_says_why(page):
    solved(page, "graph-pipeline")
    page.receive({"type": "pair"})
    on_event = page.backend.requests[-1][1]
    refused = Row("pipedream-iter", "acyclic", "heuristic", "", UNSUPPORTED, reason="it is square")
    on_event(events.row(refused, PROBLEM.objective, None))
    on_event(events.compared([refused], 1))
    assert "Sequential: it is square." in encode({"s": pair_strip(page.state)})
    assert page.plan["planner"] == "graph-pipeline"
    assert kinds(page)[-2:].count("feasible") == 1
    before = len(page.backend.requests)
    follow_pair(page.state)
    assert len(page.backend.requests) == before


def test_a_cancelled_answer_is_not_kept(page):
    solved(page, "graph-pipeline")
    page.receive({"type": "pair"})
    page.receive({"type": "cancel"})
    assert page.backend.cancelled == ["job2"]
    page.backend.requests[-1][1](events.failed("the job was cancelled before it began"))
    assert "failed" not in kinds(page)
    assert "Not planned yet: Sequential" in encode({"s": pair_strip(page.state)})


def test_the_end_of_a_comparison_gives_the_planner_from_before_back(page):
    solved(page)
    page.receive({"type": "pair"})
    finish(page, "graph-pipeline")
    finish(page, "pipedream-iter")
    assert page.session.planner == "graph-pipeline"
    before = len(page.backend.requests)
    page.receive({"type": "unpair"})
    assert (page.session.planner, page.plan["planner"], page.look.pair) == ("auto", "auto", ())
    assert [m for m in page.sent if m["type"] == "adopt"][-1]["controls"]["planner"] == "auto"
    assert len(page.backend.requests) == before


def test_after_other_settings_the_planner_from_before_is_requested(page):
    solved(page)
    page.receive({"type": "pair"})
    finish(page, "graph-pipeline")
    finish(page, "pipedream-iter")
    solved(page, "graph-pipeline", micro_batches=4)
    finish(page, "pipedream-iter")
    page.receive({"type": "unpair"})
    assert page.sent[-1] == {"type": "go", "controls": {"planner": "auto", "in_sequence": False}}


def test_both_of_a_pair_are_given_what_one_alone_is(page):
    solved(page, effort="quick", time_limit=12)
    page.receive({"type": "pair"})
    request = page.backend.requests[-1][0]
    assert (request.time_limit_s, request.effort) == (12, Effort.QUICK)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "view"},
        {"type": "view", "graph": ["stages"]},
        {"type": "view", "pair": "auto,os.system"},
        {"type": "show-pair"},
        {"type": "show-pair", "element": "2"},
        {"type": "show-pair", "element": ["0"]},
        {"type": "unpair"},
        {"type": "select", "kind": "stage", "id": "99"},
        {"type": "select", "kind": "stage", "id": "²"},
    ],
)
def test_odd_messages_do_no_harm(page, message):
    solved(page)
    page.receive(message)
    assert page.look.pair == ()


def test_a_closed_page_cancels_the_search_for_the_other_plan(page):
    solved(page, "graph-pipeline")
    page.receive({"type": "pair"})
    page.close()
    assert page.backend.cancelled == ["job2"]


def test_two_planners_of_one_setting_are_requested_together(page):
    page.receive({"type": "view", "pair": ",".join(PLANNERS)})
    solved(page)
    assert page.backend.requests[-1][0].planners == PLANNERS
    finish(page, *PLANNERS)
    assert page.plan["planner"] == "graph-pipeline"
    assert not page.session.settings.in_sequence


def test_what_does_not_answer_is_requested_once(page):
    solved(page, "graph-pipeline")
    page.receive({"type": "pair"})
    finish(page)
    before = len(page.backend.requests)
    follow_pair(page.state)
    assert len(page.backend.requests) == before
