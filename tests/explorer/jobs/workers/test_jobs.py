"""Jobs run in a warm process that can be cancelled, can die, and keeps torch out of this one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from explorer.jobs.requests import CompareRequest, SolveRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.question.settings import Settings
from explorer.view.events import unpacked
from solvers.problem.problem import Contiguity
from tests.explorer.jobs.workers.fakes import WAIT_S, Events


@pytest.fixture(scope="module")
def jobs():
    made = Jobs()
    yield made
    made.close()


def worker_of(jobs):
    return jobs.workers[0].process


@pytest.fixture
def workload(tmp_path):
    """Eleven operators without edges on three accelerators: 177,147 placements to enumerate."""
    nodes = [
        {
            "id": i, "name": f"n{i}", "supportedOnFpga": 1, "cpuLatency": 9.0, "fpgaLatency": 1.0 + i / 7,
            "isBackwardNode": 0, "colorClass": i, "size": 1.0,
        }
        for i in range(11)
    ]  # fmt: skip
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"maxFPGAs": 3, "maxCPUs": 0, "maxSizePerFPGA": 100.0, "nodes": nodes, "edges": []}))
    return str(path)


def test_a_solve_reports_the_model_and_then_its_result(jobs, workload):
    events = Events()
    jobs.start("solve", SolveRequest(workload, Settings()), events)
    assert unpacked(events.until("model")["skeleton"])["operators"] == 11
    result = events.until("result", "failed")
    assert result["kind"] == "result"
    assert len(result["plan"]["placement"]) == 11


def test_what_the_page_always_sends_does_not_stand_in_a_files_way(jobs, workload):
    events = Events()
    settings = Settings(devices=2, device_kind="H100-80GB", training=True)
    jobs.start("solve", SolveRequest(workload, settings), events)
    result = events.until("result", "failed")
    assert result["kind"] == "result", result
    assert len(result["plan"]["devices"]) == 2


def test_a_cancelled_solve_still_gives_its_best_plan(jobs, workload):
    events = Events()
    job = jobs.start(
        "solve",
        SolveRequest(workload, Settings(contiguity=Contiguity.NONE), planner="brute-force", time_limit_s=100),
        events,
    )
    events.until("progress")
    jobs.cancel(job)
    result = events.until("result", "failed")
    assert result["kind"] == "result"
    assert result["stop_reason"] == "CANCELLED"
    assert result["plan"]["status"] == "FEASIBLE"


def test_a_comparison_gives_a_row_a_planner_and_then_its_end(jobs, workload):
    events = Events()
    planners = ("single", "brute-force:placement_limit=1", "linear-dp")
    jobs.start("compare", CompareRequest(workload, Settings(), planners), events)
    assert unpacked(events.until("model")["skeleton"])["operators"] == 11
    rows = [events.until("row", "failed") for _ in planners]
    assert [(e["row"].planner, e["row"].status) for e in rows] == [
        ("brute-force:placement_limit=1", "UNSUPPORTED"),
        ("single", "FEASIBLE"),
        ("linear-dp", "FEASIBLE"),
    ]
    assert [e["plan"] is not None for e in rows] == [False, True, True]
    assert len(unpacked(rows[1]["plan"])["placement"]) == 11
    assert {e["objective"] for e in rows} == {"max-load"}
    end = events.until("compared", "failed")
    assert (end["finished"], end["runs"], end["contradictions"]) == (3, 3, [])


def test_a_comparison_that_is_cancelled_keeps_the_rows_it_has(jobs, workload):
    events = Events()
    settings = Settings(contiguity=Contiguity.NONE)
    planners = ("single", "brute-force", "linear-dp")
    job = jobs.start("compare", CompareRequest(workload, settings, planners, time_limit_s=100), events)
    rows = [events.until("row", "failed")["row"]]
    while events.until("comparing")["planner"] != "brute-force":
        pass
    jobs.cancel(job)
    rows.append(events.until("row", "failed")["row"])
    assert [(row.planner, row.stop_reason) for row in rows] == [("single", "FINISHED"), ("brute-force", "CANCELLED")]
    end = events.until("compared", "failed")
    assert (end["finished"], end["runs"]) == (2, 3)


def test_a_comparison_of_nobody_known_fails_with_one_line(jobs, workload):
    events = Events()
    jobs.start("compare", CompareRequest(workload, Settings(), ("nobody",)), events)
    assert "no planner 'nobody'" in events.until("compared", "failed")["message"]


def test_bad_input_fails_with_one_line(jobs, workload):
    events = Events()
    jobs.start("solve", SolveRequest("no-such-model", Settings()), events)
    message = events.until("result", "failed")["message"]
    assert "no-such-model" in message
    assert "\n" not in message


def test_jobs_end_in_order_and_each_exactly_once(jobs, workload):
    first, second = Events(), Events()
    jobs.start("solve", SolveRequest(workload, Settings()), first)
    jobs.start("solve", SolveRequest(workload, Settings(devices=2)), second)
    second.until("result")
    first.until("result")
    assert first.queue.empty()
    assert second.queue.empty()


def test_a_job_cancelled_before_it_begins_never_runs(jobs, workload):
    blocking, waiting = Events(), Events()
    slow = SolveRequest(workload, Settings(contiguity=Contiguity.NONE), planner="brute-force", time_limit_s=100)
    first = jobs.start("solve", slow, blocking)
    blocking.until("progress")
    second = jobs.start("solve", replace(slow, seed=1), waiting)
    jobs.cancel(second)
    jobs.cancel(first)
    assert blocking.until("result", "failed")["kind"] == "result"
    assert "cancelled" in waiting.until("result", "failed")["message"]


def test_a_dead_worker_fails_its_job_and_is_replaced(jobs, workload):
    events = Events()
    slow = SolveRequest(workload, Settings(contiguity=Contiguity.NONE), planner="brute-force", time_limit_s=100)
    jobs.start("solve", slow, events)
    events.until("progress")
    worker_of(jobs).kill()
    cut = events.until("result", "failed")
    assert "ended unexpectedly" in cut["cut_off"]
    assert len(cut["plan"]["placement"]) == 11
    assert (cut["plan"]["held"], cut["stop_reason"]) == ("", "CANCELLED")
    again = Events()
    jobs.start("solve", SolveRequest(workload, Settings()), again)
    assert again.until("result", "failed")["kind"] == "result"


def test_a_cancel_of_a_waiting_job_leaves_the_running_one_alone(jobs, workload):
    running, waiting = Events(), Events()
    slow = SolveRequest(workload, Settings(contiguity=Contiguity.NONE), planner="brute-force", time_limit_s=1.0)
    jobs.start("solve", slow, running)
    running.until("model")
    jobs.cancel(jobs.start("solve", slow, waiting))
    assert running.until("result", "failed")["stop_reason"] == "TIME_LIMIT"
    assert "cancelled" in waiting.until("result", "failed")["message"]


def test_a_job_that_waits_behind_one_whose_worker_dies_is_done_by_the_next_worker(jobs, workload):
    first, second = Events(), Events()
    slow = SolveRequest(workload, Settings(contiguity=Contiguity.NONE), planner="brute-force", time_limit_s=100)
    jobs.start("solve", slow, first)
    first.until("progress")
    jobs.start("solve", SolveRequest(workload, Settings()), second)
    worker_of(jobs).kill()
    assert "ended unexpectedly" in first.until("result", "failed")["cut_off"]
    assert second.until("result", "failed")["kind"] == "result"


def test_the_process_that_starts_jobs_never_imports_torch():
    code = "import sys, explorer.jobs.workers.jobs, explorer.web; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_a_trace_that_is_cancelled_ends_alone(jobs, workload, tmp_path):
    """Torch cannot be interrupted: the trace has a process of its own, and the worker answers the next question."""
    endless = tmp_path / "endless.py"
    endless.write_text(
        "import time, torch\n\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        y = super().forward(x)\n"
        "        time.sleep(10000)\n        return y.sum()\n\ndef make():\n    return Net(2, 2), (torch.zeros(2, 2),)\n"
    )
    warm, traced, waiting = Events(), Events(), Events()
    jobs.start("solve", SolveRequest(workload, Settings()), warm)
    warm.until("result")
    process = worker_of(jobs)
    job = jobs.start("solve", SolveRequest(f"{endless}:make", Settings(devices=1)), traced)
    jobs.start("solve", SolveRequest(workload, Settings()), waiting)
    while not re.search(r"[1-9]\d* calls? so far", traced.until("loading")["text"]):
        pass
    jobs.cancel(job)
    assert "cancelled" in traced.until("failed", "result")["message"]
    assert waiting.until("result", "failed")["kind"] == "result"
    assert worker_of(jobs) is process
