"""Every kind of worker is killed, starved and left: its waiting client is notified, and nothing of it stays."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from explorer.jobs.workers.jobs import Jobs
from explorer.question.tracer import Stopped, Tracer
from explorer.sweeps.execution.pool import Pool
from explorer.sweeps.execution.questions import Limits, Question
from solvers.errors import TraceError
from solvers.programs.background import Background
from solvers.programs.processes.pool import MOST_TRIES
from tests.explorer.jobs.workers.fakes import FAKE, WAIT_S, Events, Request
from tests.explorer.question.test_tracer import MODEL
from tests.explorer.view.small import chain_problem
from tests.solvers.programs.processes.test_process import gone
from tests.solvers.programs.test_mip import hard

LONG_S = 1000.0


class JobKind:
    """A worker of jobs."""

    def __init__(self, spec):
        self.jobs, self.events = Jobs(replace(spec, heed_s=0.2)), Events()

    def begin(self):
        """Something that takes long and heeds nothing."""
        self.job = self.jobs.start("place", Request("deaf", LONG_S), self.events)
        self.events.until("loading")
        return self.jobs.workers[0].process

    def cancel(self):
        self.jobs.cancel(self.job)

    def end(self):
        """What a waiting client is sent in the end."""
        return self.events.end()["message"]

    def close(self):
        self.jobs.close()


class SweepKind:
    """A worker of sweeps at the last try of a question, after which its end is an answer."""

    def __init__(self):
        self.pool = Pool(1)

    def begin(self):
        """It is given its question as it starts, and stands still before it has an answer."""
        self.pool.give(0, Question(chain_problem(2), "auto", Limits()), None)
        worker = self.pool.workers[0]
        os.kill(worker.process.pid, signal.SIGSTOP)
        worker.task.tries = MOST_TRIES
        return worker.process

    def cancel(self):
        self.pool.stop()
        self.pool.close()

    def end(self):
        while not (returned := self.pool.wait(0.1)):
            pass
        return returned[0].answer.reason

    def close(self):
        self.pool.close()


class TracerKind:
    """The process that traces, for somebody who waits."""

    def __init__(self, folder):
        self.path = folder / "deep.py"
        self.path.write_text(MODEL)
        self.tracer, self.stop, self.calls, self.raised = Tracer(), threading.Event(), [], ""

    def begin(self):
        self.thread = threading.Thread(target=self._trace)
        self.thread.start()
        while not self.calls or not self.calls[-1]:
            time.sleep(0.01)
        return self.tracer.process

    def _trace(self):
        try:
            self.tracer.trace(
                f"{self.path}:endless", None, None, lambda calls, _: self.calls.append(calls), self.stop.is_set
            )
        except (TraceError, Stopped) as error:
            self.raised = str(error) or "stopped"

    def cancel(self):
        self.stop.set()

    def end(self):
        self.thread.join(WAIT_S)
        return self.raised

    def close(self):
        self.stop.set()
        self.end()
        self.tracer.close()


class ProgramKind:
    """A solver of integer programs."""

    def begin(self):
        payload = {"model": hard().to_message(), "solver": "highs", "seed": 0, "nodes": None, "ends_at": math.inf}
        self.child = Background("mip", payload)
        while not self.child.poll():
            time.sleep(0.01)
        return self.child.process

    def cancel(self):
        self.child.close()

    def end(self):
        while not self.child.done:
            self.child.poll()
            time.sleep(0.01)
        return self.child.error

    def close(self):
        self.child.close()


@pytest.fixture(params=["job", "job with a limit", "job with processes", "sweep", "trace", "program"])
def kind(request, tmp_path):
    made = {
        "job": lambda: JobKind(FAKE),
        "job with a limit": lambda: JobKind(replace(FAKE, memory_bytes=2**31)),
        "job with processes": lambda: JobKind(replace(FAKE, orderly=True)),
        "sweep": SweepKind,
        "trace": lambda: TracerKind(tmp_path),
        "program": ProgramKind,
    }[request.param]()
    yield made
    made.close()


def test_whoever_waits_for_a_worker_that_is_killed_hears_how_it_ended(kind):
    process = kind.begin()
    os.kill(process.pid, signal.SIGKILL)
    assert "ended unexpectedly (exit code -9)" in kind.end()
    assert gone(process.pid)


def test_a_worker_that_stands_still_is_ended_when_nobody_wants_its_answer(kind):
    process = kind.begin()
    os.kill(process.pid, signal.SIGSTOP)
    kind.cancel()
    assert gone(process.pid)


def test_nothing_of_a_worker_stays_when_it_is_closed(kind):
    process = kind.begin()
    threads = list(process._threads)
    if process.spec.end_s:
        process.spec = replace(process.spec, end_s=0.0)  # it heeds nothing: without its 20 s of grace
        kind.jobs.spec = process.spec
    kind.close()
    assert gone(process.pid)
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert process._popen.stdout.closed
    assert process._popen.stdin.closed
