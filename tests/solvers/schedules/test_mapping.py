"""Stages and replica groups on the nodes of a cluster: few bytes cross between them."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.coarsening.coarsen import contract
from solvers.contiguous.chains import Chain, Part, placements_of
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate, judge
from solvers.kernels.arrays import starts
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.problem.cluster import Device, two_level_cluster, uniform_cluster
from solvers.problem.problem import Pipeline, Problem, Transfers
from solvers.schedules.nodes import mapping
from solvers.schedules.nodes.traffic_kernel import between_replicas
from solvers.schedules.realise import realise
from tests.instances import GPU, forward_graph, problem, training_graph
from tests.random_problems import random_draft, random_two_level_problem

CHAIN3 = [(0, 1), (1, 2)]


def on_nodes(p: Problem, *sizes: int) -> Problem:
    """The problem on nodes of so many devices, with links ten times as fast inside."""
    nodes = [node for node, size in enumerate(sizes) for _ in range(size)]
    devices = tuple(Device(f"GPU {i}", GPU, node=node) for i, node in enumerate(nodes))
    return replace(p, cluster=two_level_cluster(devices, 10.0, 0.0, 1.0, 0.0))


def chain_of(*replicas: int, param_bytes: float = 99.0) -> tuple[Problem, Draft]:
    """One operator a stage, backward with it; a mini-batch of 12 in one micro-batch."""
    count = len(replicas)
    graph = training_graph([(i, i + 1) for i in range(count - 1)], count, 1.0, param_bytes)
    p = problem(graph, [1.0] * (2 * count), mini_batch=12, micro_batches=1, max_replicas=12)
    return p, Draft(tuple(DraftStage((i, count + i), 12, r) for i, r in enumerate(replicas)))


def devices_of(p: Problem, draft: Draft) -> list[tuple[int, ...]]:
    return [stage.devices for stage in realise(p, draft).stages]


def test_a_replica_group_stays_in_a_node_where_it_fits():
    p, draft = chain_of(3, 4, 1)
    assert devices_of(on_nodes(p, 4, 4), draft) == [(0, 1, 2), (4, 5, 6, 7), (3,)]


def test_replicas_stay_together_even_when_they_exchange_nothing():
    graph = forward_graph(CHAIN3, 3)
    p = on_nodes(problem(graph, [1, 1, 1], mini_batch=2, training=False, max_replicas=2), 2, 2)
    draft = Draft((DraftStage((0,), 2), DraftStage((1,), 2, 2), DraftStage((2,), 2)))
    assert devices_of(p, draft) == [(0,), (2, 3), (1,)]


def test_a_group_larger_than_a_node_takes_whole_nodes():
    p, draft = chain_of(2, 8, 2)
    assert devices_of(on_nodes(p, 4, 4, 4), draft) == [(0, 1), (4, 5, 6, 7, 8, 9, 10, 11), (2, 3)]


def test_stages_that_send_each_other_much_share_a_node():
    """a feeds b and c, b is read by d alone, c by e alone: two branches, a node each."""
    graph = forward_graph([(0, 1), (0, 2), (1, 3), (2, 4)], 5, 1.0)
    p = on_nodes(problem(graph, [1] * 5, training=False), 2, 3)
    draft = Draft(tuple(DraftStage((i,), 1) for i in range(5)))
    plan = realise(p, draft)
    assert [stage.devices for stage in plan.stages] == [(2,), (0,), (3,), (1,), (4,)]
    assert evaluate(p, plan).between_nodes_bytes == 1.0


@pytest.mark.parametrize("order", [(0, 0, 1, 1), (0, 1, 0, 1)])
def test_a_cluster_of_equal_links_or_of_one_node_is_filled_in_order(order: tuple[int, ...]):
    p, draft = chain_of(1, 2, 1)
    alike = uniform_cluster([Device(f"GPU {i}", GPU, node=node) for i, node in enumerate(order)], 1.0)
    for cluster in (alike, on_nodes(p, 4).cluster):
        assert devices_of(replace(p, cluster=cluster), draft) == [(0,), (1, 2), (3,)]


def test_unequal_accelerators_missing_links_and_slow_links_inside_keep_the_order():
    p, draft = chain_of(1, 2, 1)
    good = on_nodes(p, 2, 2).cluster
    assert devices_of(replace(p, cluster=good), draft) == [(0,), (2, 3), (1,)]
    small = (*good.devices[:3], replace(good.devices[3], memory_bytes=1e9))
    slow = two_level_cluster(good.devices, 1.0, 0.0, 10.0, 0.0)
    for cluster in (replace(good, devices=small), replace(good, links=good.links[:-1]), slow):
        assert devices_of(replace(p, cluster=cluster), draft) == [(0,), (1, 2), (3,)]


def test_too_few_accelerators_are_reported():
    p, draft = chain_of(3, 3)
    with pytest.raises(InvalidPlan, match="the stages take 6 accelerators, there are 4"):
        realise(on_nodes(p, 2, 2), draft)


def test_bytes_between_nodes_by_hand():
    """a on two nodes, b on the second: of 12 samples half cross to b and their gradients back, 1 byte each;
    the ring of a crosses twice, 2(r-1)/r = 1 of its 8 bytes each time."""
    p, draft = chain_of(2, 1, param_bytes=8.0)
    p = on_nodes(p, 1, 2)
    plan = realise(p, draft, [(0, 1), (2,)])
    assert evaluate(p, plan).between_nodes_bytes == 6 + 6 + 8 + 8
    assert evaluate(on_nodes(p, 3), plan).between_nodes_bytes == 0
    assert evaluate(p, realise(p, draft)).between_nodes_bytes == 12 + 12


def test_the_parts_of_a_chain_are_mapped_alike_and_in_several_ways():
    """With both split over the nodes alike, two rings of 5 bytes cross twice; with a node each, the 12 bytes sent
    forward and the 12 back. More weight on rings prefers the latter."""
    p, draft = chain_of(2, 2, param_bytes=5.0)
    p = on_nodes(p, 2, 2)
    parts = tuple(Part(False, stage.operators[:1], 2) for stage in draft.stages)
    ways = list(placements_of(p, contract(p, 1), Chain(0.0, parts)))
    assert ways == [((0, 2), (1, 3)) * 2, ((0, 1), (2, 3)) * 2]
    assert devices_of(p, draft) == list(ways[0][:2])
    assert list(placements_of(on_nodes(p, 4), contract(p, 1), Chain(0.0, parts))) == [((0, 1), (2, 3)) * 2]


def realised(p: Problem, seed: int) -> tuple[Draft, Plan]:
    """A random draft, and its plan; of drafts whose stages wait for each other there is none."""
    rng = random.Random(seed)
    while True:
        draft = random_draft(rng, p)
        try:
            return draft, realise(p, draft)
        except InvalidPlan:
            continue


@pytest.mark.parametrize("seed", range(100))
def test_what_is_weighed_is_what_the_simulation_moves(seed: int):
    p = random_two_level_problem(seed, pipeline=Pipeline.ONE_F_ONE_B, transfers=Transfers.LINKS)
    draft, plan = realised(p, seed)
    owners = [index for index, stage in enumerate(draft.stages) if stage.host is None]
    sets = [stage.operators for stage in plan.stages]
    weight = mapping._weights(p, draft.stages, sets, owners, len(p.cluster))
    node = np.array([p.cluster.devices[d].node for index in owners for d in plan.stages[index].devices])
    moved = weight[: len(node), : len(node)][node[:, None] != node].sum()
    together = 50 * mapping.TOGETHER * (1 + weight.sum())
    assert evaluate(p, plan).between_nodes_bytes == pytest.approx(moved, abs=together)


@pytest.mark.parametrize("seed", range(100))
def test_plans_on_two_levels_are_judged_and_verified_alike(seed: int):
    p = random_two_level_problem(seed)
    _, plan = realised(p, seed)
    judged, violations = judge(p, plan), check(p, plan)
    assert judged.feasible == (not violations), (judged, violations)
    if judged.feasible:
        assert proved_infeasible(p) is None
        assert lower_bound_s(p) <= judged.objective_s * (1 + 1e-12)


def random_stages(rng: random.Random, sizes: list[int]) -> tuple[list[int], np.ndarray, list[float]]:
    """Replicas, traffic and gradient bytes of stages on nodes of ``sizes``."""
    left = sum(sizes) if rng.random() < 0.7 else rng.randint(2, sum(sizes))
    replicas: list[int] = []
    while left:
        replicas.append(min(left, rng.choice([1, 1, 1, 2, 2, 3, 4, sizes[0], sizes[0] + 1])))
        left -= replicas[-1]
    count, density = len(replicas), rng.choice([0.2, 0.4, 0.8])
    traffic = np.zeros((count, count))
    for a in range(count):
        for b in range(a + 1, count):
            if rng.random() < density or (b == a + 1 and rng.random() < 0.6):
                traffic[a, b] = traffic[b, a] = rng.choice([1, 2, 3, 5, 10])
    return replicas, traffic, [rng.choice([0.0, 1, 3, 10, 30]) if r > 1 else 0.0 for r in replicas]


def seat_bytes(replicas: list[int], traffic: np.ndarray, gradient_bytes: list[float]) -> np.ndarray:
    """What each replica sends each other one, computed a second time."""
    seats = [(stage, p) for stage, r in enumerate(replicas) for p in range(r)]
    sent = np.zeros((len(seats), len(seats)))
    for u, (a, p) in enumerate(seats):
        for v, (b, q) in enumerate(seats):
            r, s = replicas[a], replicas[b]
            sent[u, v] = traffic[a, b] * max(0.0, min((p + 1) / r, (q + 1) / s) - max(p / r, q / s))
            if a == b and q == (p + 1) % r and r > 1:
                sent[u, v] += 2 * (r - 1) / r * gradient_bytes[a]
    return sent


def assign(
    replicas: list[int], traffic: np.ndarray, gradient_bytes: list[float], node_sizes: list[int]
) -> list[tuple[int, ...]]:
    """Devices of every stage so that few bytes cross between nodes; node by node, devices count from 0.

    replicas: of each stage, in topological order. traffic: bytes a mini-batch from stage to stage, all of
    its micro-batches of one size, [stages, stages]. gradient_bytes: of each stage. node_sizes: devices
    of each node; together no fewer than the replicas.
    """
    count = len(replicas)
    in_order = np.repeat(np.arange(len(node_sizes)), node_sizes)
    start = starts(replicas)
    weight = np.zeros((len(in_order), len(in_order)))
    shares = np.asarray(replicas, np.int64)
    between = np.where(np.eye(count, dtype=bool), 0.0, traffic)
    one = np.ones(count, np.int64)
    between_replicas(np.zeros((count, count)), between, start[:-1], shares, one, 1, weight)
    mapping._add_rings(np.asarray(gradient_bytes, np.float64), start, weight)
    seats = mapping._seats(weight, start, in_order)
    return [tuple(seats[a:b]) for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]


def crossing(sent: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Bytes between nodes of mappings [mappings, seats]."""
    total = np.zeros(len(node))
    for u, v in zip(*np.nonzero(sent), strict=True):
        total += sent[u, v] * (node[:, u] != node[:, v])
    return total


def test_few_mappings_are_worse_than_the_best_of_all():
    """Of 300 small cases; their mean excess over brute force is far below a percent."""
    rng = random.Random(1)
    known: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}
    excess = []
    for _ in range(300):
        sizes = rng.choice([[2, 2], [3, 3], [4, 4], [2, 2, 2], [3, 3, 3], [2] * 4, [3, 1, 2], [5, 2]])
        replicas, traffic, gradients = random_stages(rng, sizes)
        sent = seat_bytes(replicas, traffic, gradients)
        key = len(sent), tuple(sizes)
        if key not in known:
            every = np.array(list(itertools.product(range(len(sizes)), repeat=len(sent))))
            fits = [(every == node).sum(axis=1) <= size for node, size in enumerate(sizes)]
            known[key] = every[np.all(fits, axis=0)]
        least = crossing(sent, known[key]).min()
        chosen = assign(replicas, traffic, gradients, sizes)
        devices = [device for stage in chosen for device in stage]
        assert [len(stage) for stage in chosen] == replicas
        assert len(set(devices)) == len(devices)
        nbytes = crossing(sent, np.repeat(np.arange(len(sizes)), sizes)[devices][None])[0]
        excess.append((nbytes - least) / least if nbytes > least * (1 + 1e-5) + 1e-9 else 0.0)
    assert min(excess) >= 0
    assert np.mean(excess) < 1e-3
    assert max(excess) < 0.1


@pytest.mark.parametrize("nodes", [4, 8, 16])
def test_a_mapping_never_has_more_bytes_than_the_order_and_is_the_same_each_time(nodes: int):
    rng = random.Random(nodes)
    better = 0
    for _ in range(5):
        replicas, traffic, gradients = random_stages(rng, [4] * nodes)
        sent = seat_bytes(replicas, traffic, gradients)
        chosen = assign(replicas, traffic, gradients, [4] * nodes)
        mapped = np.array([device // 4 for stage in chosen for device in stage])
        in_order = np.arange(len(mapped)) // 4
        was, now = crossing(sent, in_order[None])[0], crossing(sent, mapped[None])[0]
        assert now <= was
        better += now < 0.95 * was
        assert chosen == assign(replicas, traffic, gradients, [4] * nodes)
    assert better >= 3
