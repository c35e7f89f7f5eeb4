"""ZeRO: what each replica of a stage holds, and what replicas send, computed by hand for every stage of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.bounds.combinatorial import memory_need
from solvers.errors import InvalidProblem
from solvers.evaluation import units
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.result import Status
from solvers.planners.brute_force import BruteForce
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.cluster import uniform_cluster
from solvers.problem.gathering import Gathering, gathering
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Objective, Optimizer, Precision, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import problem, training_graph
from tests.random_problems import random_problem


def pair(zero: int, frozen: float = 0.0, buffers: float = 0.0, **options: object) -> Problem:
    """Two operators in a row, of 8 and 4 bytes of parameters (``frozen`` of the first, and ``buffers``), 1 s a
    sample forward and 1 s backward each, on 2 devices that may both run them, 1 byte a second between them."""
    graph = training_graph([(0, 1)], 2)
    first = replace(graph.operators[0], param_bytes=8.0, frozen_bytes=frozen, buffer_bytes=buffers)
    second = replace(graph.operators[1], param_bytes=4.0)
    graph = OpGraph((first, second, *graph.operators[2:]), graph.tensors)
    options = {"mini_batch": 4, "micro_batches": 2, "max_replicas": 2, **options}
    return problem(graph, [1.0] * len(graph), 2, zero=zero, **options)


def both(p: Problem, micro_batches: int = 2):
    return assemble(p, [(0, 1)] * len(p.graph), micro_batches)


@pytest.mark.parametrize(("zero", "precision", "expected"), [
    # 12 bytes of weights, 12 of gradients, 24 of moments
    (0, Precision.PURE, 12 + 12 + 24),
    (1, Precision.PURE, 12 + 12 + 12),
    (2, Precision.PURE, 12 + 6 + 12),
    (3, Precision.PURE, 6 + 6 + 12 + 8 / 2),  # and the other half of the larger operator's while it is used
    # 24 of masters, 48 of moments
    (0, Precision.MIXED, 12 + 12 + 24 + 48),
    (1, Precision.MIXED, 12 + 12 + 12 + 24),
    (2, Precision.MIXED, 12 + 6 + 12 + 24),
    (3, Precision.MIXED, 6 + 6 + 12 + 24 + 4),
    (2, Precision.MIXED_FP32_GRADIENTS, 12 + 12 + 12 + 24),
])  # fmt: skip
def test_what_one_of_two_replicas_holds(zero: int, precision: Precision, expected: float) -> None:
    p = pair(zero, precision=precision)
    plan = both(p)
    assert evaluate(p, plan).static_bytes == (expected, expected)
    assert verify(p, plan, simulate(p, plan)) == ()


@pytest.mark.parametrize(("zero", "expected"), [
    (0, 8 + 4 + 8 + 16), (1, 8 + 4 + 8 + 8), (2, 8 + 4 + 4 + 8), (3, 4 + 2 + 4 + 8 + 4),
])  # fmt: skip
def test_frozen_parameters_are_shared_out_with_the_others(zero: int, expected: float) -> None:
    """4 of the 12 bytes are frozen: 8 have gradients and 16 bytes of moments."""
    p = pair(zero, frozen=4.0)
    plan = both(p)
    assert evaluate(p, plan).static_bytes == (expected, expected)
    assert verify(p, plan, simulate(p, plan)) == ()


@pytest.mark.parametrize(("zero", "micro_batches", "seconds"), [
    # of 12 bytes each of 2 replicas sends half: gradients and their sums; gradients and new parameters;
    (0, 2, 6 + 6), (1, 2, 6 + 6), (1, 1, 6 + 6),
    # gradients of every micro-batch and new parameters
    (2, 1, 6 + 6), (2, 2, 2 * 6 + 6),
])  # fmt: skip
def test_what_two_replicas_send(zero: int, micro_batches: int, seconds: float) -> None:
    """4 samples through 2 operators, forward and backward, on 2 devices: 8 s of compute each."""
    p = pair(zero, micro_batches=micro_batches)
    plan = both(p, micro_batches)
    schedule = simulate(p, plan)
    assert schedule.makespan_s == 8 + seconds
    assert evaluate(p, plan).load_s == ((8 + seconds) / 4,) * 2
    assert verify(p, plan, schedule) == ()


@pytest.mark.parametrize(("micro_batches", "frozen", "forward_s", "backward_s", "exchange_s"), [
    # Half of 8 bytes are waited for before a forward, half of 4 while it runs; the other way round before a backward.
    # Gradients of the 12 bytes, or of the 8 that are not frozen, follow the last backward, once a micro-batch.
    (1, 0.0, 4 + 4, 2 + 4, 6), (2, 0.0, 4 + 2, 2 + 4, 2 * 6), (2, 4.0, 4 + 2, 2 + 4, 2 * 4),
])  # fmt: skip
def test_a_micro_batch_waits_for_parameters_that_nothing_hides(
    micro_batches: int, frozen: float, forward_s: float, backward_s: float, exchange_s: float
) -> None:
    """4 samples on 2 devices: 4 s of compute forward and 4 s backward on each, in 1 or 2 micro-batches."""
    p = pair(3, micro_batches=micro_batches, frozen=frozen)
    plan = both(p, micro_batches)
    schedule = simulate(p, plan)
    assert schedule.makespan_s == micro_batches * (forward_s + backward_s) + exchange_s
    took = {span.action[:2]: span.end_s - span.start_s for span in schedule.spans if not span.is_transfer}
    assert took == {"0F": forward_s, "0B": backward_s}
    assert evaluate(p, plan).load_s == ((8 + exchange_s + micro_batches * 12) / 4,) * 2  # on a link all of it goes
    assert verify(p, plan, schedule) == ()


def test_gathering_beside_long_operators_costs_its_first_part_alone() -> None:
    """100 times faster links: 0.04 s before a forward, 0.02 s before a backward, 0.12 s of gradients."""
    p = pair(3)
    fast = replace(p, cluster=uniform_cluster(p.cluster.devices, 100.0, 0.0))
    assert simulate(fast, both(p)).makespan_s == pytest.approx(2 * (2.04 + 2.02) + 0.12)


def test_the_first_gathering_pays_the_latencies_of_its_ring() -> None:
    p = pair(3)
    slow = replace(p, cluster=uniform_cluster(p.cluster.devices, 1.0, 0.5))
    schedule = simulate(slow, both(p))
    assert schedule.makespan_s == 2 * (6.5 + 6.5) + 12 + 2 * 0.5
    assert verify(slow, both(p), schedule) == ()


def test_a_stage_that_runs_again_hides_more_of_its_gathering() -> None:
    """Backward: 2 s, then 4 s of operators, in which the other 4 s of gathering are hidden."""
    p = pair(3, recompute=True)
    plan = both(p)
    plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
    schedule = simulate(p, plan)
    assert schedule.makespan_s == 2 * (6 + 6) + 12
    assert verify(p, plan, schedule) == ()


def test_an_unsplit_pass_sends_all_at_its_end() -> None:
    p = pair(3, objective=Objective.MAKESPAN)
    plan = both(p)
    schedule = simulate(p, plan)
    assert schedule.makespan_s == 8 + 6 + 12
    assert verify(p, plan, schedule) == ()


def test_what_goes_between_hosts_counts_what_is_gathered() -> None:
    """Two hosts: each of the 2 links carries half of 12 bytes before 2 forwards and 2 backwards, and of 2 gradients."""
    p = pair(3)
    devices = [replace(device, node=node) for node, device in enumerate(p.cluster.devices)]
    p = replace(p, cluster=uniform_cluster(devices, 1.0, 0.0))
    assert evaluate(p, both(p)).between_nodes_bytes == 2 * (4 * 6 + 2 * 6)


SPOILED = {
    "nothing is waited for": lambda g: None,
    "all of it is hidden": lambda g: Gathering(0.0, g.first_s + g.after_first_s, 0.0, g.last_s + g.before_last_s),
    "nothing of it is hidden": lambda g: Gathering(g.first_s + g.after_first_s, 0.0, g.last_s + g.before_last_s, 0.0),
    "a backward begins as a forward does": lambda g: Gathering(*g[:2], *g[:2]),
    "parameters come in half the time": lambda g: Gathering(*(s / 2 for s in g)),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_verify_refuses_a_schedule_that_waits_otherwise(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p = pair(3, micro_batches=4, mini_batch=8)
    p, plan = replace(p, cluster=uniform_cluster(p.cluster.devices, 2.0, 0.0)), both(p, 4)
    true = simulate(p, plan)
    assert verify(p, plan, true) == ()
    monkeypatch.setattr(units, "gathering", lambda *question: SPOILED[fault](gathering(*question)))
    simulation = simulate(p, plan)
    assert simulation.makespan_s != true.makespan_s
    assert verify(p, plan, simulation) != ()


def test_fp32_gradients_are_sent_as_wide_as_they_are() -> None:
    p = pair(2, precision=Precision.MIXED_FP32_GRADIENTS)
    assert simulate(p, both(p)).makespan_s == 8 + 2 * 12 + 6


def test_a_stage_on_one_device_has_nobody_to_share_with() -> None:
    for zero in (1, 2, 3):
        p, q = pair(zero), pair(0)
        plan = assemble(p, [(0,)] * len(p.graph), 2)
        assert evaluate(p, plan) == evaluate(q, plan)


def test_verify_refuses_a_schedule_that_divides_otherwise() -> None:
    for zero in (0, 1, 2, 3):
        p = pair(zero)
        for other in {0, 1, 2, 3} - {zero}:
            assert verify(p, both(p), simulate(replace(p, zero=other), both(p))) != ()


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_bounds_on_memory_allow_for_it(zero: int) -> None:
    """Two replicas hold 36, 30 or 28 bytes each; without ZeRO 48, and a device for each operator 32."""
    p = pair(zero)
    assert memory_need(p).nbytes <= min(evaluate(p, both(p)).static_bytes)


@pytest.mark.parametrize("planner", ["data-parallel", "graph-pipeline", "equal", "auto", "brute-force"])
def test_planners_find_plans_that_fit_with_zero_alone(planner: str) -> None:
    """One operator, which fits on no device by itself: 4 x 12 = 48 bytes, 30 with ZeRO-2 on two."""
    graph = training_graph([], 1, param_bytes=12.0)
    options = {"mini_batch": 4, "max_replicas": 2, "micro_batches": 2, "memory": 40.0}
    without = problem(graph, [1.0, 1.0], 2, **options)
    p = replace(without, zero=2)
    assert solve(without, "auto", time_limit_s=5).status is Status.INFEASIBLE
    chosen = PLANNERS[planner]()
    assert chosen.unsupported(p) is None
    plan = solve(p, planner, time_limit_s=10).plan
    assert plan is not None
    assert plan.stages[0].devices == (0, 1)
    assert max(evaluate(p, plan).peak_memory_bytes) <= 40.0


@pytest.mark.first(4)
@pytest.mark.parametrize("seed", range(24))
def test_no_planner_beats_brute_force_and_no_bound_is_above_it(seed: int) -> None:
    p = random_problem(seed, 3, cpus=0, training=True, memory=(60.0, 25.0)[seed % 2], max_replicas=2,
                       objective=(Objective.ITERATION, Objective.MAX_LOAD)[seed // 2 % 2])  # fmt: skip
    p = replace(p, zero=1 + seed % 3, optimizer=(Optimizer.ADAM, Optimizer.ADAFACTOR)[seed // 4 % 2],
                precision=(Precision.PURE, Precision.MIXED)[seed // 8 % 2])  # fmt: skip
    if BruteForce().unsupported(p) is not None:
        pytest.skip("too many plans")
    truth = solve(p, "brute-force", time_limit_s=60)
    for name in ("auto", "downset-dp", "linear-dp", "graph-pipeline", "data-parallel"):
        if PLANNERS[name]().unsupported(p) is not None:
            continue
        result = solve(p, name, time_limit_s=10)
        if truth.status is Status.OPTIMAL:
            assert result.bound_s <= truth.objective_s * (1 + 1e-9), name
            assert result.status is not Status.INFEASIBLE, name
            if p.objective is Objective.MAX_LOAD:
                assert result.objective_s >= truth.objective_s * (1 - 1e-9), name
        if truth.status is Status.INFEASIBLE:
            assert result.plan is None, name


def test_a_plan_file_keeps_the_stage_and_one_without_it_has_none() -> None:
    p = pair(2)
    assert read_plan(write_plan(p, both(p))).problem.zero == 2
    text = write_plan(replace(p, zero=0), both(p))
    assert '"zero"' not in text
    assert read_plan(text).problem.zero == 0


@pytest.mark.parametrize("zero", [-1, 4])
def test_there_are_three_stages(zero: int) -> None:
    with pytest.raises(InvalidProblem, match="1, 2 or 3"):
        pair(zero)
