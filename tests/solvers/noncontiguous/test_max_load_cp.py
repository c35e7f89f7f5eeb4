"""The max-load constraint program: equal to brute force, honest where memory is counted or replicas allowed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers.noncontiguous.max_load_program import renamed
from solvers.noncontiguous.planners.max_load_cp import MaxLoadCP
from solvers.plan.result import Status
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Pipeline, Transfers
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem

pytest.importorskip("ortools", reason="constraint programs need OR-Tools: pip install 'placement-explorer[planners]'")

FIXED = {
    "objective": Objective.MAX_LOAD, "contiguity": Contiguity.NONE, "pipeline": Pipeline.ONE_F_ONE_B,
    "micro_batches": 2,
}  # fmt: skip


def tiny(seed, **options):
    """Both transfer models; a third of the problems has a stated cap."""
    transfers = (Transfers.BLOCKING, Transfers.LANE)[seed % 2]
    p = random_problem(3000 + seed, largest=4, **FIXED, transfers=transfers, **({"memory": float("inf")} | options))
    if seed % 3 == 0:
        rng = random.Random(seed)
        stated = tuple(float(rng.randint(0, 4)) for _ in p.graph.operators)
        cap = sum(stated) / len(p.cluster.accelerators) + 4
        devices = tuple(d if d.is_cpu else replace(d, memory_bytes=cap) for d in p.cluster.devices)
        p = replace(p, stated_bytes=stated, cluster=replace(p.cluster, devices=devices))
    return p


@pytest.mark.parametrize("seed", range(12))
def test_equals_brute_force(seed):
    p = tiny(seed)
    expected, result = solve(p, BruteForce()), solve(p, MaxLoadCP(workers=1))
    assert result.objective_s == pytest.approx(expected.objective_s, rel=1e-6)
    assert result.bound_s <= expected.objective_s * (1 + 1e-9)
    if expected.plan is not None and not result.notes:
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(1))
def test_no_claim_is_wrong_where_memory_is_counted(seed):
    p = random_problem(4000 + seed, largest=4, **FIXED, transfers=Transfers.BLOCKING, memory=60.0, training=True)
    result, expected = solve(p, MaxLoadCP(workers=1)), solve(p, BruteForce())
    assert result.objective_s >= expected.objective_s * (1 - 1e-9)
    assert result.bound_s <= expected.objective_s * (1 + 1e-9)


def test_nothing_is_claimed_where_stages_may_be_replicated():
    """Two replicas of both operators take 2 s a sample; one device each takes 3 s."""
    p = problem(
        forward_graph([(0, 1)], 2), [3, 1], 2, **(FIXED | {"micro_batches": 1}), transfers=Transfers.BLOCKING,
        training=False, mini_batch=2, max_replicas=2,
    )  # fmt: skip
    result = solve(p, MaxLoadCP(workers=1))
    assert (result.status, result.objective_s) == (Status.FEASIBLE, 3.0)
    assert result.bound_s <= 2.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"contiguity": Contiguity.CONVEX}, "not contiguous"),
        ({"pipeline": Pipeline.GPIPE}, "each pass"),
        ({"transfers": Transfers.DUPLEX}, "duplex"),
        ({"objective": Objective.ITERATION, "transfers": Transfers.LINKS}, "objective"),
    ],
)
def test_what_it_cannot_represent_is_refused_with_a_remedy(options, reason):
    options = FIXED | {"micro_batches": 1, "transfers": Transfers.BLOCKING} | options
    refusal = MaxLoadCP().unsupported(problem(forward_graph([(0, 1)], 2), [1, 1], 2, **options))
    assert refusal is None if reason is None else reason in refusal and "use " in refusal


def test_exchangeable_devices_are_numbered_by_the_heaviest_operator_on_them():
    seconds = [[1.0, 1.0, 9.0], [3.0, 3.0, 1.0], [2.0, 2.0, 1.0]]
    assert renamed([1, 1, 0], [[0, 1]], seconds) == [0, 0, 1]
    assert renamed([2, 1, 1], [[0, 1]], seconds) == [2, 0, 0]
