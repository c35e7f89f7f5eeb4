"""Many ask at once: equal questions are searched once, and all have a first plan before anybody has a better one."""

from __future__ import annotations

import pytest

from explorer.jobs import job_kinds
from explorer.jobs.requests import SolveRequest
from explorer.jobs.workers.job import Listeners
from explorer.jobs.workers.jobs import Jobs
from explorer.question.settings import Settings
from explorer.question.tracer import Stopped
from explorer.view import events
from solvers.search.effort import Effort
from tests.explorer.jobs.workers.fakes import FAKE, WAIT_S, Events, Request, Search

LONG_S = 100.0


@pytest.fixture(scope="module")
def jobs():
    made = Jobs(FAKE)
    yield made
    made.close()


def start(jobs, kind, request, visitor=""):
    messages = Events()
    messages.job = jobs.start(kind, request, messages, visitor)
    return messages


def kinds(messages):
    return [event["kind"] for event in tuple(messages.queue.queue)]


def blocked(jobs):
    """A job that keeps the only worker busy until it is cancelled."""
    block = start(jobs, "ask", Request("blocks", LONG_S), "blocks")
    block.until("loading")
    return block


def test_equal_questions_are_answered_by_one_search_that_waits_or_goes_on(jobs):
    block = blocked(jobs)
    first = start(jobs, "solve", Search("same", LONG_S, model="m"), "a")
    second = start(jobs, "solve", Search("same", LONG_S, model="m"), "b")
    jobs.cancel(block.job)
    first.until("progress")
    third = start(jobs, "solve", Search("same", LONG_S, model="m"), "c")
    assert kinds(third) == ["model", "progress"], "it hears at once of what there is"
    assert len({id(job) for job in jobs._jobs.values()}) == 1
    jobs.cancel(first.job)
    assert first.end()["cut_off"] == ""
    assert not second.ended()
    jobs.cancel(second.job)
    jobs.cancel(third.job)
    assert third.end()["answer"]["stopped"], "the last one to leave ends it"


def test_a_question_of_its_own_is_searched_alone(jobs):
    block = blocked(jobs)
    jobs_of = [start(jobs, "solve", Search(name, seed_s), "a") for name, seed_s in (("x", 0.0), ("y", 0.0), ("x", 0.1))]
    alike = [start(jobs, "ask", Request("x"), "a") for _ in range(2)]
    assert len({id(job) for job in jobs._jobs.values()}) == 6
    jobs.cancel(block.job)
    assert [one.end()["answer"]["name"] for one in (*jobs_of, *alike)] == ["x", "y", "x", "x", "x"]


def test_nobody_hears_of_the_plan_that_another_had_before(jobs):
    block = blocked(jobs)
    first = start(jobs, "solve", Search("same", 0.5, before="plan-1"), "a")
    second = start(jobs, "solve", Search("same", 0.5), "b")
    jobs.cancel(block.job)
    assert [one.end()["answer"]["before"] for one in (first, second)] == ["", ""]
    going = start(jobs, "solve", Search("same", LONG_S, before="plan-1"), "a")
    going.until("progress")
    other = start(jobs, "solve", Search("same", LONG_S, before="plan-2"), "b")
    assert len({id(job) for job in jobs._jobs.values()}) == 2
    for one in (going, other):
        jobs.cancel(one.job)
    assert going.end()["answer"]["before"] == "plan-1"


def test_all_who_wait_have_a_first_plan_before_one_is_made_better(jobs):
    block = blocked(jobs)
    order = []

    def note(name):
        def hear(event):
            if event["kind"] in ("progress", "done") and event.get("plan", True):
                order.append((name, "end" if event["kind"] == "done" else event["objective_s"]))
            if event["kind"] in events.LAST:
                done.put(event)

        return hear

    done = Events().queue
    for name in "abc":
        jobs.start("solve", Search(name, 0.1), note(name), name)
    jobs.cancel(block.job)
    for _ in "abc":
        assert done.get(timeout=WAIT_S)["kind"] == "done"
    assert sorted(order[:3]) == [("a", 2.0), ("b", 2.0), ("c", 2.0)]
    assert [value for name, value in order if name == "a"][-2:] == [1.0, "end"]


def test_what_waits_to_be_made_better_keeps_its_plan_when_it_is_cancelled(jobs):
    block = blocked(jobs)
    first, second = (start(jobs, "solve", Search(name, LONG_S), name) for name in "ab")
    jobs.cancel(block.job)
    first.until("progress")
    assert second.until("progress")["objective_s"] == 2.0
    jobs.cancel(first.job)
    assert first.end()["kind"] in ("result", "done")
    jobs.cancel(second.job)
    assert second.end()["kind"] in ("result", "done")


def test_a_late_listener_hears_of_what_there_is_and_of_one_end_only():
    received, late = [], []
    listeners = Listeners("one", received.append)
    plan = {"kind": "progress", "objective_s": 1.0, "plan": {"devices": 2}}
    for event in (events.waiting(1), events.loading("x"), {"kind": "model"}, plan, events.waiting(2)):
        listeners.pass_on(event)
    listeners.pass_on({**plan, "objective_s": 3.0})
    assert listeners.join("late", late.append)
    assert [event["kind"] for event in late] == ["model", "progress"]
    assert late[1] is plan, "a plan that is worse than one from before is not drawn"
    assert received[-1]["plan"] is None
    for _ in range(2):
        listeners.pass_on(events.failed("over"))
    assert [event["kind"] for event in (*received, *late)].count("failed") == 2
    assert not listeners.join("too late", late.append)


def test_a_search_that_is_to_end_with_its_first_plan_does_so_and_gives_no_answer(monkeypatch):
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", "off")
    monkeypatch.setattr(job_kinds, "MOMENT_S", 60.0)
    received = []
    request = SolveRequest("gpt-small", Settings(devices=2), effort=Effort.QUICK, first_only=True)
    with pytest.raises(Stopped):
        job_kinds.solve_job(request, received.append, lambda: False)
    assert [event["kind"] for event in received if event["kind"] not in ("loading", "compiling")][-1] == "progress"
    assert [event["plan"] is not None for event in received if event["kind"] == "progress"].count(True) == 1
