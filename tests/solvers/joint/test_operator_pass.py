"""The simulator of operator passes in kernels says what `simulate` says, to the last digit of times and bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.evaluation.simulation import simulate
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import plan_of, taken_apart
from solvers.joint.passes.simulator import Simulator
from solvers.planners.check import check
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from tests.instances import problem
from tests.random_problems import random_problem


def random_pass(seed, **options):
    """(problem, its model, a random placement of its groups, a random rank)."""
    rng = random.Random(seed)
    chosen = {"max_replicas": 1, "transfers": rng.choice(list(Transfers))} | options
    p = random_problem(
        seed, 7, objective=Objective.MAKESPAN, execution=Execution.OPERATOR, contiguity=Contiguity.NONE, **chosen
    )
    model = pass_model(p)
    place = np.array([rng.choice(np.flatnonzero(row).tolist() or [0]) for row in model.allowed])
    rank = np.array(rng.sample(range(model.operators), model.operators), float)
    return p, model, place, rank


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_times_and_memory_are_those_of_the_simulated_plan(first):
    compared = 0
    for seed in range(first, first + 100):
        p, model, place, rank = random_pass(seed)
        simulator = Simulator(model)
        if np.isinf(simulator.by_rank_s(place, rank)):
            continue
        sequences = simulator.sequences()
        seconds = simulator.in_order_s(place, sequences)
        schedule = simulate(p, plan_of(model, place, sequences))
        assert seconds == pytest.approx(schedule.makespan_s, rel=1e-12)
        assert simulator.peak_bytes() == pytest.approx(schedule.peak_bytes(), rel=1e-12)
        fits = all(
            x <= d.memory_bytes * (1 + 1e-9) for x, d in zip(schedule.peak_bytes(), p.cluster.devices, strict=True)
        )
        assert simulator.fits() == fits
        compared += 1
    assert compared > 50


def test_a_pass_is_given_up_at_its_limit_and_only_there():
    for seed in range(100):
        _, model, place, rank = random_pass(seed)
        simulator = Simulator(model)
        seconds = simulator.by_rank_s(place, rank)
        if np.isinf(seconds) or seconds == 0:
            continue
        assert simulator.by_rank_s(place, rank, seconds) == seconds
        assert np.isinf(simulator.by_rank_s(place, rank, seconds * 0.999))
        assert simulator.least_tail_s.max() <= seconds * (1 + 1e-12)


def test_a_plan_is_taken_apart_into_what_it_was_made_of():
    for seed in range(60):
        p, model, place, rank = random_pass(seed, pins={})
        simulator = Simulator(model)
        if np.isinf(simulator.by_rank_s(place, rank)):
            continue
        plan = simulator.planned(place)
        sequences = simulator.sequences()
        again = taken_apart(model, plan)
        assert again is not None
        assert again[0].tolist() == place.tolist()
        assert again[1] == sequences
        assert all("memory" in rule or "exceeds" in rule or "cannot run" in rule for rule in check(p, plan))


def test_an_order_that_waits_for_itself_is_detected():
    _, model, place, rank = random_pass(5, pins={})
    simulator = Simulator(model)
    simulator.by_rank_s(np.zeros_like(place), rank)
    backwards = [sequence[::-1] for sequence in simulator.sequences()]
    assert np.isinf(simulator.in_order_s(np.zeros_like(place), backwards))


def test_partial_gradients_that_one_operator_makes_are_held_as_their_sum():
    partial = Tensor(0, (1,), Amount(10.0), sum_group=0)
    graph = OpGraph((Operator("a"), Operator("b", workspace_bytes=Amount(100.0))), (partial, partial))
    p = problem(
        graph, [1, 1], 1, objective=Objective.MAKESPAN, execution=Execution.OPERATOR, contiguity=Contiguity.NONE,
        training=False,
    )  # fmt: skip
    simulator = Simulator(pass_model(p))
    simulator.by_rank_s(np.zeros(2, np.int64), np.zeros(2))
    plan = simulator.planned(np.zeros(2, np.int64))
    assert simulator.peak_bytes().tolist() == [110.0]
    assert list(simulate(p, plan).peak_bytes()) == [110.0]
