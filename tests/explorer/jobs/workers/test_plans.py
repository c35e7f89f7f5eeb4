"""Plans that one worker found are there for every other, and outlive it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from explorer.jobs import held_plans
from explorer.jobs.held_plans import file_of, hold, newly_held, result_of, take
from explorer.jobs.requests import DifferRequest, PlanSource, PrepareRequest, ReviewRequest, SolveRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.plans import Plans
from explorer.jobs.workers.scheduler import plans_of
from explorer.jobs.workers.specs import SOLVING, nothing
from explorer.question.packing import PackedGraph, PackedPlan, PackedProblem
from explorer.question.settings import Settings
from solvers.planners.solve import solve
from tests.explorer.jobs.workers.fakes import WAIT_S, Events
from tests.explorer.view.small import chain_problem


@pytest.fixture
def packed():
    """The name of a plan, and the plan as another process gets it."""
    tuple(newly_held())
    name = hold(solve(chain_problem(2, micro_batches=4, blocks=2, size=3), "equal"), "chain")
    held = dict(newly_held())
    assert list(held) == [name]
    return name, held[name]


def test_a_plan_is_the_same_where_another_worker_takes_it(packed, monkeypatch):
    name, plan = packed
    made = result_of(name)
    monkeypatch.setattr(held_plans, "_held", type(held_plans._held)())
    take(name, plan)
    taken, reference = result_of(name)
    assert reference == "chain"
    assert taken.plan == made[0].plan
    assert taken.objective_s == made[0].objective_s
    assert file_of(name).problem.graph == made[0].problem.graph
    assert not tuple(newly_held())  # it is not handed back


def test_names_of_two_processes_differ():
    code = "from explorer.jobs import held_plans; print(held_plans._process)"
    message = {subprocess.check_output([sys.executable, "-c", code], timeout=WAIT_S) for _ in range(2)}
    assert len(message) == 2


def test_requests_say_which_plans_they_are_about():
    assert list(plans_of(ReviewRequest(PlanSource(held="plan-1")))) == ["plan-1"]
    assert list(plans_of(ReviewRequest(PlanSource(text=b"x", held="plan-1")))) == []
    assert list(plans_of(ReviewRequest(PlanSource(path="/plan.json", held="plan-1")))) == []
    assert list(plans_of(DifferRequest(PlanSource(held="a"), PlanSource(held="b")))) == ["a", "b"]
    assert list(plans_of(PrepareRequest("plan-1", "local"))) == ["plan-1"]
    assert list(plans_of(SolveRequest("gpt", Settings(), before="plan-2"))) == ["plan-2"]
    assert list(plans_of(SolveRequest("gpt", Settings()))) == []


def plan(key, nbytes):
    return PackedPlan(PackedProblem(PackedGraph(key, b"g" * 100), b"p" * nbytes), b"", "")


def test_the_oldest_go_first_and_graphs_are_kept_once():
    plans = Plans(most=3, max_bytes=10_000)
    for number in range(3):
        plans.put(str(number), plan("graph", 10))
    assert plans.nbytes == 130
    assert plans.get("0").problem.graph is plans.get("2").problem.graph
    plans.put("3", plan("other", 10))
    assert plans.get("0") is None
    assert plans.nbytes == 230
    plans.put("4", plan("other", 9_900))
    assert plans.get("4") is not None
    assert plans.get("3") is None
    assert plans.nbytes == 10_000


def test_a_plan_outlives_the_worker_that_made_it(tmp_path):
    path = tmp_path / "graph.txt"
    line = "node{} -- Linear -- forward_compute_time=2, backward_compute_time=2, activation_size=8, parameter_size=8\n"
    path.write_text(line.format(1) + line.format(2) + "\tnode1 -- node2\n")
    jobs = Jobs(replace(SOLVING, prepare=nothing))
    try:
        solved = Events()
        jobs.start("solve", SolveRequest(str(path), Settings(devices=2), "equal"), solved)
        answer = solved.end()
        held = answer["plan"]["held"]
        jobs.workers[0].process.kill()
        jobs.workers[0].process.wait(WAIT_S)
        reviewed, unknown = Events(), Events()
        jobs.start("review", ReviewRequest(PlanSource(held=held)), reviewed)
        jobs.start("review", ReviewRequest(PlanSource(held="plan-0-1")), unknown)
        assert reviewed.end()["kind"] == "done"
        assert "no longer held by the solver: solve again" in unknown.end()["message"]
    finally:
        jobs.close()
