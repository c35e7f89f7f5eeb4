"""A comparison on one page, message by message, without sockets."""

from __future__ import annotations

import json

import pytest

from explorer.jobs.comparison import compare, entries
from explorer.view import events
from explorer.web.serving.live import encode
from explorer.web.state.pairing import Comparing
from solvers.plan.result import Progress
from solvers.problem.problem import Contiguity
from tests.browser.test_conversation import CHOICES, Recorder, kinds, result, solve, status
from tests.explorer.view.small import chain_problem, chain_workload
from tests.explorer.web.pages import OpenPage

PAIR = ("single", "linear-dp")
PROBLEM = chain_problem(blocks=8, size=12)


@pytest.fixture(scope="module")
def rows():
    """The ``row`` events of two planners on the chain, and the last one."""
    family = entries(PROBLEM, PAIR)
    done = list(compare(family, time_limit_s=30))
    values = [events.row(c.row, PROBLEM.objective, c.result) for c in done]
    return [*values, events.compared([c.row for c in done], len(family))]


@pytest.fixture
def talk():
    talk = OpenPage(Recorder(), CHOICES)
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell(result())
    talk.receive({"type": "open", "shown": ["compare"]})
    talk.sent.clear()
    return talk


def ask(talk, every=False, **session):
    talk.receive({"type": "compare", "session": {"devices": 4, **session}, "every": every})
    tell = talk.backend.requests[-1][1]
    tell(events.model(chain_workload()))
    return tell


def panel(talk):
    """The last state of the panel, as the browser reads it."""
    props = [m["props"] for m in talk.sent if "comparison" in m.get("props", {})][-1]
    return json.loads(encode(props))


def shown(talk):
    return json.dumps(panel(talk)["comparison"])


def test_rows_come_one_by_one_and_the_status_before_comes_back(talk, rows):
    tell = ask(talk)
    assert panel(talk)["compare-stop"] == {"disabled": False}
    tell(events.comparing(1, 2, "single", Progress(0.1, 2e-3, 1e-3)))
    assert talk.sent[-1]["what"] == "comparing 1 of 2"
    tell(rows[0])
    assert "single" in shown(talk)
    assert "linear-dp" not in shown(talk)
    tell(rows[1])
    tell(rows[2])
    assert "linear-dp" in shown(talk)
    assert panel(talk)["compare-stop"] == {"disabled": True}
    assert "Best bound proved" in panel(talk)["compare-note"]["children"]
    assert (talk.sent[-1]["state"], talk.sent[-1]["what"]) == ("optimal", "auto")


def test_a_solve_that_is_running_goes_on_and_keeps_the_status(talk, rows):
    talk.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    running = talk.backend.requests[-1][1]
    tell = ask(talk)
    assert talk.backend.cancelled == []
    talk.sent.clear()
    tell(events.comparing(1, 2, "single", Progress(0.1, 2e-3, 1e-3)))
    assert talk.sent == []
    running(result())
    assert kinds(talk) == ["plan", "optimal", "props"]


def test_a_click_on_a_row_shows_its_plan_as_if_it_had_been_solved(talk, rows):
    tell = ask(talk)
    for event in rows:
        tell(event)
    talk.sent.clear()
    talk.receive({"type": "show-row", "element": "0"})
    assert kinds(talk) == ["adopt", "plan", "feasible", "props"]
    controls = talk.sent[0]["controls"]
    assert (controls["planner"], controls["contiguity"]) == ("single", "auto")
    assert "planner=single" in status(talk)["query"]
    assert talk.plan["placement"] == [[0]] * 192
    assert talk.session.planner == "single"
    assert '"aria-current": "true"' in shown(talk)
    assert shown(talk).count("aria-current") == 1


def test_rows_can_be_shown_while_others_are_still_to_come(talk, rows):
    tell = ask(talk)
    tell(rows[0])
    talk.receive({"type": "show-row", "element": "0"})
    assert talk.plan["planner"] == "single"
    tell(rows[1])
    tell(rows[2])
    assert (talk.sent[-1]["state"], talk.sent[-1]["what"]) == ("feasible", "single")


def test_rows_of_other_settings_are_kept_but_cannot_be_shown(talk, rows):
    tell = ask(talk)
    for event in rows:
        tell(event)
    before = talk.plan
    solve(talk, devices=3)
    assert "past" in panel(talk)["comparison"]["className"]
    assert "other settings" in panel(talk)["compare-note"]["children"]
    assert "data-act" not in shown(talk)
    talk.receive({"type": "show-row", "element": "0"})
    assert talk.plan is before
    solve(talk, devices=4, planner="single", time_limit=3)
    assert "past" not in panel(talk)["comparison"]["className"]
    talk.receive({"type": "show-row", "element": "0"})
    assert talk.plan["planner"] == "single"


def test_another_contiguity_is_another_question_unless_all_were_asked_for(talk, rows):
    tell = ask(talk)
    for event in rows:
        tell(event)
    assert talk.backend.requests[-1][0].contiguities == ()
    solve(talk, devices=4, contiguity="none")
    assert "past" in panel(talk)["comparison"]["className"]
    tell = ask(talk, every=True)
    assert talk.backend.requests[-1][0].contiguities == tuple(Contiguity)
    for event in rows:
        tell(event)
    solve(talk, devices=4, contiguity="none")
    assert "past" not in panel(talk)["comparison"]["className"]


def test_a_new_question_stops_the_comparison_and_keeps_its_rows(talk, rows):
    tell = ask(talk)
    tell(rows[0])
    solve(talk, devices=4, planner="single")
    assert talk.backend.cancelled == ["job2"]
    talk.sent.clear()
    tell(events.compared([rows[0]["row"]], 2))
    assert "Stopped after 1 of 2" in panel(talk)["compare-note"]["children"]
    assert "props" in kinds(talk)
    assert "optimal" not in kinds(talk)  # the solve has the word


@pytest.mark.parametrize("message", ["stop-comparing", "cancel"])
def test_a_comparison_that_waits_is_stopped_without_complaint(talk, message):
    tell = ask(talk)
    talk.receive({"type": message})
    assert talk.backend.cancelled == ["job2"]
    tell(events.failed("the job was cancelled before it began"))
    assert "failed" not in kinds(talk)
    assert panel(talk)["compare-stop"] == {"disabled": True}
    assert talk.sent[-1]["state"] == "optimal"


def test_a_comparison_whose_worker_had_to_be_ended_keeps_its_rows(talk, rows):
    tell = ask(talk)
    tell(rows[0])
    tell(events.comparing(2, 2, "linear-dp", Progress(0.1, 2e-3, 1e-3)))
    talk.receive({"type": "stop-comparing"})
    tell(events.failed("the solving process ended unexpectedly (exit code -9)"))
    assert "failed" not in kinds(talk)
    assert "Stopped after 1 of 2" in panel(talk)["compare-note"]["children"]
    assert "single" in shown(talk)


def test_a_comparison_that_breaks_says_why(talk):
    tell = ask(talk)
    tell(events.failed("the solving process ended unexpectedly"))
    assert "failed" in kinds(talk)
    assert "ended unexpectedly" in encode([m for m in talk.sent if m["type"] == "banner"][-1])


def test_a_newer_comparison_mutes_the_older(talk, rows):
    older = ask(talk)
    ask(talk)
    assert talk.backend.cancelled == ["job2"]
    older(rows[0])
    assert talk.comparing.rows == []


def test_a_closed_page_cancels_its_comparison(talk):
    tell = ask(talk)
    talk.close()
    assert talk.backend.cancelled == ["job2"]
    talk.sent.clear()
    tell(events.failed("the server is shutting down"))
    assert talk.sent == []


@pytest.mark.parametrize("session", [{"devices": 100_000}, {"contiguity": "round"}, {"time_limit": 1e9}])
def test_what_does_not_parse_is_not_compared(talk, session):
    talk.receive({"type": "compare", "session": session})
    assert len(talk.backend.requests) == 1
    assert kinds(talk) == ["banner", "failed"]


def test_a_row_whose_plan_finds_no_room_is_told_without_it(talk, rows, monkeypatch):
    monkeypatch.setattr("explorer.web.state.pairing.PLANS_BYTES", len(rows[0]["plan"]) + 1)
    comparing = Comparing()
    comparing.begin(talk.session, False, 1)
    for event in rows[:2]:
        comparing.add(event)
    assert [plan is not None for plan in comparing.plans] == [True, False]


def test_packing_loses_nothing(rows):
    view = events.unpacked(rows[0]["plan"])
    assert events.unpacked(events.packed(view)) == view
    assert len(rows[0]["plan"]) < len(json.dumps(view)) / 4
