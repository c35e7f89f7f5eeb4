"""What one page is sent, message by message, without sockets."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from explorer.view import events
from explorer.view.session import Choices, Session
from explorer.view.timeline.gantt_rows import usual_kind
from explorer.web.contract import ids
from explorer.web.redraw import picture
from explorer.web.serving.live import encode
from explorer.web.state.answers import MAX_ANSWERS, Answers
from explorer.web.state.server import REMEMBERED
from solvers.plan.result import Progress, Result, Status, StopReason
from solvers.search.effort import Effort
from tests.explorer.view.small import chain_problem, chain_workload, even_plan
from tests.explorer.web.pages import OpenPage

CHOICES = Choices(("chain", "other"), ("auto", "single", "linear-dp"), ("toy",))


class Recorder:
    """A backend that only remembers what it was asked."""

    def __init__(self):
        self.requests, self.cancelled, self.expecting = [], [], 0

    def expect_file(self):
        self.expecting += 1

    def start(self, request, on_event, visitor=""):
        self.requests.append((request, on_event))
        return f"job{len(self.requests)}"

    def cancel(self, job):
        self.cancelled.append(job)


@pytest.fixture
def page():
    return OpenPage(Recorder(), CHOICES)


def solve(page, **session):
    page.receive({"type": "solve", "session": session})
    return page.backend.requests[-1][1]


def result():
    problem = chain_problem()
    plan = even_plan(problem)
    from solvers.evaluation.evaluate import evaluate

    objective = evaluate(problem, plan).iteration_s
    return events.result(Result(problem, plan, Status.OPTIMAL, StopReason.FINISHED, objective, objective, 0.1, "auto"))


def kinds(page):
    return [
        m["type"] if m["type"] != "status" else m["state"]
        for m in page.sent
        if m["type"] not in ("search", "model", "taking")
    ]


def status(page):
    """The last status that was sent."""
    return next(message for message in reversed(page.sent) if message["type"] == "status")


def test_a_question_is_answered_by_graph_and_plan(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event(result())
    assert kinds(page) == ["props", "props", "waiting", "graph", "props", "solving", "plan", "optimal", "props"]
    for message in page.sent:
        json.loads(encode(message))


@pytest.mark.parametrize("stated", [True, False])
def test_what_a_file_settles_cannot_be_set(page, stated):
    on_event = solve(page, devices=4)
    given = chain_workload()
    on_event(events.model(replace(given, compute=chain_problem().compute if stated else None)))
    props = next(m["props"] for m in page.sent if m["type"] == "props" and "phase" in m["props"])
    assert [props[i]["disabled"] for i in ("phase", "dtype", "kind")] == [stated] * 3


def test_the_graph_is_sent_once_per_model(page):
    for _ in range(2):
        on_event = solve(page, devices=4, seed=len(page.backend.requests))
        on_event(events.model(chain_workload()))
        on_event(result())
    assert kinds(page).count("graph") == 1


def test_a_newer_question_cancels_the_older_and_mutes_it(page):
    older = solve(page, devices=2)
    solve(page, devices=3)
    assert page.backend.cancelled == ["job1"]
    page.sent.clear()
    older(result())
    assert page.sent == []


def test_a_closed_page_cancels_its_job(page):
    solve(page)
    page.close()
    assert page.backend.cancelled == ["job1"]


@pytest.mark.parametrize("session", [{"devices": 100_000}, {"model": "os.system"}, {"planner": ["x"]}])
def test_what_does_not_parse_never_reaches_the_backend(page, session):
    page.receive({"type": "solve", "session": session})
    assert page.backend.requests == []
    assert kinds(page) == ["banner", "failed"]


def test_what_reads_files_is_started_while_somebody_chooses_one(page):
    page.receive({"type": "opening"})
    assert page.backend.expecting == 1


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"type": "nonsense"},
        {"type": "expand", "element": {"a": 1}},
        {"type": "collapse"},
        {"type": "select", "kind": "box", "id": "m:none"},
        {"type": "select", "kind": "device", "id": "²"},
        {"type": "find", "text": ["a"]},
        {"type": "window", "from": 0, "to": 10**400},
        {"type": "window", "from": "a", "to": 1},
        {"type": "find", "text": "x" * 9000},
        {"type": "reopen", "element": "file-0"},
        {"type": "run-anyway"},
        {"type": "plan-here"},
        {"type": "open", "shown": [1, {"b": 2}]},
        {"type": "depth", "step": "up"},
        {"type": "theme", "theme": 7},
        {"type": "show-row"},
        {"type": "show-row", "element": "0"},
        {"type": "show-row", "element": "-1"},
        {"type": "show-row", "element": ["0"]},
        {"type": "stop-comparing", "element": {}},
    ],
)
def test_odd_messages_do_no_harm(page, message):
    on_event = solve(page)
    on_event(events.model(chain_workload()))
    on_event(result())
    page.receive(message)


@pytest.mark.parametrize("kind", ["nonsense", None, ["solve"], "x" * 9000, "__class__"])
def test_an_unknown_message_is_answered_and_what_stands_stays(page, kind):
    on_event = solve(page)
    on_event(events.model(chain_workload()))
    on_event(result())
    before = status(page)
    page.sent.clear()
    page.receive({"type": kind})
    (answer,) = page.sent
    assert answer["type"] == "banner"
    assert "does not know" in encode(answer)
    solve(page)
    on_event(result())
    assert before["state"] == "optimal"


def test_the_change_against_the_plan_before_is_shown(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event(result())
    page.state.shown = replace(page.shown, objective_s=page.shown.objective_s * 2)
    on_event = solve(page, devices=5)
    on_event(result())
    assert "−50 %" in encode([m for m in page.sent if m["type"] == "plan"][-1]).encode().decode("unicode_escape")


def test_only_so_many_models_are_remembered(page):
    for i in range(REMEMBERED + 3):
        page.server.skeletons[str(i)] = {}
    on_event = solve(page)
    on_event(events.model(chain_workload()))
    assert len(page.server.skeletons) == REMEMBERED


def test_compiling_is_shown_in_the_header_and_after_it_what_was_shown_before(page):
    on_event = solve(page)
    before = len(page.sent)
    on_event(events.compiling("pipeline draft", 12.0))
    on_event(events.compiling("pipeline draft", 12.5))
    on_event(events.compiling("", 13.0))
    on_event(events.compiling("", 13.0))
    messages = [m for m in page.sent if m["type"] == "status"]
    assert [(m["state"], m["what"], m["more"]) for m in page.sent[before:]] == [
        ("loading", "compiling, once", "pipeline draft · 12 s so far"),
        ("loading", "compiling, once", "pipeline draft · 12.5 s so far"),
        (messages[0]["state"], messages[0]["what"], messages[0]["more"]),
    ]


def test_the_rows_of_the_schedule_stay_as_they_are_until_somebody_chooses_others(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event(result())
    stages = [{**stage, "devices": [0]} for stage in result()["plan"]["stages"]]
    other = {**result(), "plan": {**result()["plan"], "stages": stages}}
    assert usual_kind(other["plan"]) != usual_kind(result()["plan"])
    solve(page, devices=5)(other)
    shown = [m["rows"]["kind"] for m in page.sent if m["type"] == "plan"]
    assert shown == [usual_kind(result()["plan"])] * 2


def test_compiling_hides_no_plan(page):
    on_event, problem = solve(page), chain_problem()
    on_event(events.model(chain_workload()))
    on_event(events.compiling("pipeline draft", 1.0))
    on_event(events.progress(problem, "auto", Progress(0.1, 1.0, 0.5), even_plan(problem)))
    on_event(events.compiling("pipeline draft", 12.0))
    messages = [m["state"] for m in page.sent if m["type"] == "status" and m["what"] == "compiling, once"]
    assert messages == ["loading", "solving"]


def runnable(page):
    return not [m["props"]["run-open"]["disabled"] for m in page.sent if "run-open" in m.get("props", {})][-1]


def test_the_header_waits_then_traces_then_solves(page):
    on_event = solve(page, devices=4)
    on_event(events.loading("tracing chain"))
    on_event(events.model(chain_workload()))
    shown = [(m["state"], m["what"]) for m in page.sent if m["type"] == "status"]
    assert shown == [("waiting", "waiting"), ("loading", "tracing chain"), ("solving", "auto")]


def test_only_a_plan_of_the_question_that_stands_can_be_run():
    page = OpenPage(Recorder(), replace(CHOICES, targets=("local",)))
    on_event = solve(page)
    on_event(events.model(chain_workload()))
    on_event({**result(), "plan": {**result()["plan"], "held": "plan-1"}})
    assert runnable(page)
    on_event = solve(page, memory=2**30)
    assert not runnable(page)
    problem = chain_problem()
    on_event(events.result(Result(problem, None, Status.INFEASIBLE, StopReason.FINISHED, math.inf, 0.0, 0.1, "auto")))
    assert not runnable(page)


def test_what_is_cancelled_before_it_began_is_no_failure(page):
    on_event = solve(page)
    page.receive({"type": "cancel"})
    on_event(events.failed("the job was cancelled before it began"))
    assert kinds(page)[-1] == "cancelled"
    assert "banner" not in kinds(page)


def test_the_effort_of_the_page_is_that_of_the_search(page):
    solve(page, effort="quick")
    assert page.backend.requests[-1][0].effort is Effort.QUICK


def test_a_question_that_was_answered_before_asks_nobody(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event(result())
    solve(page, devices=5)(result())
    assert len(page.backend.requests) == 2
    page.sent.clear()
    solve(page, devices=4, theme="dark")
    assert len(page.backend.requests) == 2
    assert kinds(page)[-3:] == ["plan", "optimal", "props"]
    assert "cached" in status(page)["more"]
    page.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    assert len(page.backend.requests) == 3


def test_an_answer_from_the_library_says_so_and_solve_searches(page):
    on_event = solve(page, devices=4)
    assert not page.backend.requests[-1][0].fresh
    on_event(events.model(chain_workload()))
    on_event({**result(), "notes": ["cached result of 2026-11-23, the search took 4.2 s"]})
    assert "cached" in status(page)["more"]
    page.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    assert page.backend.requests[-1][0].fresh
    page.backend.requests[-1][1](result())
    assert "cached" not in status(page)["more"]


def test_what_was_cut_short_is_searched_again(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event({**result(), "stop_reason": "CANCELLED"})
    solve(page, devices=4)
    assert len(page.backend.requests) == 2


MODEL = events.model(chain_workload())


def test_only_so_many_answers_are_kept():
    answers = Answers()
    for seed in range(MAX_ANSWERS + 2):
        answers.store(Session("chain", seed=seed), {**result(), "plan": None}, MODEL)
    assert answers.get(Session("chain", seed=1)) is None
    assert answers.get(Session("chain", seed=MAX_ANSWERS)) is not None


def test_the_plan_on_the_page_is_handed_on_to_be_shown_first(page):
    on_event = solve(page, devices=4)
    on_event(events.model(chain_workload()))
    on_event({**result(), "plan": {**result()["plan"], "held": "plan-7"}})
    solve(page, devices=5)
    assert page.backend.requests[-1][0].before == "plan-7"


@pytest.mark.parametrize(("every_s", "message"), [(3600.0, 1), (0.0, 20)])
def test_a_search_that_tells_the_same_again_draws_its_cards_once(page, monkeypatch, every_s, message):
    """New cards keep a browser busy for a tenth of a second: sent at every step, they would not let a click through."""
    monkeypatch.setattr(picture, "REBOUND_EVERY_S", every_s)
    problem = chain_problem()
    plan, on_event = even_plan(problem), solve(page, devices=4)
    on_event(events.model(chain_workload()))
    for step in range(20):
        on_event(events.progress(problem, "auto", Progress(step / 10, 1.0, 0.5), plan))
    drawn = [m for m in page.sent if m["type"] == "plan"]
    cards = [m for m in page.sent if m["type"] == "props" and ids.KPIS in m["props"]]
    assert (len(drawn), len(cards)) == (1, 0)
    for step in range(20):
        on_event(events.progress(problem, "auto", Progress(2 + step / 10, 1.0, 0.51 + step / 100), plan))
    cards = [m for m in page.sent if m["type"] == "props" and ids.KPIS in m["props"]]
    assert len(cards) == message
