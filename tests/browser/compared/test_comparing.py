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
def page():
    page = OpenPage(Recorder(), CHOICES)
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event(result())
    page.receive({"type": "open", "shown": ["compare"]})
    page.sent.clear()
    return page


def start_comparison(page, every=False, **session):
    page.receive({"type": "compare", "session": {"devices": 4, **session}, "every": every})
    on_event = page.backend.requests[-1][1]
    on_event(events.model(chain_workload()))
    return on_event


def panel(page):
    """The last state of the panel, as the browser reads it."""
    props = [m["props"] for m in page.sent if "comparison" in m.get("props", {})][-1]
    return json.loads(encode(props))


def shown(page):
    return json.dumps(panel(page)["comparison"])


def test_rows_come_one_by_one_and_the_status_before_comes_back(page, rows):
    on_event = start_comparison(page)
    assert panel(page)["compare-stop"] == {"disabled": False}
    on_event(events.comparing(1, 2, "single", Progress(0.1, 2e-3, 1e-3)))
    assert page.sent[-1]["what"] == "comparing 1 of 2"
    on_event(rows[0])
    assert "single" in shown(page)
    assert "linear-dp" not in shown(page)
    on_event(rows[1])
    on_event(rows[2])
    assert "linear-dp" in shown(page)
    assert panel(page)["compare-stop"] == {"disabled": True}
    assert "Best bound proved" in panel(page)["compare-note"]["children"]
    assert (page.sent[-1]["state"], page.sent[-1]["what"]) == ("optimal", "auto")


def test_a_solve_that_is_running_goes_on_and_keeps_the_status(page, rows):
    page.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    running = page.backend.requests[-1][1]
    on_event = start_comparison(page)
    assert page.backend.cancelled == []
    page.sent.clear()
    on_event(events.comparing(1, 2, "single", Progress(0.1, 2e-3, 1e-3)))
    assert page.sent == []
    running(result())
    assert kinds(page) == ["plan", "optimal", "props"]


def test_a_click_on_a_row_shows_its_plan_as_if_it_had_been_solved(page, rows):
    on_event = start_comparison(page)
    for event in rows:
        on_event(event)
    page.sent.clear()
    page.receive({"type": "show-row", "element": "0"})
    assert kinds(page) == ["adopt", "plan", "feasible", "props"]
    controls = page.sent[0]["controls"]
    assert (controls["planner"], controls["contiguity"]) == ("single", "auto")
    assert "planner=single" in status(page)["query"]
    assert page.plan["placement"] == [[0]] * 192
    assert page.session.planner == "single"
    assert '"aria-current": "true"' in shown(page)
    assert shown(page).count("aria-current") == 1


def test_rows_can_be_shown_while_others_are_still_to_come(page, rows):
    on_event = start_comparison(page)
    on_event(rows[0])
    page.receive({"type": "show-row", "element": "0"})
    assert page.plan["planner"] == "single"
    on_event(rows[1])
    on_event(rows[2])
    assert (page.sent[-1]["state"], page.sent[-1]["what"]) == ("feasible", "single")


def test_rows_of_other_settings_are_kept_but_cannot_be_shown(page, rows):
    on_event = start_comparison(page)
    for event in rows:
        on_event(event)
    before = page.plan
    solve(page, devices=3)
    assert "past" in panel(page)["comparison"]["className"]
    assert "other settings" in panel(page)["compare-note"]["children"]
    assert "data-act" not in shown(page)
    page.receive({"type": "show-row", "element": "0"})
    assert page.plan is before
    solve(page, devices=4, planner="single", time_limit=3)
    assert "past" not in panel(page)["comparison"]["className"]
    page.receive({"type": "show-row", "element": "0"})
    assert page.plan["planner"] == "single"


def test_another_contiguity_is_another_question_unless_all_were_requested(page, rows):
    on_event = start_comparison(page)
    for event in rows:
        on_event(event)
    assert page.backend.requests[-1][0].contiguities == ()
    solve(page, devices=4, contiguity="none")
    assert "past" in panel(page)["comparison"]["className"]
    on_event = start_comparison(page, every=True)
    assert page.backend.requests[-1][0].contiguities == tuple(Contiguity)
    for event in rows:
        on_event(event)
    solve(page, devices=4, contiguity="none")
    assert "past" not in panel(page)["comparison"]["className"]


def test_a_new_question_stops_the_comparison_and_keeps_its_rows(page, rows):
    on_event = start_comparison(page)
    on_event(rows[0])
    solve(page, devices=4, planner="single")
    assert page.backend.cancelled == ["job2"]
    page.sent.clear()
    on_event(events.compared([rows[0]["row"]], 2))
    assert "Stopped after 1 of 2" in panel(page)["compare-note"]["children"]
    assert "props" in kinds(page)
    assert "optimal" not in kinds(page)  # the solve has the word


@pytest.mark.parametrize("message", ["stop-comparing", "cancel"])
def test_a_comparison_that_waits_is_stopped_without_complaint(page, message):
    on_event = start_comparison(page)
    page.receive({"type": message})
    assert page.backend.cancelled == ["job2"]
    on_event(events.failed("the job was cancelled before it began"))
    assert "failed" not in kinds(page)
    assert panel(page)["compare-stop"] == {"disabled": True}
    assert page.sent[-1]["state"] == "optimal"


def test_a_comparison_whose_worker_had_to_be_ended_keeps_its_rows(page, rows):
    on_event = start_comparison(page)
    on_event(rows[0])
    on_event(events.comparing(2, 2, "linear-dp", Progress(0.1, 2e-3, 1e-3)))
    page.receive({"type": "stop-comparing"})
    on_event(events.failed("the solving process ended unexpectedly (exit code -9)"))
    assert "failed" not in kinds(page)
    assert "Stopped after 1 of 2" in panel(page)["compare-note"]["children"]
    assert "single" in shown(page)


def test_a_comparison_that_breaks_says_why(page):
    on_event = start_comparison(page)
    on_event(events.failed("the solving process ended unexpectedly"))
    assert "failed" in kinds(page)
    assert "ended unexpectedly" in encode([m for m in page.sent if m["type"] == "banner"][-1])


def test_a_newer_comparison_mutes_the_older(page, rows):
    older = start_comparison(page)
    start_comparison(page)
    assert page.backend.cancelled == ["job2"]
    older(rows[0])
    assert page.comparing.rows == []


def test_a_closed_page_cancels_its_comparison(page):
    on_event = start_comparison(page)
    page.close()
    assert page.backend.cancelled == ["job2"]
    page.sent.clear()
    on_event(events.failed("the server is shutting down"))
    assert page.sent == []


@pytest.mark.parametrize("session", [{"devices": 100_000}, {"contiguity": "round"}, {"time_limit": 1e9}])
def test_what_does_not_parse_is_not_compared(page, session):
    page.receive({"type": "compare", "session": session})
    assert len(page.backend.requests) == 1
    assert kinds(page) == ["banner", "failed"]


def test_a_row_whose_plan_finds_no_room_is_shown_without_it(page, rows, monkeypatch):
    monkeypatch.setattr("explorer.web.state.pairing.PLANS_BYTES", len(rows[0]["plan"]) + 1)
    comparing = Comparing()
    comparing.begin(page.session, False, 1)
    for event in rows[:2]:
        comparing.add(event)
    assert [plan is not None for plan in comparing.plans] == [True, False]


def test_packing_loses_nothing(rows):
    view = events.unpacked(rows[0]["plan"])
    assert events.unpacked(events.packed(view)) == view
    assert len(rows[0]["plan"]) < len(json.dumps(view)) / 4
