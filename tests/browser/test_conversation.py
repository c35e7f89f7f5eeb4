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
def talk():
    return OpenPage(Recorder(), CHOICES)


def solve(talk, **session):
    talk.receive({"type": "solve", "session": session})
    return talk.backend.requests[-1][1]


def result():
    problem = chain_problem()
    plan = even_plan(problem)
    from solvers.evaluation.evaluate import evaluate

    objective = evaluate(problem, plan).iteration_s
    return events.result(Result(problem, plan, Status.OPTIMAL, StopReason.FINISHED, objective, objective, 0.1, "auto"))


def kinds(talk):
    return [
        m["type"] if m["type"] != "status" else m["state"]
        for m in talk.sent
        if m["type"] not in ("search", "model", "taking")
    ]


def status(talk):
    """The last status that was sent."""
    return next(message for message in reversed(talk.sent) if message["type"] == "status")


def test_a_question_is_answered_by_graph_and_plan(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell(result())
    assert kinds(talk) == ["props", "props", "waiting", "graph", "props", "solving", "plan", "optimal", "props"]
    for message in talk.sent:
        json.loads(encode(message))


@pytest.mark.parametrize("stated", [True, False])
def test_what_a_file_settles_cannot_be_set(talk, stated):
    tell = solve(talk, devices=4)
    given = chain_workload()
    tell(events.model(replace(given, compute=chain_problem().compute if stated else None)))
    props = next(m["props"] for m in talk.sent if m["type"] == "props" and "phase" in m["props"])
    assert [props[i]["disabled"] for i in ("phase", "dtype", "kind")] == [stated] * 3


def test_the_graph_is_sent_once_per_model(talk):
    for _ in range(2):
        tell = solve(talk, devices=4, seed=len(talk.backend.requests))
        tell(events.model(chain_workload()))
        tell(result())
    assert kinds(talk).count("graph") == 1


def test_a_newer_question_cancels_the_older_and_mutes_it(talk):
    older = solve(talk, devices=2)
    solve(talk, devices=3)
    assert talk.backend.cancelled == ["job1"]
    talk.sent.clear()
    older(result())
    assert talk.sent == []


def test_a_closed_page_cancels_its_job(talk):
    solve(talk)
    talk.close()
    assert talk.backend.cancelled == ["job1"]


@pytest.mark.parametrize("session", [{"devices": 100_000}, {"model": "os.system"}, {"planner": ["x"]}])
def test_what_does_not_parse_never_reaches_the_backend(talk, session):
    talk.receive({"type": "solve", "session": session})
    assert talk.backend.requests == []
    assert kinds(talk) == ["banner", "failed"]


def test_what_reads_files_is_started_while_somebody_chooses_one(talk):
    talk.receive({"type": "opening"})
    assert talk.backend.expecting == 1


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
def test_odd_messages_do_no_harm(talk, message):
    tell = solve(talk)
    tell(events.model(chain_workload()))
    tell(result())
    talk.receive(message)


@pytest.mark.parametrize("kind", ["nonsense", None, ["solve"], "x" * 9000, "__class__"])
def test_an_unknown_message_is_answered_and_what_stands_stays(talk, kind):
    tell = solve(talk)
    tell(events.model(chain_workload()))
    tell(result())
    before = status(talk)
    talk.sent.clear()
    talk.receive({"type": kind})
    (answer,) = talk.sent
    assert answer["type"] == "banner"
    assert "does not know" in encode(answer)
    solve(talk)
    tell(result())
    assert before["state"] == "optimal"


def test_the_change_against_the_plan_before_is_told(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell(result())
    talk.state.shown = replace(talk.shown, objective_s=talk.shown.objective_s * 2)
    tell = solve(talk, devices=5)
    tell(result())
    assert "−50 %" in encode([m for m in talk.sent if m["type"] == "plan"][-1]).encode().decode("unicode_escape")


def test_only_so_many_models_are_remembered(talk):
    for i in range(REMEMBERED + 3):
        talk.server.skeletons[str(i)] = {}
    tell = solve(talk)
    tell(events.model(chain_workload()))
    assert len(talk.server.skeletons) == REMEMBERED


def test_compiling_is_told_in_the_header_and_its_end_is_what_was_told_before(talk):
    on_event = solve(talk)
    before = len(talk.sent)
    on_event(events.compiling("pipeline draft", 12.0))
    on_event(events.compiling("pipeline draft", 12.5))
    on_event(events.compiling("", 13.0))
    on_event(events.compiling("", 13.0))
    messages = [m for m in talk.sent if m["type"] == "status"]
    assert [(m["state"], m["what"], m["more"]) for m in talk.sent[before:]] == [
        ("loading", "compiling, once", "pipeline draft · 12 s so far"),
        ("loading", "compiling, once", "pipeline draft · 12.5 s so far"),
        (messages[0]["state"], messages[0]["what"], messages[0]["more"]),
    ]


def test_the_rows_of_the_schedule_stay_as_they_are_until_somebody_chooses_others(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell(result())
    stages = [{**stage, "devices": [0]} for stage in result()["plan"]["stages"]]
    other = {**result(), "plan": {**result()["plan"], "stages": stages}}
    assert usual_kind(other["plan"]) != usual_kind(result()["plan"])
    solve(talk, devices=5)(other)
    shown = [m["rows"]["kind"] for m in talk.sent if m["type"] == "plan"]
    assert shown == [usual_kind(result()["plan"])] * 2


def test_compiling_hides_no_plan(talk):
    tell, problem = solve(talk), chain_problem()
    tell(events.model(chain_workload()))
    tell(events.compiling("pipeline draft", 1.0))
    tell(events.progress(problem, "auto", Progress(0.1, 1.0, 0.5), even_plan(problem)))
    tell(events.compiling("pipeline draft", 12.0))
    messages = [m["state"] for m in talk.sent if m["type"] == "status" and m["what"] == "compiling, once"]
    assert messages == ["loading", "solving"]


def runnable(talk):
    return not [m["props"]["run-open"]["disabled"] for m in talk.sent if "run-open" in m.get("props", {})][-1]


def test_the_header_waits_then_traces_then_solves(talk):
    tell = solve(talk, devices=4)
    tell(events.loading("tracing chain"))
    tell(events.model(chain_workload()))
    shown = [(m["state"], m["what"]) for m in talk.sent if m["type"] == "status"]
    assert shown == [("waiting", "waiting"), ("loading", "tracing chain"), ("solving", "auto")]


def test_only_a_plan_of_the_question_that_stands_can_be_run():
    talk = OpenPage(Recorder(), replace(CHOICES, targets=("local",)))
    tell = solve(talk)
    tell(events.model(chain_workload()))
    tell({**result(), "plan": {**result()["plan"], "held": "plan-1"}})
    assert runnable(talk)
    tell = solve(talk, memory=2**30)
    assert not runnable(talk)
    problem = chain_problem()
    tell(events.result(Result(problem, None, Status.INFEASIBLE, StopReason.FINISHED, math.inf, 0.0, 0.1, "auto")))
    assert not runnable(talk)


def test_what_is_cancelled_before_it_began_is_no_failure(talk):
    tell = solve(talk)
    talk.receive({"type": "cancel"})
    tell(events.failed("the job was cancelled before it began"))
    assert kinds(talk)[-1] == "cancelled"
    assert "banner" not in kinds(talk)


def test_the_effort_of_the_page_is_that_of_the_search(talk):
    solve(talk, effort="quick")
    assert talk.backend.requests[-1][0].effort is Effort.QUICK


def test_a_question_that_was_answered_before_asks_nobody(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell(result())
    solve(talk, devices=5)(result())
    assert len(talk.backend.requests) == 2
    talk.sent.clear()
    solve(talk, devices=4, theme="dark")
    assert len(talk.backend.requests) == 2
    assert kinds(talk)[-3:] == ["plan", "optimal", "props"]
    assert "cached" in status(talk)["more"]
    talk.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    assert len(talk.backend.requests) == 3


def test_an_answer_from_the_library_says_so_and_solve_searches(talk):
    tell = solve(talk, devices=4)
    assert not talk.backend.requests[-1][0].fresh
    tell(events.model(chain_workload()))
    tell({**result(), "notes": ["cached result of 2026-11-23, the search took 4.2 s"]})
    assert "cached" in status(talk)["more"]
    talk.receive({"type": "solve", "session": {"devices": 4}, "fresh": True})
    assert talk.backend.requests[-1][0].fresh
    talk.backend.requests[-1][1](result())
    assert "cached" not in status(talk)["more"]


def test_what_was_cut_short_is_asked_again(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell({**result(), "stop_reason": "CANCELLED"})
    solve(talk, devices=4)
    assert len(talk.backend.requests) == 2


MODEL = events.model(chain_workload())


def test_only_so_many_answers_are_kept():
    answers = Answers()
    for seed in range(MAX_ANSWERS + 2):
        answers.keep(Session("chain", seed=seed), {**result(), "plan": None}, MODEL)
    assert answers.get(Session("chain", seed=1)) is None
    assert answers.get(Session("chain", seed=MAX_ANSWERS)) is not None


def test_the_plan_on_the_page_is_handed_on_to_be_shown_first(talk):
    tell = solve(talk, devices=4)
    tell(events.model(chain_workload()))
    tell({**result(), "plan": {**result()["plan"], "held": "plan-7"}})
    solve(talk, devices=5)
    assert talk.backend.requests[-1][0].before == "plan-7"


@pytest.mark.parametrize(("every_s", "message"), [(3600.0, 1), (0.0, 20)])
def test_a_search_that_tells_the_same_again_draws_its_cards_once(talk, monkeypatch, every_s, message):
    """New cards keep a browser busy for a tenth of a second: sent at every step, they would not let a click through."""
    monkeypatch.setattr(picture, "REBOUND_EVERY_S", every_s)
    problem = chain_problem()
    plan, tell = even_plan(problem), solve(talk, devices=4)
    tell(events.model(chain_workload()))
    for step in range(20):
        tell(events.progress(problem, "auto", Progress(step / 10, 1.0, 0.5), plan))
    drawn = [m for m in talk.sent if m["type"] == "plan"]
    cards = [m for m in talk.sent if m["type"] == "props" and ids.KPIS in m["props"]]
    assert (len(drawn), len(cards)) == (1, 0)
    for step in range(20):
        tell(events.progress(problem, "auto", Progress(2 + step / 10, 1.0, 0.51 + step / 100), plan))
    cards = [m for m in talk.sent if m["type"] == "props" and ids.KPIS in m["props"]]
    assert len(cards) == message
