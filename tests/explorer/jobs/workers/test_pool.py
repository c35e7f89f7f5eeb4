"""Workers are shared: nothing that happens to one job ends another, and visitors are served in turn."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from explorer.jobs.workers import scheduler
from explorer.jobs.workers.job import Job
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.worker import process_spec
from solvers.programs.processes import pool as pool_module
from tests.explorer.jobs.workers.fakes import BROKEN, FAKE, LATE, LATER, STARTS, Events, Request

LONG_S = 100.0


_pools = {}


@contextmanager
def pool(most=1, interactive=False, spec=FAKE):
    """Workers that a test before may have had: they start slowly."""
    key = most, interactive, spec
    jobs = _pools.pop(key, None) or Jobs(replace(spec, heed_s=0.3), most, interactive)
    _pools[key] = jobs
    yield jobs
    for job in tuple(jobs._jobs):
        jobs.cancel(job)
    assert until(lambda: not jobs._jobs)


@pytest.fixture(scope="module", autouse=True)
def _closed():
    yield
    while _pools:
        _pools.popitem()[1].close()


def until(done):
    """Whether it comes to be, given time."""
    for _ in range(3000):
        if done():
            return True
        time.sleep(0.02)
    return False


def start(jobs, kind, request, visitor=""):
    events = Events()
    events.job = jobs.start(kind, request, events, visitor)
    return events


def begun(jobs, kind, request, visitor=""):
    """A job that a worker is at."""
    events = start(jobs, kind, request, visitor)
    assert events.until("loading", "failed")["kind"] == "loading"
    return events


def test_two_cancels_that_are_not_heeded_leave_the_job_of_a_third_alone():
    with pool() as jobs:
        first = begun(jobs, "place", Request("first", LONG_S), "a")
        second = start(jobs, "place", Request("second", LONG_S), "b")
        third = start(jobs, "ask", Request("third"), "c")
        jobs.cancel(first.job)
        assert "ended unexpectedly" in first.end()["message"]
        second.until("loading")
        jobs.cancel(second.job)
        assert "ended unexpectedly" in second.end()["message"]
        assert third.end()["answer"]["name"] == "third"


def test_a_job_that_waits_moves_on_when_the_worker_dies_however_often():
    with pool() as jobs:
        dying = [start(jobs, "export", Request(str(i))) for i in range(3)]
        waiting = start(jobs, "ask", Request("waits"))
        assert all("exit code 7" in events.end()["message"] for events in dying)
        assert waiting.end()["answer"]["name"] == "waits"


def test_a_cancel_that_is_not_heeded_kills_one_worker_of_several():
    with pool(2) as jobs:
        deaf = begun(jobs, "place", Request("deaf", LONG_S), "a")
        busy = begun(jobs, "ask", Request("busy", LONG_S), "b")
        worker = jobs._jobs[busy.job].worker.process
        jobs.cancel(deaf.job)
        assert "ended unexpectedly" in deaf.end()["message"]
        jobs.cancel(busy.job)
        assert busy.end()["answer"]["by"] == worker.pid


def test_a_job_that_waits_ends_as_soon_as_it_is_cancelled():
    with pool() as jobs:
        running = begun(jobs, "ask", Request("running", LONG_S))
        waiting = start(jobs, "ask", Request("waiting"))
        jobs.cancel(waiting.job)
        assert waiting.end()["message"] == "the job was cancelled before it began"
        jobs.cancel(running.job)
        assert running.end()["answer"]["stopped"]


def test_another_worker_starts_when_a_second_job_waits_and_not_before():
    with pool(3) as jobs:
        assert start(jobs, "ask", Request("first")).end()["answer"]
        assert start(jobs, "ask", Request("second")).end()["answer"]
        assert len(jobs.workers) == 1
        one, two = start(jobs, "ask", Request("one", LONG_S)), start(jobs, "ask", Request("two", LONG_S))
        one.until("loading")
        two.until("loading")
        assert len(jobs.workers) == 2
        for events in (one, two):
            jobs.cancel(events.job)
        assert one.end()["answer"]["by"] != two.end()["answer"]["by"]


def test_a_brief_job_does_not_wait_behind_searches():
    with pool(1, interactive=True) as jobs:
        running = begun(jobs, "ask", Request("running", LONG_S), "a")
        waiting = start(jobs, "ask", Request("waiting"), "a")
        assert start(jobs, "review", Request("brief"), "b").end()["answer"]["name"] == "brief"
        assert not running.ended()
        jobs.cancel(running.job)
        assert waiting.end()["answer"]["name"] == "waiting"
        assert [worker.brief_only for worker in jobs.workers] == [False, True]


def test_what_takes_long_leaves_a_worker_to_first_plans():
    with pool(2) as jobs:
        compared = [start(jobs, "compare", Request(str(i), LONG_S), f"v{i}") for i in range(3)]
        compared[0].until("loading")
        assert start(jobs, "ask", Request("first plan"), "w").end()["answer"]["name"] == "first plan"
        assert [events.ended() for events in compared] == [False] * 3
        for events in reversed(compared):  # those that wait first: the end of the first would begin the second
            jobs.cancel(events.job)
        assert [events.end()["kind"] for events in compared] == ["done", "failed", "failed"]


def test_the_place_in_the_queue_is_reported_and_updated():
    with pool() as jobs:
        running = begun(jobs, "ask", Request("running", LONG_S), "a")
        second, third = start(jobs, "ask", Request("second", LONG_S), "b"), start(jobs, "ask", Request("third"), "c")
        assert second.until("waiting")["before"] == 1
        assert third.until("waiting")["before"] == 2
        jobs.cancel(running.job)
        while third.until("waiting")["before"] != 1:
            pass
        jobs.cancel(second.job)
        assert third.end()["answer"]["name"] == "third"


def test_visitors_are_served_in_turn():
    with pool() as jobs:
        running = begun(jobs, "ask", Request("running", LONG_S), "a")
        order = []

        def note(name):
            return lambda event: order.append(name) if event["kind"] == "done" else None

        for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
            jobs.start("ask", Request(name), note(name), name[0])
        jobs.cancel(running.job)
        assert until(lambda: len(order) == 6)
        assert order == ["b1", "c1", "a1", "b2", "a2", "a3"]


def test_the_worker_that_has_a_model_gets_its_next_job():
    with pool(2) as jobs:
        one = begun(jobs, "ask", Request("one", LONG_S, model="big"))
        two = begun(jobs, "ask", Request("two", LONG_S, model="small"))
        for events in (one, two):
            jobs.cancel(events.job)
        has = {"big": one.end()["answer"]["by"], "small": two.end()["answer"]["by"]}
        for model in ("small", "big", "big", "small"):
            assert start(jobs, "ask", Request(model=model)).end()["answer"]["by"] == has[model]


def test_a_question_in_place_of_another_goes_to_the_worker_that_is_about_to_have_its_model():
    with pool(2) as jobs:
        idle = begun(jobs, "ask", Request("idle", LONG_S))
        question = begun(jobs, "ask", Request("asked", LONG_S, model="asked for nowhere else"))
        question.until("model")
        jobs.cancel(idle.job)
        idle.end()
        jobs.cancel(question.job)
        again = start(jobs, "ask", Request("again", model="asked for nowhere else"))
        assert again.end()["answer"]["by"] == question.end()["answer"]["by"]


def test_a_job_without_progress_is_ended_with_its_reason(monkeypatch):
    monkeypatch.setattr(scheduler, "MARGIN_S", 0.3)
    with pool() as jobs:
        deaf = start(jobs, "place", Request("deaf", LONG_S, time_limit_s=0.1))
        shown = deaf.end()
        assert shown["kind"] == "failed"
        assert "time limit of 100 ms, took more than 400 ms and was stopped" in shown["message"]
        heeds = start(jobs, "ask", Request("heeds", LONG_S, time_limit_s=0.1)).end()
        assert heeds["answer"]["stopped"]
        assert "was stopped" in heeds["cut_off"]


def test_a_search_has_its_own_limit_once_there_is_a_model(monkeypatch):
    monkeypatch.setattr(scheduler, "MARGIN_S", 0.3)
    with pool() as jobs:
        event = start(jobs, "place", Request("deaf", LONG_S, model="chain", time_limit_s=0.1)).end()
        assert "with a time limit of 100 ms" in event["message"]


def test_who_cannot_hear_keeps_nobody_else_from_it(caplog):
    def fails(event):
        raise RuntimeError("broken on purpose")

    with pool() as jobs:
        jobs.start("ask", Request("unheard of"), fails)
        assert start(jobs, "ask", Request("heard of")).end()["answer"]["name"] == "heard of"
    assert "broken on purpose" in caplog.text


def test_a_job_that_gets_on_may_take_as_long_as_it_likes(monkeypatch):
    monkeypatch.setattr(scheduler, "MARGIN_S", 2.0)
    with pool() as jobs:
        event = start(jobs, "help", Request("many", 0.2, parts=11)).end()
        assert event == {"kind": "done", "answer": event["answer"]}
        assert not event["answer"]["stopped"]


def test_a_trace_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(scheduler, "TRACE_S", 0.3)
    with pool() as jobs:
        tracing = start(jobs, "unheard", Request("deaf", LONG_S, model="never"))
        assert "tracing this model took more than 300 ms" in tracing.end()["message"]


def test_the_best_plan_is_kept_when_the_process_of_a_search_is_ended():
    with pool() as jobs:
        stuck = start(jobs, "solve", Request("stuck", LONG_S))
        stuck.until("progress")
        jobs.cancel(stuck.job)
        ended = stuck.end()
        assert (ended["kind"], ended["stop_reason"], ended["cut_off"]) == ("result", "CANCELLED", "")
        assert ended["plan"]["objective_s"] == 2.0
        dies = start(jobs, "solve", Request("dies", LONG_S))
        dies.until("progress")
        jobs._jobs[dies.job].worker.process.kill()
        ended = dies.end()
        assert "ended unexpectedly (exit code -9)" in ended["cut_off"]
        assert ended["plan"]["notes"] == [ended["cut_off"]]


def test_what_needs_more_memory_than_a_worker_has_is_reported_and_the_next_question_answered():
    pytest.importorskip("resource")
    with pool(spec=replace(FAKE, memory_bytes=2**30)) as jobs:
        assert start(jobs, "sweep", Request("small", memory_bytes=2**20)).end()["answer"]["bytes"] == 2**20
        refused = start(jobs, "sweep", Request("large", memory_bytes=2**30)).end()
        assert "more than the 1 GiB that a worker may take" in refused["message"]
        assert start(jobs, "sweep", Request("small", memory_bytes=2**20)).end()["answer"]["bytes"] == 2**20


def test_workers_that_cannot_even_begin_are_reported(monkeypatch):
    monkeypatch.setattr(pool_module, "PAUSE_S", 0.01)
    monkeypatch.setattr(pool_module, "FAILED_STARTS", 3)
    with pool(spec=BROKEN) as jobs:
        event = start(jobs, "ask", Request("nobody"))
        why = "the pretending process ended 3 times in a row while it started (exit code 9)"
        assert event.end()["message"] == why


def test_who_waits_for_workers_that_end_while_they_start_is_reported_and_answered_once_one_does_not(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(STARTS, str(tmp_path))
    monkeypatch.setattr(pool_module, "PAUSE_S", 0.01)
    for i in range(3):
        (tmp_path / str(i)).touch()
    with pool(2, spec=LATE) as jobs:
        waiting = [start(jobs, "ask", Request(name), name) for name in "ab"]
        for events in waiting:
            while not (shown := events.until("waiting", "failed"))["why"]:
                pass
            assert shown["why"] == "the pretending process ended while it started; another is started"
        assert [events.end()["answer"]["name"] for events in waiting] == ["a", "b"]


def test_who_waits_is_answered_though_starting_workers_are_killed(monkeypatch):
    monkeypatch.setattr(pool_module, "PAUSE_S", 0.01)
    jobs = Jobs(FAKE, 2)
    waiting = [start(jobs, "ask", Request(name), name) for name in "ab"]
    for _ in range(3):
        assert until(lambda: bool(jobs.workers))
        (worker,) = jobs.workers
        worker.process.kill()
        assert until(lambda worker=worker: worker not in jobs.workers)
        assert not worker.ready
    assert [events.end()["answer"]["name"] for events in waiting] == ["a", "b"]
    jobs.close()


def test_workers_that_cannot_begin_fail_nobody_while_another_works(monkeypatch):
    with pool(2) as jobs:
        long = begun(jobs, "ask", Request("long", LONG_S), "a")
        monkeypatch.setattr(jobs, "spec", process_spec(BROKEN))
        monkeypatch.setattr(pool_module, "PAUSE_S", 0.01)
        monkeypatch.setattr(pool_module, "FAILED_STARTS", 2)
        for worker in [worker for worker in jobs.workers if worker.task is None]:
            worker.process.kill()
        assert until(lambda: len(jobs.workers) == 1)
        waits = start(jobs, "ask", Request("waits"), "b")
        assert until(lambda: jobs.failed_starts > 2 and len(jobs.workers) == 1)
        assert not waits.ended()
        jobs.cancel(long.job)
        assert waits.end()["answer"]["name"] == "waits"


def test_workers_of_a_server_for_others_are_there_before_anybody_asks_and_again_after_one_ends():
    jobs = Jobs(FAKE, 2)
    jobs.warm(2)
    assert until(lambda: [worker.free() for worker in jobs.workers] == [True, True])
    ended = jobs.workers[0]
    ended.process.kill()
    assert until(lambda: ended not in jobs.workers and all(worker.free() for worker in jobs.workers))
    assert until(lambda: [worker.free() for worker in jobs.workers] == [True, True])
    jobs.close()


def test_what_is_closed_says_so():
    jobs = Jobs(FAKE)
    waiting = start(jobs, "ask", Request("waiting", LONG_S))
    jobs.close()
    assert waiting.end()["message"] == "the server is shutting down"
    with pytest.raises(RuntimeError):
        jobs.start("ask", Request("late"), lambda event: None)


def test_a_worker_that_compiles_is_not_killed_by_a_cancel():
    with pool() as jobs:
        deaf = begun(jobs, "place", Request("deaf", LONG_S))
        worker = jobs._jobs[deaf.job].worker
        jobs._message(worker, "compiling", deaf.job, "pipeline draft", 2.0)
        jobs.cancel(deaf.job)
        time.sleep(1.0)
        assert worker.process.exit_code is None
        jobs._message(worker, "compiling", deaf.job, "", 3.0)
        assert "ended unexpectedly" in deaf.end()["message"]


class Watched:
    """Stands for a worker that had so many seconds of the processor."""

    def __init__(self, job, cpu_s):
        self.task, self.process, self.killed = job, self, False
        self.cpu_s = lambda: cpu_s

    def kill(self):
        self.killed = True


@pytest.mark.parametrize(
    ("waited_s", "cpu_s", "killed"),
    [(2.1, 2.0, True), (2.1, 0.2, False), (6.1, 0.2, True), (2.1, math.inf, True)],
    ids=["works on", "is kept from working", "for too long", "nobody knows"],
)
def test_a_worker_that_others_keep_from_the_processor_has_more_time_to_heed(waited_s, cpu_s, killed):
    jobs = Jobs(FAKE)
    job = Job("job1", "place", Request(), print)
    worker = Watched(job, cpu_s)
    jobs._kill(job, worker, (time.monotonic() - waited_s, 0.0))
    assert worker.killed == killed
    worker.task = None  # it has heeded
    jobs.close()


def test_the_work_of_a_worker_is_counted():
    with pool() as jobs:
        running = begun(jobs, "ask", Request("running", LONG_S))
        assert jobs._jobs[running.job].worker.process.cpu_s() > 0.0


def test_what_is_compiled_before_the_first_job_is_reported_to_those_who_wait():
    jobs = Jobs(FAKE)
    try:
        waits = start(jobs, "ask", Request("waits", LONG_S))
        worker = jobs.workers[0]
        if not worker.ready:
            jobs._message(worker, "compiling", "", "pipeline draft", 1.0)
            assert waits.until("compiling", "loading")["kernel"] == "pipeline draft"
    finally:
        jobs.close()


@pytest.mark.slow
def test_a_worker_that_has_to_compile_answers_first_and_compiles_when_it_is_idle():
    jobs = Jobs(LATER)
    try:
        first, second = Events(), Events()
        jobs.start("ask", Request("first"), first)
        assert first.until("done", "compiling")["kind"] == "done"
        assert until(lambda: jobs.workers[0].task is None)
        time.sleep(LATER.idle_s * 2)
        jobs.start("ask", Request("second"), second)
        received = second.until("compiling", "done")
        assert (received["kind"], received["kernel"]) == ("compiling", "")  # that what it waited for is done
        assert second.until("done")["answer"]["name"] == "second"
    finally:
        jobs.close()
