"""Every variant of max-load: transfer models, training objectives and replication, against enumeration."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import lower_bound_s
from solvers.coarsening.coarsen import contract
from solvers.contiguous.chains import Chain, Part, placement_of
from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.evaluation.evaluate import evaluate, judge
from solvers.formats.msr2020 import read_msr2020
from solvers.plan.result import Status, StopReason
from solvers.planners.brute_force import BruteForce
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, two_level_cluster, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Optimizer, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem, training_graph
from tests.oracle.variant_oracle import best_variant_ms
from tests.random_problems import random_problem, with_unequal_devices
from tests.solvers.msr_instances import as_problem, random_file

MODELS = [Transfers.BLOCKING, Transfers.LANE, Transfers.DUPLEX]
PIPELINES = [Pipeline.ONE_F_ONE_B, Pipeline.GPIPE]
VARIANTS = list(itertools.product(MODELS, PIPELINES, (1, 2, 3)))


def with_efficiency(p: Problem, seed: int) -> Problem:
    """The problem with compute times that do not grow in proportion to the samples."""
    rng = np.random.default_rng(seed)
    tables = {}
    for kind, seconds in p.compute.seconds.items():
        fixed = seconds * rng.uniform(0.0, 1.0, (len(seconds), 1))
        tables[kind] = np.hstack([fixed + seconds * samples * rng.uniform(0.5, 1.0) for samples in (1, 2, 4)])
    return replace(p, compute=ComputeTable((1, 2, 4), tables))


def random_variant(seed: int, largest: int = 4, **options: object) -> Problem:
    """A random problem for the seed's variant, half of them with an efficiency that depends on the samples."""
    transfers, pipeline, replicas = VARIANTS[seed % len(VARIANTS)]
    options = {"transfers": transfers, "pipeline": pipeline, "max_replicas": replicas} | options
    p = random_problem(seed, largest, objective=Objective.MAX_LOAD, **options)
    return with_efficiency(p, seed) if seed % 2 else p


@pytest.mark.first(2)
@pytest.mark.parametrize(("transfers", "pipeline", "replicas"), VARIANTS)
def test_equals_the_enumeration_of_all_chains(transfers, pipeline, replicas):
    """Shared colours, orphan backward operators, caps, operators no accelerator runs, and 0, 1 or 2 CPUs."""
    feasible = 0
    for seed in range(24):
        file = random_file(1000 + seed, seed % 3)
        expected = best_variant_ms(file, transfers, pipeline is Pipeline.GPIPE, replicas) * 1e-3
        p = as_problem(read_msr2020(file, "random"), transfers=transfers, pipeline=pipeline, max_replicas=replicas)
        exact, linear = solve(p, DownsetDP()), solve(p, LinearDP())
        assert lower_bound_s(p) <= expected * (1 + 1e-9), f"seed {seed}"
        assert linear.objective_s >= expected * (1 - 1e-9), f"seed {seed}"
        if math.isinf(expected):
            assert exact.status is Status.INFEASIBLE, f"seed {seed}"
        else:
            feasible += 1
            assert exact.status is Status.OPTIMAL, f"seed {seed}: {exact.status} {exact.notes}"
            assert exact.objective_s == pytest.approx(expected, rel=1e-9), f"seed {seed}"
    assert feasible >= 10


def test_equals_brute_force_with_links_parameters_and_efficiency():
    """Latencies, gradients to synchronise, updates, micro-batches of several sizes: what files do not have."""
    replicated = 0
    for seed in range(90):
        p = random_variant(seed, contiguity=Contiguity.ACYCLIC, memory=math.inf)
        exact, brute = solve(p, DownsetDP()), solve(p, BruteForce())
        assert brute.status is Status.OPTIMAL
        assert lower_bound_s(p) <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert exact.status is Status.OPTIMAL, f"seed {seed}: {exact.status} {exact.notes}"
        assert exact.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"
        replicated += any(len(stage.devices) > 1 for stage in exact.plan.stages)
    assert replicated >= 20


@pytest.mark.slow
def test_no_claim_is_ever_wrong():
    """Every contiguity and memory counted from the schedule, too: bounds and statuses against brute force."""
    for seed in range(90):
        p = random_variant(200 + seed)
        exact, brute = solve(p, DownsetDP()), solve(p, BruteForce())
        assert exact.objective_s >= brute.objective_s * (1 - 1e-9), f"seed {seed}"
        assert exact.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert exact.status is not Status.INFEASIBLE or brute.plan is None, f"seed {seed}"
        if exact.status is Status.OPTIMAL:
            assert exact.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"


@pytest.mark.parametrize("seed", range(18))
def test_a_looser_problem_is_never_worse(seed):
    """More memory, one more device, one more replica, a full-duplex lane, no contiguity."""
    transfers, pipeline, replicas = VARIANTS[seed]
    workload = read_msr2020(random_file(2000 + seed, seed % 2), "random")

    def best(**options: object) -> float:
        options = {"transfers": transfers, "pipeline": pipeline, "max_replicas": replicas} | options
        return solve(as_problem(workload, **options), DownsetDP()).objective_s

    exact = best()
    assert best(memory_bytes=1e6) <= exact * (1 + 1e-12)
    assert best(accelerators=len(workload.cluster.accelerators) + 1) <= exact * (1 + 1e-12)
    assert best(max_replicas=replicas + 1) <= exact * (1 + 1e-12)
    assert best(transfers=Transfers.DUPLEX) <= best(transfers=Transfers.LANE) * (1 + 1e-12)
    assert best(transfers=Transfers.LANE) <= best(transfers=Transfers.BLOCKING) * (1 + 1e-12)
    assert best(pipeline=Pipeline.ONE_F_ONE_B) <= best(pipeline=Pipeline.GPIPE) * (1 + 1e-12)


def test_equals_brute_force_with_several_kinds_of_accelerators_and_memories():
    """In every variant; kinds that are faster at some operators, slower at others and cannot run a few."""
    unequal, several, replicated = 0, 0, 0
    for seed in range(72):
        p = random_variant(seed, contiguity=Contiguity.ACYCLIC, memory=math.inf)
        p = with_unequal_devices(p, seed, memories=seed // 18 % 2 == 0)
        exact, brute = solve(p, DownsetDP()), solve(p, BruteForce())
        assert lower_bound_s(p) <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert exact.status is (Status.INFEASIBLE if brute.plan is None else Status.OPTIMAL), f"seed {seed}"
        assert exact.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"
        if exact.plan is not None:
            used = [p.cluster.devices[d] for stage in exact.plan.stages for d in stage.devices]
            several += len({d.kind for d in used}) > 1
            unequal += len({d.memory_bytes for d in used}) > 1
            replicated += any(len(stage.devices) > 1 for stage in exact.plan.stages)
    assert min(unequal, several, replicated) >= 5


def test_no_claim_is_wrong_with_several_kinds_where_memory_is_counted():
    rng = random.Random(3)
    for seed in range(36):
        p = with_unequal_devices(random_variant(300 + seed), seed, memories=False)
        devices = tuple(
            d if d.is_cpu else replace(d, memory_bytes=rng.choice([40.0, 80.0, 160.0])) for d in p.cluster.devices
        )
        p = replace(p, cluster=replace(p.cluster, devices=devices))
        exact, linear, brute = solve(p, DownsetDP()), solve(p, LinearDP()), solve(p, BruteForce())
        assert linear.objective_s >= brute.objective_s * (1 - 1e-9), f"seed {seed}"
        assert exact.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert exact.status is not Status.INFEASIBLE or brute.plan is None, f"seed {seed}"
        if exact.status is Status.OPTIMAL:
            assert exact.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"


def test_a_chain_over_two_kinds_gives_each_what_it_is_good_at():
    """a, b, c, d take 6, 6, 2, 2 s on a GPU and 3, 3, 9, 9 s on the other kind: a and b there, one each or two replicas
    of both, 3 s; c and d on the GPU, 4 s. With one of the others a and b take 6 s."""
    p = problem(forward_graph([(0, 1), (1, 2), (2, 3)], 4), [6, 6, 2, 2], 3, objective=Objective.MAX_LOAD,
                training=False, mini_batch=2)  # fmt: skip
    gpu, one, two = p.cluster.devices
    devices = (replace(one, kind="other"), gpu, replace(two, kind="other"))
    table = ComputeTable((1,), {"gpu": p.compute.seconds["gpu"], "other": np.array([[3.0], [3.0], [9.0], [9.0]])})
    p = replace(p, compute=table, cluster=replace(p.cluster, devices=devices))
    for planner in (DownsetDP(), LinearDP()):
        alone, both = solve(p, planner), solve(replace(p, max_replicas=2), planner)
        assert (alone.objective_s, both.objective_s) == (4.0, 4.0)
        assert both.plan.placement()[3] == (1,)
        one_gpu = replace(p, cluster=uniform_cluster(devices[:2], 1.0))
        assert solve(one_gpu, planner).objective_s == 6.0
    assert solve(p, DownsetDP()).status is Status.OPTIMAL


def test_too_many_kinds_are_refused_in_a_line():
    """Six kinds, three devices of each: 4^6 numbers of them in use. Of one kind any number is searched."""
    p = problem(forward_graph([(0, 1)], 2), [1, 1], 18, objective=Objective.MAX_LOAD, training=False)
    devices = tuple(replace(d, kind=f"kind {number % 6}") for number, d in enumerate(p.cluster.devices))
    table = ComputeTable((1,), {f"kind {number}": p.compute.seconds["gpu"] for number in range(6)})
    many = replace(p, compute=table, cluster=replace(p.cluster, devices=devices))
    for planner in (DownsetDP(), LinearDP()):
        refusal = planner.unsupported(many)
        assert "6 kinds can be in use in 4,096 combinations, at most 1,000" in refusal
        assert "use auto" in refusal
        assert planner.unsupported(p) is None
    memories = tuple(replace(d, memory_bytes=float(1 + number)) for number, d in enumerate(p.cluster.devices))
    assert DownsetDP().unsupported(replace(p, cluster=replace(p.cluster, devices=memories))) is None


def test_replicas_on_links_of_several_speeds_are_not_called_best():
    """a takes 8 s and has 8 B of parameters, b 1 s, and messages are stated to take none: two replicas of a in a host
    with 8 B/s take 8/2 + 8/8 s. Over the slow link to the other host, which counts here, it would be 8/2 + 8/1 s."""
    graph = OpGraph((Operator("a", param_bytes=8.0), Operator("b")), (Tensor(0, (1,)),))
    p = problem(graph, [8, 1], 3, objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, max_replicas=2)
    hosts = tuple(replace(d, node=int(number == 2)) for number, d in enumerate(p.cluster.devices))
    p = replace(p, cluster=two_level_cluster(hosts, 8.0, 0.0, 1.0, 0.0), transfer_s=(0.0,))
    exact, brute = solve(p, DownsetDP()), solve(p, BruteForce())
    assert brute.objective_s == pytest.approx(5.0)
    assert exact.bound_s <= brute.objective_s
    assert exact.status is not Status.OPTIMAL or exact.objective_s == pytest.approx(brute.objective_s)


def test_brute_force_covers_every_contiguity_and_each_is_no_worse_than_the_stricter():
    for seed in range(9):
        p = random_problem(seed, 4, objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, memory=math.inf)
        values = {c: solve(replace(p, contiguity=c), BruteForce()) for c in Contiguity}
        assert all(result.status is Status.OPTIMAL for result in values.values())
        assert values[Contiguity.CONVEX].objective_s <= values[Contiguity.ACYCLIC].objective_s * (1 + 1e-12)
        assert values[Contiguity.NONE].objective_s <= values[Contiguity.CONVEX].objective_s * (1 + 1e-12)


def test_brute_force_counts_equal_devices_once_and_says_what_is_too_much():
    p = problem(forward_graph([], 4), [1] * 4, 6, objective=Objective.MAX_LOAD, training=False, max_replicas=3)
    assert BruteForce(placement_limit=6**4).unsupported(p) is None
    assert "on 6 devices or sets of up to 3 of them" in BruteForce(placement_limit=6**4 - 1).unsupported(p)


def test_a_replicated_part_does_its_share_and_synchronises_its_gradients():
    """Section 5: load / r + 2(r - 1)/r * parameter bytes / bandwidth per mini-batch, memory unchanged.

    a: 3 s forward, 3 s backward per sample and 8 parameter bytes on 3 devices, which send and receive
    a third of b's 2 s tensor and gradient each; b: 1 s and 1 s. Mini-batch of 4, 2 bytes/s.
    """
    operators = (
        Operator("a", param_bytes=8.0),
        Operator("b"),
        Operator("b'", phase=Phase.BACKWARD_INPUT, forward_of=1),
        Operator("a'", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
    )
    bytes4 = Amount(0.0, 4.0)
    graph = OpGraph(operators, (Tensor(0, (1,), bytes4), Tensor(2, (3,), bytes4)))
    p = problem(
        graph,
        [3, 1, 1, 3],
        4,
        bandwidth=2.0,
        objective=Objective.MAX_LOAD,
        transfers=Transfers.BLOCKING,
        mini_batch=4,
        max_replicas=3,
        optimizer=Optimizer.SGD,
    )
    plan = assemble(p, [(0, 1, 2), (3,), (3,), (0, 1, 2)], 1)
    share = 6 / 3 + 2 / 3 + 2 / 3 + 2 * 2 / 3 * 8 / 2 / 4
    metrics = evaluate(p, plan)
    assert metrics.load_s == pytest.approx((share, share, share, 1 + 1 + 2 + 2))
    assert metrics.static_bytes == (16, 16, 16, 0)
    assert check(p, plan) == ()
    assert "at most 2 are allowed" in judge(replace(p, max_replicas=2), plan).violation
    exact = solve(p, DownsetDP())
    assert exact.objective_s == pytest.approx(solve(p, BruteForce()).objective_s)


def test_a_replica_group_is_the_best_answer_to_one_large_operator():
    """a takes 9 s, b 1 s: on three devices each, with four devices, nothing but replicas helps a."""
    p = problem(forward_graph([(0, 1)], 2), [9, 1], 4, objective=Objective.MAX_LOAD, training=False, max_replicas=3)
    result = solve(p, DownsetDP())
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(3.0)
    assert sorted(len(stage.devices) for stage in result.plan.stages) == [1, 3]
    assert solve(replace(p, max_replicas=1), DownsetDP()).objective_s == pytest.approx(9.0)


def test_gpipe_adds_the_slowest_forward_and_the_slowest_backward():
    """Forward 4 1 1 4, backward 1 4 4 1: cut in the middle, 5 + 5; one by one forward and backward balance."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4)
    seconds = [4, 1, 1, 4, 1, 4, 4, 1]
    options = {"objective": Objective.MAX_LOAD, "transfers": Transfers.BLOCKING}
    for pipeline, expected in ((Pipeline.ONE_F_ONE_B, 5.0), (Pipeline.GPIPE, 4.0 + 4.0)):
        p = problem(graph, seconds, 4, pipeline=pipeline, **options)
        assert solve(p, DownsetDP()).objective_s == pytest.approx(expected)
        assert solve(p, BruteForce()).objective_s == pytest.approx(expected)


def test_full_duplex_lets_a_device_send_while_it_receives():
    """b receives 4 s and sends 4 s beside 3 s of compute: 11 s blocking, 8 s on one lane, 4 s on two."""
    graph = forward_graph([(0, 1), (1, 2)], 3, nbytes=4.0)
    p = problem(graph, [12, 3, 12], 3, objective=Objective.MAX_LOAD, training=False)
    plan = assemble(replace(p, transfers=Transfers.DUPLEX), [(0,), (1,), (2,)], 1)
    loads = {model: evaluate(replace(p, transfers=model), plan).load_s[1] for model in MODELS}
    assert loads == {Transfers.BLOCKING: 11, Transfers.LANE: 8, Transfers.DUPLEX: 4}


@pytest.mark.parametrize("transfers", MODELS)
def test_merging_operators_without_work_hides_no_better_plan(transfers):
    """Where messages have several readers or makers, taking an operator along can make a device send or
    receive more. a + b is one sum that c and d read; e has an input of each kind."""
    rng = random.Random(5)
    for _ in range(12):
        size = Amount(0.0, float(rng.choice([1, 4])))
        summed = (Tensor(0, (2, 3), size, sum_group=0), Tensor(1, (2, 3), size, sum_group=0))
        graph = OpGraph(
            tuple(Operator(name) for name in "abcde"),
            (*summed, Tensor(2, (4,), Amount(0.0, 2.0)), Tensor(rng.choice([0, 3]), (4,), Amount(0.0, 1.0))),
        )
        seconds = [rng.choice([0, 0, 3, 5]) for _ in range(5)]
        p = problem(graph, seconds, 3, objective=Objective.MAX_LOAD, transfers=transfers, training=False)
        exact, brute = solve(p, DownsetDP()), solve(p, BruteForce())
        assert exact.status is Status.OPTIMAL
        assert exact.objective_s == pytest.approx(brute.objective_s)


@pytest.mark.parametrize("transfers", MODELS)
@pytest.mark.parametrize("replicas", [1, 2])
def test_without_links_only_what_sends_nothing_is_placed(transfers, replicas):
    """a -> b and c, which nothing joins: with two devices c may sit alone, or each replica do its share."""
    p = problem(
        forward_graph([(0, 1)], 3, nbytes=1.0),
        [1, 2, 3],
        2,
        objective=Objective.MAX_LOAD,
        transfers=transfers,
        training=False,
        mini_batch=2,
        max_replicas=replicas,
    )
    p = replace(p, cluster=Cluster(p.cluster.devices))
    result = solve(p, DownsetDP())
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(3.0)
    infeasible = replace(p, compute=ComputeTable((1,), {"gpu": np.array([[1.0], [np.inf], [3.0]])}))
    assert solve(infeasible, DownsetDP()).status is Status.INFEASIBLE


@pytest.mark.parametrize(("transfers", "pipeline", "replicas"), VARIANTS)
def test_too_many_downsets_and_a_stop_leave_the_linear_plan_and_a_bound(transfers, pipeline, replicas):
    """Fourteen operators that read one: 16,385 downsets, of which one budget allows 1,000."""
    graph = training_graph([(0, i) for i in range(1, 15)], 15, nbytes=0.1, param_bytes=0.1)
    p = problem(
        graph,
        [1.0 + i % 3 for i in range(30)],
        4,
        objective=Objective.MAX_LOAD,
        transfers=transfers,
        pipeline=pipeline,
        max_replicas=replicas,
        mini_batch=2,
        micro_batches=1,
    )
    before = itertools.count()
    stopped = solve(p, DownsetDP(), should_stop=lambda: next(before) > 15)
    limited = solve(p, DownsetDP(downset_budget=1000))
    for result, reason in ((stopped, StopReason.CANCELLED), (limited, StopReason.STATE_LIMIT)):
        if result.status is not Status.OPTIMAL:  # unless the linear cut meets the bound
            assert (result.status, result.stop_reason) == (Status.FEASIBLE, reason)
        assert 0 < result.bound_s <= result.objective_s < math.inf


def test_replicas_stay_in_one_host_where_they_fit():
    """Two hosts of two devices: after one single part, the pair goes to the second host."""
    hosts = tuple(Device(f"GPU {i}", "gpu", node=i // 2) for i in range(4))
    p = problem(forward_graph([(0, 1), (1, 2)], 3), [1, 1, 1], 4, training=False, max_replicas=2)
    p = replace(p, cluster=two_level_cluster(hosts, 10.0, 0.0, 1.0, 0.0))
    chain = Chain(0.0, (Part(False, (0,)), Part(False, (1,), 2), Part(False, (2,))))
    assert placement_of(p, contract(p, 1), chain) == ((0,), (2, 3), (1,))
