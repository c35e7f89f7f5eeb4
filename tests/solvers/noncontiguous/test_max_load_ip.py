"""The max-load integer program: equal to brute force for every variant, and honest where memory is counted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.contiguous.variants import variant_of
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.noncontiguous.max_load_model import MaxLoadModel
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.plan.result import Status
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Pipeline, Transfers
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem
from tests.solvers.msr_instances import as_problem, needs_workloads, published

pytest.importorskip("pulp", reason="the integer programs need PuLP: pip install 'placement-explorer[planners]'")

CONTIGUITIES = list(Contiguity)
MODELS = [Transfers.BLOCKING, Transfers.LANE, Transfers.DUPLEX]
PIPELINES = [Pipeline.ONE_F_ONE_B, Pipeline.GPIPE]


def tiny(seed, **options):
    """Every combination of contiguity, transfer model and pipeline in 18 seeds; a third has a stated cap."""
    fixed = {
        "contiguity": CONTIGUITIES[seed % 3],
        "transfers": MODELS[seed // 3 % 3],
        "pipeline": PIPELINES[seed // 9 % 2],
        "micro_batches": 2,
        "memory": float("inf"),
    }
    p = random_problem(1000 + seed, largest=4, objective=Objective.MAX_LOAD, **(fixed | options))
    if seed % 3 == seed // 18:
        rng = random.Random(seed)
        stated = tuple(float(rng.randint(0, 4)) for _ in p.graph.operators)
        cap = sum(stated) / len(p.cluster.accelerators) + 4
        devices = tuple(d if d.is_cpu else replace(d, memory_bytes=cap) for d in p.cluster.devices)
        p = replace(p, stated_bytes=stated, cluster=replace(p.cluster, devices=devices))
    return p


@pytest.mark.parametrize("seed", range(36))
def test_equals_brute_force_for_every_contiguity_transfer_model_and_pipeline(seed):
    p = tiny(seed)
    expected = solve(p, BruteForce())
    result = solve(p, MaxLoadIP(start=seed % 4 == 0))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert result.objective_s == pytest.approx(expected.objective_s, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_equals_brute_force_with_cbc(seed):
    p = tiny(7 * seed)
    result = solve(p, MaxLoadIP(solver="cbc", start=False))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert result.objective_s == pytest.approx(solve(p, BruteForce()).objective_s, rel=1e-6)


@pytest.mark.parametrize("seed", range(108))
def test_the_model_tells_the_load_of_every_placement_that_its_rules_allow(seed):
    p = tiny(seed)
    contracted = Condensed(p).at(p.mini_batch // 2)
    built = MaxLoadModel(p, contracted, variant_of(p), contracted.static_bytes, 10.0)
    rng = random.Random(seed)
    for _ in range(3):
        device_of = [rng.randrange(len(p.cluster)) for _ in range(len(contracted))]
        slots = built.slots_for(device_of)
        if slots is None:
            continue
        values = built.values_of(slots)
        allowed = built.model.violation(values) <= 1e-9
        placement = built.placement(slots)
        try:
            judged = judge(p, assemble(p, placement, 2))
        except InvalidPlan:
            continue
        assert allowed == judged.feasible, judged
        if allowed:
            assert built.objective_s(values) == pytest.approx(judged.objective_s, rel=1e-9)
            assert list(built.slots_of(values)) == list(slots)


@pytest.mark.parametrize("seed", range(8))
def test_no_claim_is_wrong_where_memory_is_counted(seed):
    p = random_problem(2000 + seed, largest=4, objective=Objective.MAX_LOAD, memory=60.0, training=True)
    result, expected = solve(p, MaxLoadIP()), solve(p, BruteForce())
    assert result.objective_s >= expected.objective_s * (1 - 1e-9)
    if result.status is Status.OPTIMAL:
        assert result.objective_s == pytest.approx(expected.objective_s, rel=1e-6)
    if result.status is Status.INFEASIBLE:
        assert expected.plan is None
    assert result.bound_s <= expected.objective_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("contiguity", "best"), [(Contiguity.ACYCLIC, 11.002), (Contiguity.CONVEX, 10.002), (Contiguity.NONE, 10.002)]
)
def test_the_two_meanings_of_contiguous_differ_on_the_toy(contiguity, best):
    """a -> b and c -> d with 7, 6, 4, 3: {a,d},{b,c} is convex but its quotient is a cycle."""
    p = problem(
        forward_graph([(0, 1), (2, 3)], 4, nbytes=0.001), [7, 6, 4, 3], 2, contiguity=contiguity,
        objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    result = solve(p, MaxLoadIP())
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(best, rel=1e-9)


def test_a_pinned_operator_stays_where_it_is_pinned():
    p = problem(
        forward_graph([(0, 1), (1, 2)], 3, nbytes=0.5), [3, 1, 2], 3, contiguity=Contiguity.NONE, pins={0: 2, 2: 1},
        objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    result = solve(p, MaxLoadIP())
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(solve(p, BruteForce()).objective_s)


def test_nothing_is_claimed_where_stages_may_be_replicated():
    """Two replicas of both operators take 2 s a sample; one device each takes 3 s."""
    p = problem(
        forward_graph([(0, 1)], 2), [3, 1], 2, objective=Objective.MAX_LOAD, training=False, mini_batch=2,
        max_replicas=2,
    )  # fmt: skip
    result = solve(p, MaxLoadIP(start=False))
    assert (result.status, result.objective_s) == (Status.FEASIBLE, 3.0)
    assert result.bound_s <= 2.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"pins": {0: 1}}, "pinned"), ({"contiguity": Contiguity.NONE, "pins": {0: 1}}, None)],
)
def test_what_it_cannot_represent_is_said_with_a_way_out(options, reason):
    said = MaxLoadIP().unsupported(problem(forward_graph([(0, 1)], 2), [1, 1], 2, **options))
    assert said is None if reason is None else reason in said and "use " in said
    assert "there are: highs, cbc" in MaxLoadIP(solver="glpk").unsupported(problem(forward_graph([], 1), [1]))


@needs_workloads
def test_a_chain_of_a_published_workload_is_a_feasible_start_with_its_exact_load():
    for contiguity in Contiguity:
        p = as_problem(published("layer-bert24_training"), contiguity=contiguity)
        best = solve(replace(p, contiguity=Contiguity.ACYCLIC), DownsetDP())
        contracted = Condensed(p).at(1)
        placement = best.plan.placement()
        device_of = [placement[members[0]][0] for members in contracted.shape.members]
        built = MaxLoadModel(p, contracted, variant_of(p), contracted.static_bytes, best.objective_s)
        values = built.values_of(built.slots_for(device_of))
        assert built.model.violation(values) <= 1e-6
        assert built.objective_s(values) == pytest.approx(best.objective_s, rel=1e-9)
        assert np.isclose(built.unit_s, 1e-6)
