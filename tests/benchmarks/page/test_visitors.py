"""Two visitors at once: one searches thoroughly, another asks for a first plan a second later."""

from __future__ import annotations

import statistics
import time

import pytest

from explorer.jobs.requests import SolveRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.specs import default_workers, memory_bytes, solving_spec
from explorer.question.settings import Settings
from explorer.sweeps.execution.workers import cores
from explorer.view.events import LAST
from solvers.search.effort import Effort
from tests.benchmarks.table import show
from tests.explorer.jobs.workers.fakes import Events

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

TIMES = 3
LONG = SolveRequest("gpt", Settings(devices=8), time_limit_s=12.0, effort=Effort.THOROUGH)
SHORT = SolveRequest("bert-small", Settings(devices=4))


class Timed(Events):
    """first_s, last_s: when the first and the last plan came, since it was made."""

    def __init__(self):
        super().__init__()
        self.began, self.first_s, self.last_s = time.perf_counter(), None, None

    def __call__(self, event):
        took = time.perf_counter() - self.began
        if event.get("plan") is not None and self.first_s is None:
            self.first_s = took
        if event["kind"] in LAST:
            self.last_s = took
        super().__call__(event)


def waiting_times(jobs):
    """Of one round: seconds to the first and last plan of the long search, and of the other visitor."""
    long = Timed()
    jobs.start("solve", LONG, long, "a")
    time.sleep(1.0)
    short = Timed()
    jobs.start("solve", SHORT, short, "b")
    assert {events.until(*LAST)["kind"] for events in (long, short)} == {"result"}
    return long.first_s, long.last_s, short.first_s, short.last_s


def test_a_first_plan_does_not_wait_for_the_search_of_another():
    rows = []
    most = default_workers(cores(), memory_bytes())
    for workers in (1, max(2, most)):
        jobs = Jobs(solving_spec(workers, memory_bytes()), workers, interactive=True)
        try:
            warm = Timed()
            jobs.start("solve", SHORT, warm)
            warm.until(*LAST)
            rounds = [waiting_times(jobs) for _ in range(TIMES)]
        finally:
            jobs.close()
        cells = [f"{statistics.median(column):.1f}" for column in zip(*rounds, strict=True)]
        rows.append((workers, *cells, f"{max(one[2] for one in rounds):.1f}"))
    header = ("workers", "long: first plan, s", "done, s", "other: first plan, s", "done, s", "first plan, slowest, s")
    show("Two visitors: gpt on 8 GPUs, thorough, 12 s; bert-small on 4 a second later", header, rows, "numpy")
