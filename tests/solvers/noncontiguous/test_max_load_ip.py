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
from solvers.noncontiguous.planners import max_load_ip
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.slots import orders_of
from solvers.plan.result import Status
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.cluster import two_level_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import Contiguity, Objective, Pipeline, Transfers
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem, with_unequal_devices
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
    condensed = Condensed(p)
    contracted = condensed.at(p.mini_batch // 2)
    built = MaxLoadModel(condensed, contracted, variant_of(p), 10.0)
    rng = random.Random(seed)
    for _ in range(3):
        device_of = [rng.randrange(len(p.cluster)) for _ in range(len(contracted))]
        slots = built.slots_for([(device,) for device in device_of])
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


@pytest.mark.parametrize("seed", range(18))
def test_equals_brute_force_where_stages_may_be_replicated(seed):
    p = tiny(seed, cpus=seed % 2, max_replicas=2 + seed % 2)
    check_against_brute_force(p if seed % 3 else with_latency_s(p, 0.0))


@pytest.mark.parametrize("seed", range(18))
def test_equals_brute_force_with_several_kinds_of_accelerators_and_memories(seed):
    check_against_brute_force(with_unequal_devices(tiny(seed), seed))


@pytest.mark.parametrize("seed", range(9))
def test_equals_brute_force_with_several_kinds_and_replicas(seed):
    check_against_brute_force(with_unequal_devices(tiny(seed, max_replicas=2), seed, memories=False))


@pytest.mark.parametrize("seed", range(18))
def test_equals_brute_force_with_slower_links_between_hosts(seed):
    check_against_brute_force(in_hosts(tiny(seed), seed), start=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(9))
def test_equals_brute_force_with_everything_at_once_and_pins(seed):
    p = in_hosts(with_unequal_devices(tiny(seed), seed), seed)
    rng = random.Random(seed)
    device = rng.randrange(len(p.cluster))
    check_against_brute_force(replace(p, pins={rng.randrange(len(p.graph)): device}))


def check_against_brute_force(p, *, start=False):
    """The same optimum, or both none; where links have a latency and pieces of a set synchronise each, a bound."""
    assert MaxLoadIP().unsupported(p) is None
    expected, result = solve(p, BruteForce()), solve(p, MaxLoadIP(start=start))
    assert result.bound_s <= expected.objective_s * (1 + 1e-9)
    several = p.max_replicas > 1 and p.contiguity is not Contiguity.ACYCLIC and p.training
    if several and any(link.latency_s for link in p.cluster.links) and result.status is Status.FEASIBLE:
        assert result.objective_s >= expected.objective_s * (1 - 1e-9)
        return
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE), result
    assert result.objective_s == pytest.approx(expected.objective_s, rel=1e-6)


def with_latency_s(p, latency_s):
    links = tuple(replace(link, latency_s=latency_s) for link in p.cluster.links)
    return replace(p, cluster=replace(p.cluster, links=links))


def in_hosts(p, seed):
    """On two hosts, with links of their own speed inside and slower ones between."""
    rng = random.Random(f"hosts {seed}")
    devices = tuple(replace(d, node=rng.randrange(2)) for d in p.cluster.devices)
    cluster = two_level_cluster(devices, rng.choice([1.0, 10.0]), rng.choice([0.0, 0.1]), 0.5, 0.3)
    alike = len({(link.latency_s, link.bandwidth_bytes_per_s) for link in cluster.links}) <= 1
    hosts = {d.node for d in devices}
    lonely = all(sum(d.node == host for d in devices) == 1 for host in hosts)
    assert alike == (lonely or len(hosts) == 1)
    return replace(p, cluster=cluster, transfer_s=None)


@pytest.mark.parametrize("seed", range(54))
def test_the_model_tells_the_load_of_every_replicated_placement(seed):
    p = tiny(seed, cpus=seed % 2, max_replicas=2 + seed % 2)
    p = with_latency_s(p, 0.0) if seed % 2 else p
    condensed = Condensed(p)
    contracted = condensed.at(p.mini_batch // 2)
    built = MaxLoadModel(condensed, contracted, variant_of(p), 10.0)
    rng = random.Random(seed)
    devices = list(range(len(p.cluster)))
    for _ in range(4):
        rng.shuffle(devices)
        places = [(d,) for d in devices]
        if len(p.cluster.accelerators) > 1 and rng.random() < 0.8:
            together = tuple(sorted(rng.sample(p.cluster.accelerators, rng.randint(2, len(p.cluster.accelerators)))))
            places = [together, *((d,) for d in devices if d not in together)]
        slots = built.slots_for([rng.choice(places) for _ in range(len(contracted))])
        if slots is None:
            continue
        values = built.values_of(slots)
        allowed = built.model.violation(values) <= 1e-9
        try:
            plan = assemble(p, built.placement(slots), 2)
        except InvalidPlan:
            continue
        judged = judge(p, plan)
        assert allowed == judged.feasible, judged
        if allowed:
            pieces = len(plan.stages) > len({stage.devices for stage in plan.stages})
            model_s = built.objective_s(values)
            assert model_s <= judged.objective_s * (1 + 1e-9)
            if not pieces or not any(link.latency_s for link in p.cluster.links):
                assert model_s == pytest.approx(judged.objective_s, rel=1e-9)


def test_two_replicas_of_everything_are_proved_best():
    """Two replicas of both operators take 2 s a sample; one device each takes 3 s."""
    p = problem(
        forward_graph([(0, 1)], 2), [3, 1], 2, objective=Objective.MAX_LOAD, training=False, mini_batch=2,
        max_replicas=2,
    )  # fmt: skip
    for contiguity in Contiguity:
        result = solve(replace(p, contiguity=contiguity), MaxLoadIP(start=False))
        assert (result.status, result.objective_s) == (Status.OPTIMAL, 2.0)


def test_a_chain_may_go_to_another_host_and_come_back():
    """a -> b -> c, and a sends c 6 B: with two devices in one host and one in another, where a byte takes 1 s inside
    and 3 s between, b goes to the other host (9 + 1 * 3 + 1 * 3 s) between two parts of the first."""
    graph = OpGraph(
        (Operator("a"), Operator("b"), Operator("c")),
        (Tensor(0, (1,), Amount(0.0, 1.0)), Tensor(0, (2,), Amount(0.0, 6.0)), Tensor(1, (2,), Amount(0.0, 1.0))),
    )
    p = problem(graph, [9, 9, 9], 3, objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, training=False)
    hosts = tuple(replace(d, node=int(number == 2)) for number, d in enumerate(p.cluster.devices))
    p = replace(p, cluster=two_level_cluster(hosts, 1.0, 0.0, 1 / 3, 0.0))
    result, expected = solve(p, MaxLoadIP(start=False)), solve(p, BruteForce())
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(9 + 3 + 6) == pytest.approx(expected.objective_s)
    assert [result.plan.placement()[o] for o in (0, 2)] != [(2,), (2,)]
    assert result.plan.placement()[1] == (2,)


def test_a_chain_over_two_hosts_is_proved_best_whatever_it_starts_from():
    """Four operators of 3 s and messages of 1 B, two hosts of two devices, 10 B/s inside and 0.5 B/s between: within a
    host a half takes 6.1 s; over all devices at the speed inside the least is 3.2 s, and 5.1 s over the slow link."""
    p = problem(forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0), [3] * 4, 4, objective=Objective.MAX_LOAD,
                transfers=Transfers.BLOCKING, training=False)  # fmt: skip
    hosts = tuple(replace(d, node=number // 2) for number, d in enumerate(p.cluster.devices))
    p = replace(p, cluster=two_level_cluster(hosts, 10.0, 0.0, 0.5, 0.0))
    expected = solve(p, BruteForce())
    for start in (True, False):
        result = solve(p, MaxLoadIP(start=start))
        assert result.status is Status.OPTIMAL
        assert result.objective_s == pytest.approx(3 + 0.1 + 2) == pytest.approx(expected.objective_s)


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_every_order_of_hosts_and_one_of_all_find_the_same(seed, monkeypatch):
    p = random_problem(
        4000 + seed, largest=5, objective=Objective.MAX_LOAD, contiguity=Contiguity.ACYCLIC, micro_batches=2,
        transfers=MODELS[seed % 3], memory=float("inf"),
    )  # fmt: skip
    p = in_hosts(p, seed)
    messages = []
    for most in (0, 100):
        monkeypatch.setattr(max_load_ip, "MOST_ORDERS", most)
        messages.append(solve(p, MaxLoadIP(start=False)))
    assert [result.status for result in messages] == [Status.OPTIMAL] * 2
    assert messages[0].objective_s == pytest.approx(messages[1].objective_s, rel=1e-6)


def test_orders_of_hosts_are_listed_once_each():
    """Two accelerators in one host, one in another: its place in the chain is all that differs."""
    p = problem(forward_graph([(0, 1)], 2), [1, 1], 3, objective=Objective.MAX_LOAD)
    hosts = tuple(replace(d, node=int(number == 1)) for number, d in enumerate(p.cluster.devices))
    p = replace(p, cluster=two_level_cluster(hosts, 2.0, 0.0, 1.0, 0.0))
    here, there = (0, 2), (1,)
    assert orders_of(p, 3) == [(here, here, there), (here, there, here), (there, here, here)]
    assert orders_of(p, 2) == []


@pytest.mark.parametrize("contiguity", list(Contiguity))
def test_pins_are_kept_in_every_contiguity(contiguity):
    p = problem(
        forward_graph([(0, 1), (1, 2)], 3, nbytes=0.5), [3, 1, 2], 3, contiguity=contiguity, pins={0: 2, 2: 1},
        objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    result = solve(p, MaxLoadIP(start=False))
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(solve(p, BruteForce()).objective_s)


def test_what_it_cannot_represent_is_refused_with_a_remedy():
    p = problem(forward_graph([(0, 1)], 2), [1, 1], 4, max_replicas=2, objective=Objective.MAX_LOAD)
    hosts = tuple(replace(d, node=number // 2) for number, d in enumerate(p.cluster.devices))
    two_levels = two_level_cluster(hosts, 10.0, 0.0, 1.0, 0.0)
    one_slow = replace(p.cluster, links=(replace(p.cluster.links[0], bandwidth_bytes_per_s=0.5), *p.cluster.links[1:]))
    uneven = replace(p.cluster, devices=(replace(p.cluster.devices[0], memory_bytes=1.0), *p.cluster.devices[1:]))
    many = problem(forward_graph([(0, 1)], 2), [1, 1], 11, max_replicas=11, objective=Objective.MAX_LOAD)
    for question, reason in (
        (replace(p, cluster=two_levels), "replicas on links of several speeds"),
        (replace(p, cluster=one_slow, max_replicas=1), "links must be of one speed"),
        (replace(p, cluster=uneven), "unequal memory"),
        (many, "121 places for 11 devices"),
    ):
        refusal = MaxLoadIP().unsupported(question)
        assert (reason in refusal and "use auto" in refusal) or "or auto" in refusal
        assert "\n" not in refusal
    assert MaxLoadIP().unsupported(replace(p, cluster=two_levels, max_replicas=1)) is None
    assert "there are: highs, cbc" in MaxLoadIP(solver="glpk").unsupported(problem(forward_graph([], 1), [1]))


@needs_workloads
def test_a_chain_of_a_published_workload_is_a_feasible_start_with_its_exact_load():
    for contiguity in Contiguity:
        p = as_problem(published("layer-bert24_training"), contiguity=contiguity)
        best = solve(replace(p, contiguity=Contiguity.ACYCLIC), DownsetDP())
        condensed = Condensed(p)
        contracted = condensed.at(1)
        placement = best.plan.placement()
        places = [placement[members[0]] for members in contracted.shape.members]
        built = MaxLoadModel(condensed, contracted, variant_of(p), best.objective_s)
        values = built.values_of(built.slots_for(places))
        assert built.model.violation(values) <= 1e-6
        assert built.objective_s(values) == pytest.approx(best.objective_s, rel=1e-9)
        assert np.isclose(built.unit_s, 1e-6)
