"""What ranks do beside operators, and a prediction with it: chains small enough to add up by hand."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import pytest

import explorer.runner.scripts.with_engine as with_engine_file
from explorer.library.answer import is_known
from explorer.library.cached_solver import CachedSolver
from explorer.runner.scripts.duties import duties, packed
from explorer.runner.scripts.lowering import make_script
from explorer.runner.scripts.with_engine import run_seconds, runtime_estimator, with_engine
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Action, Plan, Stage
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.engine import Duty, EngineCosts
from solvers.problem.problem import Objective, Problem
from solvers.search.effort import Effort
from tests.explorer.runner.plans import placed, problem_of
from tests.instances import forward_graph, problem

COSTS = EngineCosts(
    iteration_s=0.5,
    forward_s=0.25,
    backward_s=0.75,
    sent_s=1.0,
    received_s=2.0,
    sent_byte_s=0.125,
    received_byte_s=0.25,
)


def two_ranks(engine: EngineCosts | None = COSTS) -> tuple[Problem, Plan]:
    """Four operators of 1 s, two on each of two devices; one message of 4 bytes, 10 s + 1 s a byte."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=4.0)
    cluster = Cluster((Device("a", "gpu"), Device("b", "gpu")), (Link(0, 1, 1.0, 10.0), Link(1, 0, 1.0, 10.0)))
    chain = problem(graph, [1.0] * 4, training=False, objective=Objective.MAKESPAN, mini_batch=1)
    chain = replace(chain, cluster=cluster, engine=engine)
    stages = (Stage((0, 1), (0,)), Stage((2, 3), (1,)))
    return chain, Plan(stages, ((Action(0, "F"),), (Action(1, "F"),)))


def test_a_message_belongs_to_the_action_that_makes_it_and_to_the_one_that_waits_for_it() -> None:
    script = make_script(*two_ranks())
    assert duties(script, lambda tensor, samples: 4.0 * samples) == {
        (0, "F", 0): Duty(1, 1, 0, 4, 0),
        (1, "F", 1): Duty(1, 0, 1, 0, 4),
    }


def test_in_training_gradients_come_back_and_micro_batches_count() -> None:
    chain = problem_of("gpt-small", devices=2, mini_batch=8, micro_batches=4)
    count = sum(o.forward_of is None for o in chain.graph.operators)
    plan = placed(chain, [int(i >= count // 2) for i in range(count)], 4)
    duty_of = duties(make_script(chain, plan), lambda tensor, samples: 100.0 * samples)
    assert {key: duty.runs for key, duty in duty_of.items()} == {
        (0, "F", 0): 4, (0, "B", 0): 4, (0, "U", 0): 1, (1, "F", 1): 4, (1, "B", 1): 4, (1, "U", 1): 1,
    }  # fmt: skip
    there, back = duty_of[0, "F", 0], duty_of[1, "B", 1]
    assert there.sent > 0
    assert (there.sent, there.sent_bytes) == (duty_of[1, "F", 1].received, duty_of[1, "F", 1].received_bytes)
    assert (back.sent, back.sent_bytes) == (duty_of[0, "B", 0].received, duty_of[0, "B", 0].received_bytes)
    assert there.received == back.received == 0


def test_small_tensors_are_one_message() -> None:
    assert packed([1.0, 2.0])
    assert not packed([1.0])
    assert not packed([2.0**18, 1.0])


def test_a_run_takes_its_steps_and_messages_and_links_only_what_is_not_the_ranks_own() -> None:
    chain, plan = two_ranks()
    assert simulate(chain, plan).makespan_s == 2 + 14 + 2  # no objective counts the engine
    # 2 + an iteration, a step and a message sent; 10 - 1 - 2 and 4 x (1 - 0.375) on the link; 2 + the same, received.
    first, link, second = 2 + 0.5 + 0.25 + 1 + 0.5, 7 + 4 * 0.625, 2 + 0.5 + 0.25 + 2 + 1
    assert simulate(with_engine(chain, plan), plan).makespan_s == pytest.approx(first + link + second)


def test_where_the_engine_was_not_measured_nothing_changes() -> None:
    chain, plan = two_ranks(None)
    assert with_engine(chain, plan) is chain


@pytest.mark.parametrize("recompute", [False, True])
def test_every_action_of_a_plan_is_longer_by_its_own_part(recompute: bool) -> None:
    chain = problem_of("gpt-small", devices=2, mini_batch=8, micro_batches=4, recompute=recompute)
    count = sum(o.forward_of is None for o in chain.graph.operators)
    plan = placed(chain, [int(i >= count // 2) for i in range(count)], 4)
    plan = replace(plan, stages=tuple(replace(stage, recompute=recompute) for stage in plan.stages))
    costs = EngineCosts(*(1e-9 * value for value in astuple(COSTS)))  # small beside operators, as they are
    chain = replace(chain, engine=costs)
    shown = duties(make_script(chain, plan), lambda t, samples: chain.graph.tensors[t].nbytes.at(samples))
    before = simulate(chain, plan).busy_per_device_s()
    after = simulate(with_engine(chain, plan), plan).busy_per_device_s()
    for device in (0, 1):
        own = costs.iteration_s + sum(costs.seconds(kind, duty) for (_, kind, d), duty in shown.items() if d == device)
        assert after[device] - before[device] == pytest.approx(own)


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8])
def test_all_but_the_first_micro_batch_add_to_gradients(micro_batches: int) -> None:
    """Of what was measured, every second backward did: one micro-batch takes less, two as much, four more."""
    chain = problem_of("gpt-small", devices=2, mini_batch=8, micro_batches=micro_batches)
    count = sum(o.forward_of is None for o in chain.graph.operators)
    plan = placed(chain, [int(i >= count // 2) for i in range(count)], micro_batches)
    chain = replace(chain, engine=EngineCosts(0.0, 0.0, 0.0, added_byte_s=1e-15))
    before = sum(simulate(chain, plan).busy_per_device_s())
    after = sum(simulate(with_engine(chain, plan), plan).busy_per_device_s())
    nbytes = sum(o.trained_bytes for o in chain.graph.operators)
    assert after - before == pytest.approx(1e-15 * nbytes * (micro_batches / 2 - 1), abs=1e-15)


def test_a_plan_file_keeps_what_the_engine_takes() -> None:
    chain, plan = two_ranks()
    assert read_plan(write_plan(chain, plan)).problem.engine == COSTS
    without = write_plan(replace(chain, engine=None), plan)
    assert "engine" not in without
    assert read_plan(without).problem.engine is None


def test_of_the_candidate_plans_the_one_that_takes_least_in_a_run_is_the_answer() -> None:
    """Messages and steps that cost as much as operators: fewer micro-batches, or fewer stages, take less."""
    chain = problem_of("gpt-small", devices=2, mini_batch=16, micro_batches=None)
    work_s = float(chain.compute.at(chain.cluster.devices[0].kind, 4).sum())
    engine = EngineCosts(0.0, work_s / 4, work_s / 4, work_s / 2, work_s / 2)
    chain = replace(chain, engine=engine)
    before = solve(chain, "auto", effort=Effort.QUICK)
    after = solve(chain, "auto", effort=Effort.QUICK, second=runtime_estimator(chain))
    assert before.plan is not None
    assert after.plan is not None
    assert run_seconds(chain, after.plan) < 0.95 * run_seconds(chain, before.plan)
    assert after.objective_s >= before.objective_s
    assert runtime_estimator(replace(chain, engine=None)) is None
    assert runtime_estimator(replace(chain, objective=Objective.MAX_LOAD)) is None


def test_a_known_plan_of_least_run_time_is_given_at_once(tmp_path: Path) -> None:
    chain, _ = two_ranks()
    other = replace(chain, engine=replace(COSTS, sent_s=2 * COSTS.sent_s + 1.0))
    known = []
    for one in (chain, chain, other):
        with CachedSolver(tmp_path / "plans.sqlite") as solver:
            result = solver(one, "equal", second=runtime_estimator(one))
        known.append(is_known(result.notes))
    assert known == [False, True, False]


def test_other_scripts_tell_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, _ = two_ranks()
    before = runtime_estimator(chain).name
    monkeypatch.setattr(with_engine_file, "_scripts_hash", lambda: "0" * 16)
    assert runtime_estimator(chain).name not in (before, None)
