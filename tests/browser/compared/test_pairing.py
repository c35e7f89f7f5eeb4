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
def talk():
    return OpenPage(Recorder(), CHOICES)


def solved(talk, planner="auto", **session):
    talk.receive({"type": "solve", "session": {"planner": planner, **session}})
    tell = talk.backend.requests[-1][1]
    tell(events.model(branches_workload()))
    tell(events.result(outcome(planner)))


def strip(talk):
    return json.dumps([m["props"]["pair"] for m in talk.sent if "pair" in m.get("props", {})][-1], default=str)


def finish(talk, *planners):
    tell = talk.backend.requests[-1][1]
    for planner in planners:
        tell(row(planner))
    tell(events.compared([], len(planners)))


def test_both_are_asked_for_and_the_first_is_shown(talk):
    solved(talk)
    assert "Compare with a sequential pipeline" in encode({"s": pair_strip(talk.state)})
    talk.receive({"type": "pair"})
    assert talk.backend.requests[-1][0].planners == PLANNERS[:1]
    assert not talk.backend.requests[-1][0].settings.in_sequence
    finish(talk, "graph-pipeline")
    assert talk.backend.requests[-1][0].planners == PLANNERS[1:]
    assert talk.backend.requests[-1][0].settings.in_sequence
    finish(talk, "pipedream-iter")
    assert talk.plan["planner"] == "graph-pipeline"
    assert talk.session.planner == "graph-pipeline"
    assert "1.69" in encode({"s": pair_strip(talk.state)})
    before = len(talk.backend.requests)
    talk.receive({"type": "show-pair", "element": "1"})
    assert talk.plan["planner"] == "pipedream-iter"
    assert len(talk.backend.requests) == before
    assert "planner=pipedream-iter" in status(talk)["query"]
    assert "in_sequence=true" in status(talk)["query"]
    assert next(m for m in talk.sent if m["type"] == "adopt" and m["controls"]["planner"] == "pipedream-iter")[
        "controls"
    ]["in_sequence"]
    assert "pair=" in status(talk)["query"]


def test_the_plan_at_hand_is_not_asked_for_again(talk):
    talk.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(talk, "pipedream-iter", in_sequence=True)
    assert talk.backend.requests[-1][0].planners == ("graph-pipeline",)
    finish(talk, "graph-pipeline")
    assert talk.plan["planner"] == "pipedream-iter"
    ends = [m["figure"]["axis"]["end"] for m in talk.sent if m["type"] == "plan"]
    talk.receive({"type": "show-pair", "element": "0"})
    assert [m for m in talk.sent if m["type"] == "plan"][-1]["figure"]["axis"]["end"] == ends[-1]


def test_other_settings_are_another_question_and_coming_back_asks_nobody(talk):
    talk.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(talk, "graph-pipeline")
    finish(talk, "pipedream-iter")
    solved(talk, "graph-pipeline", micro_batches=4)
    assert talk.backend.requests[-1][0].planners == ("pipedream-iter",)
    finish(talk, "pipedream-iter")
    before = len(talk.backend.requests)
    solved(talk, "graph-pipeline", theme="dark")
    assert len(talk.backend.requests) == before


def test_a_new_question_stops_the_search_for_the_other_plan(talk):
    talk.receive({"type": "view", "pair": ",".join(PAIR)})
    solved(talk, "graph-pipeline")
    older = talk.backend.requests[-1][1]
    talk.receive({"type": "solve", "session": {"planner": "graph-pipeline", "micro_batches": 4}})
    assert "job2" in talk.backend.cancelled
    talk.sent.clear()
    older(row("pipedream-iter"))
    assert talk.sent == []


def test_a_planner_that_cannot_says_why(talk):
    solved(talk, "graph-pipeline")
    talk.receive({"type": "pair"})
    tell = talk.backend.requests[-1][1]
    refused = Row("pipedream-iter", "acyclic", "heuristic", "", UNSUPPORTED, reason="it is square")
    tell(events.row(refused, PROBLEM.objective, None))
    tell(events.compared([refused], 1))
    assert "Sequential: it is square." in encode({"s": pair_strip(talk.state)})
    assert talk.plan["planner"] == "graph-pipeline"
    assert kinds(talk)[-2:].count("feasible") == 1
    before = len(talk.backend.requests)
    follow_pair(talk.state)
    assert len(talk.backend.requests) == before


def test_a_cancelled_answer_is_not_kept(talk):
    solved(talk, "graph-pipeline")
    talk.receive({"type": "pair"})
    talk.receive({"type": "cancel"})
    assert talk.backend.cancelled == ["job2"]
    talk.backend.requests[-1][1](events.failed("the job was cancelled before it began"))
    assert "failed" not in kinds(talk)
    assert "Not planned yet: Sequential" in encode({"s": pair_strip(talk.state)})


def test_the_end_of_a_comparison_gives_the_planner_from_before_back(talk):
    solved(talk)
    talk.receive({"type": "pair"})
    finish(talk, "graph-pipeline")
    finish(talk, "pipedream-iter")
    assert talk.session.planner == "graph-pipeline"
    before = len(talk.backend.requests)
    talk.receive({"type": "unpair"})
    assert (talk.session.planner, talk.plan["planner"], talk.look.pair) == ("auto", "auto", ())
    assert [m for m in talk.sent if m["type"] == "adopt"][-1]["controls"]["planner"] == "auto"
    assert len(talk.backend.requests) == before


def test_after_other_settings_the_planner_from_before_is_asked(talk):
    solved(talk)
    talk.receive({"type": "pair"})
    finish(talk, "graph-pipeline")
    finish(talk, "pipedream-iter")
    solved(talk, "graph-pipeline", micro_batches=4)
    finish(talk, "pipedream-iter")
    talk.receive({"type": "unpair"})
    assert talk.sent[-1] == {"type": "go", "controls": {"planner": "auto", "in_sequence": False}}


def test_both_of_a_pair_are_given_what_one_alone_is(talk):
    solved(talk, effort="quick", time_limit=12)
    talk.receive({"type": "pair"})
    request = talk.backend.requests[-1][0]
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
def test_odd_messages_do_no_harm(talk, message):
    solved(talk)
    talk.receive(message)
    assert talk.look.pair == ()


def test_a_closed_page_cancels_the_search_for_the_other_plan(talk):
    solved(talk, "graph-pipeline")
    talk.receive({"type": "pair"})
    talk.close()
    assert talk.backend.cancelled == ["job2"]


def test_two_planners_of_one_setting_are_asked_for_together(talk):
    talk.receive({"type": "view", "pair": ",".join(PLANNERS)})
    solved(talk)
    assert talk.backend.requests[-1][0].planners == PLANNERS
    finish(talk, *PLANNERS)
    assert talk.plan["planner"] == "graph-pipeline"
    assert not talk.session.settings.in_sequence


def test_what_does_not_answer_is_asked_once(talk):
    solved(talk, "graph-pipeline")
    talk.receive({"type": "pair"})
    finish(talk)
    before = len(talk.backend.requests)
    follow_pair(talk.state)
    assert len(talk.backend.requests) == before
