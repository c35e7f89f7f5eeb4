"""Runs as jobs: prepared, run on a target that pretends, kept, shown again, planned again; one at a time."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from explorer.jobs.held_plans import MOST_PLANS, file_of, hold, text_of, unpacked_text
from explorer.jobs.past_runs import past_runs
from explorer.jobs.replan import replan_job
from explorer.jobs.requests import PrepareRequest, ReplanRequest, RunPlanRequest, ShowRunRequest
from explorer.jobs.run_kinds import cleaner, prepare_job, run_job, show_run_job
from explorer.jobs.workers import worker
from explorer.jobs.workers.specs import RUNNING
from explorer.jobs.workers.worker import process_spec
from explorer.question.settings import Settings
from explorer.view.events import LAST, unpacked
from explorer.web.state.runs import Runs
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import read_plan
from solvers.plan.result import Result, Status, StopReason
from solvers.programs.processes.entry import Channel
from tests.browser.fakes.fake_runs import ADDRESS, FakeTargets
from tests.explorer.view.small import chain_problem, even_plan


@pytest.fixture(autouse=True)
def _kept_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path))


def result():
    problem = chain_problem(2, micro_batches=4, blocks=2, size=3)
    plan = even_plan(problem)
    took = evaluate(problem, plan).iteration_s
    return Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, took, 0.0, 0.01, "linear-dp")


def events_of(job, request, should_stop=lambda: False):
    """The events of a job on targets that pretend."""
    emitted = []
    worker.run(lambda *given: job(*given, targets=FakeTargets()), request, emitted.append, should_stop)
    return emitted


@pytest.fixture
def text():
    return text_of(file_of(hold(result(), "chain")))


def ran(text, target="fake", **question):
    emitted = events_of(run_job, RunPlanRequest("plan-1", text, target, **question))
    assert emitted[-1]["kind"] == "ran", emitted[-1]
    return emitted[-1]["run"]


def test_a_plan_that_is_held_is_given_out_whole():
    file = read_plan(unpacked_text(text_of(file_of(hold(result(), "chain")))))
    assert (file.plan, file.reference, file.result.planner) == (result().plan, "chain", "linear-dp")


def test_the_oldest_plans_are_let_go():
    first = hold(result(), "chain")
    for _ in range(MOST_PLANS):
        hold(result(), "chain")
    with pytest.raises(InvalidProblem, match="solve again"):
        file_of(first)


def test_a_plan_is_looked_at_before_it_runs():
    emitted = events_of(prepare_job, PrepareRequest(hold(result(), "chain"), "fake"))
    assert (emitted[-1]["kind"], emitted[-1]["ranks"], emitted[-1]["refused"]) == ("prepared", 2, [])
    assert read_plan(unpacked_text(emitted[-1]["text"])).plan == result().plan


def test_a_run_tells_its_phases_and_what_was_measured_and_is_kept(text):
    emitted = events_of(run_job, RunPlanRequest("plan-1", text, "fake", steps=4))
    phases = [event["phase"] for event in emitted if event["kind"] == "running"]
    assert list(dict.fromkeys(phases)) == ["tracing", "building", "warming up", "measuring"]
    run = emitted[-1]["run"]
    assert run["report"]["measured_s"] > run["report"]["predicted_s"]
    assert unpacked(run["plan"])["held"] == run["held"] == "plan-1"
    assert run["command"].endswith(f"sh {run['folder']}/run.sh")
    (stored,) = past_runs("chain")
    assert (stored.bundle, stored.target, stored.planner, stored.ok) == (run["bundle"], "fake", "linear-dp", True)
    assert stored.measured_s == pytest.approx(run["report"]["measured_s"])
    assert past_runs("another") == []


def test_the_newest_run_is_listed_first_even_within_a_second(text):
    made = [ran(text)["bundle"] for _ in range(4)]
    assert [stored.bundle for stored in past_runs("chain")] == made[::-1]


def test_a_past_run_is_shown_as_it_was_reported(text):
    run = ran(text, verify=True)
    again = events_of(show_run_job, ShowRunRequest(run["bundle"]))[-1]["run"]
    assert again["report"] == run["report"]
    assert unpacked(again["plan"])["graph"] == run["skeleton"]["graph"]
    assert unpacked_text(again["text"]) == unpacked_text(text)


@pytest.mark.parametrize("name", ["../../etc", "", "no-such-run"])
def test_only_runs_that_are_kept_can_be_shown(name, text):
    ran(text)
    assert events_of(show_run_job, ShowRunRequest(name))[-1]["kind"] == "failed"


def test_a_lost_rank_is_a_run_that_failed_with_its_reason_and_its_log(text):
    run = ran(text, "broken")
    assert (run["status"], run["culprit"], run["report"]) == ("failed", 1, None)
    assert "signal 9" in run["reason"]
    assert run["log"][-1] == "rank 1: signal 9"
    assert [stored.word for stored in past_runs("chain")] == ["failed"]


def test_a_target_out_of_reach_is_named_but_not_its_address(text):
    run = ran(text, "gone")
    assert run["status"] == "failed"
    assert ADDRESS not in str({key: run[key] for key in ("reason", "log", "notes")})
    assert "does not answer" in run["reason"]


def test_an_address_is_replaced_by_the_targets_name_however_it_is_written():
    clean = cleaner("https://head.example.org:8265", "cluster")
    assert clean("https://head.example.org:8265/api: 401; head.example.org") == "cluster/api: 401; cluster"
    assert cleaner("this machine", "local")("on this machine") == "on this machine"


def test_a_cancelled_run_says_so(text):
    run = events_of(run_job, RunPlanRequest("plan-1", text, "slow"), lambda: True)[-1]["run"]
    assert run["status"] == "cancelled"


def test_an_unknown_target_is_refused(text):
    last = events_of(run_job, RunPlanRequest("plan-1", text, "elsewhere"))[-1]
    assert last["kind"] == "failed"
    assert "no target 'elsewhere'" in last["message"]


def test_a_plan_is_made_again_with_measured_costs_and_can_run(text):
    request = ReplanRequest("plan-1", text, "fake", "chain", Settings(), "linear-dp", 2.0)
    emitted = events_of(replan_job, request)
    assert emitted[-1]["kind"] == "replanned", emitted[-1]
    shown_, file = emitted[-1], read_plan(unpacked_text(emitted[-1]["text"]))
    assert file.problem.costs_from.startswith("measured on 2 x a processor")
    assert shown_["before"]["measured_s"] > shown_["before"]["estimated_s"]
    assert shown_["after"]["measured_s"] <= shown_["before"]["measured_s"] * (1 + 1e-9)
    assert past_runs("chain") == []
    assert ran(shown_["text"])["report"] is not None


class Held:
    """A backend whose runs end when the test ends them."""

    def __init__(self):
        self.report, self.cancelled = None, []

    def start(self, request, on_event, visitor=""):
        self.report = on_event
        return "run-1"

    def cancel(self, job):
        self.cancelled.append(job)


def test_a_server_has_one_run_at_a_time_and_every_page_sees_it():
    runs, seen = Runs(backend := Held()), ([], [])
    forget = [runs.listen(page.append) for page in seen]
    runs.begin(RunPlanRequest("plan-1", b"", "fake"), "the plan of auto")
    with pytest.raises(InvalidProblem, match="one run at a time: the plan of auto is still running on fake"):
        runs.begin(RunPlanRequest("plan-2", b"", "fake"), "another")
    backend.report({"kind": "running", "phase": "measuring", "done": 1, "of": 5, "lines": ["a"]})
    assert (runs.going.phase, runs.going.done, list(runs.going.lines)) == ("measuring", 1, ["a"])
    runs.cancel()
    runs.cancel()
    assert backend.cancelled == ["run-1"]
    forget[1]()
    backend.report({"kind": "failed", "message": "over"})
    assert runs.going is None
    assert [event["kind"] for event in seen[0]] == ["running", "running", "running", "failed"]
    assert len(seen[1]) == 3
    runs.begin(RunPlanRequest("plan-2", b"", "fake"), "another")


def test_a_worker_of_runs_lets_what_runs_end_when_the_server_does():
    (source, write_end), null = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    spec = replace(process_spec(RUNNING), end_s=3600.0)
    channel = Channel(os.fdopen(source, "rb"), os.fdopen(null, "wb"), spec)
    os.close(write_end)  # the server is gone
    assert channel.next(20) is None
    assert channel.should_stop("job1")()


def test_every_kind_of_job_about_runs_has_its_last_event():
    assert {"prepared", "ran", "replanned"} <= set(LAST)
