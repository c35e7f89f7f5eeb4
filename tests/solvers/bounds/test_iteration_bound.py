"""Bounds of an iteration: by hand, below every plan there is, and what they know that averages do not."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import bound_with_s, lower_bound_s
from solvers.bounds.iteration import _rings, iteration_bound_s
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link, Ring, two_level_cluster
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Transfers
from tests.instances import GPU, forward_graph, problem, training_graph
from tests.oracle.stage_oracle import best_by_force, random_pipeline_problem
from tests.random_problems import random_problem, trained_somehow, with_random_regions
from tests.solvers.bounds.drafted import ROUNDING, assert_no_draft_beats


def iteration_problem(graph, seconds, gpus=2, **options):
    options = {"objective": Objective.ITERATION, "mini_batch": 8, "micro_batches": 8, **options}
    return problem(graph, seconds, gpus, **options)


def test_replicas_pay_for_adding_up_gradients_and_one_alone_for_all_samples():
    """Alone 8 samples of 3 s. Two replicas: 12 s, and a ring of two steps, each with half of 16 bytes at 1 byte/s."""
    graph = training_graph([], 1, param_bytes=16.0)
    both = iteration_problem(graph, [1, 2], micro_batches=4, max_replicas=2)
    assert bound_with_s(both, 4) == pytest.approx(12)
    assert lower_bound_s(both) == pytest.approx(24)  # 12 + 16 > 24
    assert solve(both, "brute-force").objective_s == pytest.approx(24)
    assert lower_bound_s(
        replace(both, cluster=iteration_problem(graph, [1, 2], bandwidth=4.0).cluster)
    ) == pytest.approx(12 + 4)


def test_every_replica_runs_the_whole_update():
    """12 s for two replicas, a ring of 2 s and an update of 5 s; alone 24 + 5."""
    graph = training_graph([], 1, param_bytes=2.0)
    update = Operator("a.U", phase=Phase.UPDATE, forward_of=0)
    graph = OpGraph((*graph.operators, update), (*graph.tensors, Tensor(1, (2,))))
    p = iteration_problem(graph, [1, 2, 0], micro_batches=4, max_replicas=2)
    p = replace(p, compute=ComputeTable((1, 8), {GPU: np.array([[1.0, 8.0], [2.0, 16.0], [5.0, 5.0]])}))
    assert lower_bound_s(p) == pytest.approx(12 + 2 + 5)
    assert solve(p, "brute-force").objective_s == pytest.approx(19)


def test_between_nodes_a_ring_of_more_devices_than_a_node_has_is_slower():
    """12 s for two replicas, and 2 s in a node of two at 8 bytes/s; over 1 byte/s between nodes one alone is better."""
    graph = training_graph([], 1, param_bytes=16.0)
    for nodes, expected in (((0, 0), 12 + 2), ((0, 1), 24)):
        gpus = tuple(Device(f"GPU {i}", GPU, node=node) for i, node in enumerate(nodes))
        cluster = two_level_cluster(gpus, 8.0, 0.0, 1.0, 0.0)
        p = replace(iteration_problem(graph, [1, 2], micro_batches=4, max_replicas=2), cluster=cluster)
        assert lower_bound_s(p) == pytest.approx(expected)


def test_a_tensor_too_large_to_send_keeps_its_ends_on_one_device():
    """Three operators of 8 s in a row. The first tensor takes 8 x 4 s, so the first two are together: 16 s, and 1 s
    for the first sample of the last one to follow or not; that tensor takes less."""
    graph = forward_graph([(0, 1), (1, 2)], 3)
    tensors = tuple(
        replace(t, nbytes=replace(t.nbytes, per_sample=size)) for t, size in zip(graph.tensors, (4.0, 0.5), strict=True)
    )
    p = iteration_problem(replace(graph, tensors=tensors), [1, 1, 1], 3, training=False)
    assert bound_with_s(p, 8) == pytest.approx(10)
    assert lower_bound_s(p) == pytest.approx(16 + 1)
    assert solve(p, "brute-force").objective_s >= 17


def test_sending_it_bounds_the_time_where_what_it_would_keep_together_takes_longer():
    graph = forward_graph([(0, 1)], 2, nbytes=1.5)
    p = iteration_problem(graph, [1, 1], training=False)
    assert iteration_bound_s(p, (8,)) == pytest.approx(8 * 1.5)
    assert lower_bound_s(p) == pytest.approx(1 + 8 * 1.5 + 1, rel=1e-3)  # before the first and after the last
    assert solve(p, "brute-force").objective_s == pytest.approx(14)


def test_copies_of_what_may_be_repeated_send_nothing():
    graph = forward_graph([(0, 1), (0, 2)], 3, nbytes=4.0)
    operators = (replace(graph.operators[0], replicable=True), *graph.operators[1:])
    p = iteration_problem(replace(graph, operators=operators), [0.5, 1, 1], training=False)
    assert lower_bound_s(p) < 16


@pytest.mark.parametrize("seed", range(200))
def test_no_dag_of_stages_beats_it(seed):
    """Every partition, replica count and number of micro-batches of graphs of a few operators."""
    p = random_pipeline_problem(seed, largest=4, gpus=(2, 3), memory=False, replicas=seed % 4 > 0)
    assert lower_bound_s(p) <= best_by_force(p, most_slack=1) * ROUNDING


@pytest.mark.parametrize("seed", range(300))
def test_no_plan_beats_it_whatever_the_pipeline_and_the_links(seed):
    rng = random.Random(f"bound {seed}")
    p = random_problem(
        seed,
        objective=Objective.ITERATION,
        contiguity=rng.choice([Contiguity.ACYCLIC, Contiguity.ACYCLIC, Contiguity.NONE]),
        transfers=rng.choice(list(Transfers)),
        pipeline=rng.choice(list(Pipeline)),
        memory=float("inf"),
        cpus=0,
    )
    p = with_random_regions(trained_somehow(p, seed), seed)
    p = replace(p, max_replicas=rng.choice([1, 2, 3]), recompute=True, mixed_micro_batches=rng.random() < 0.3)
    if seed % 3 == 0:
        gpus = tuple(replace(device, node=i // 2) for i, device in enumerate(p.cluster.devices))
        p = replace(p, cluster=two_level_cluster(gpus, 10.0, 0.0, 1.0, 0.1))
    bound_s = lower_bound_s(replace(p, micro_batches=None))
    assert_no_draft_beats(bound_s, p, rng)


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_beats_it(seed):
    p = random_problem(seed, largest=4, objective=Objective.ITERATION, contiguity=Contiguity.NONE, cpus=0)
    best = solve(p, "brute-force")
    assert lower_bound_s(p) <= best.objective_s * ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_it_is_never_less_than_what_is_known_without_it(seed):
    p = random_pipeline_problem(seed)
    for count in p.micro_batch_choices():
        assert iteration_bound_s(p, (count,), 1.25) >= 1.25
        assert lower_bound_s(p) >= min(bound_with_s(p, count) for count in p.micro_batch_choices())


def rings_by_hand(cluster: Cluster, degree: int, gradient_bytes: float) -> float:
    """Seconds of a ring of replicas over the best latency and the best bandwidth of all pairs that it may use."""
    count = range(len(cluster))
    nodes = [device.node for device in cluster.devices]
    linked = [link for src in count for dst in count if (link := cluster.link(src, dst)) is not None]
    if degree > max(map(nodes.count, nodes)):
        linked = [link for link in linked if nodes[link.src] != nodes[link.dst]]
    if degree == 1 or not linked:
        return 0.0
    best = Link(0, 1, max(link.bandwidth_bytes_per_s for link in linked), min(link.latency_s for link in linked))
    return Ring(degree).link_s(best, gradient_bytes)


@pytest.mark.parametrize("seed", range(50))
def test_rings_of_every_size_use_the_best_of_all_the_links_that_they_may(seed):
    rng = random.Random(f"rings {seed}")
    nodes = [node for node in range(rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
    gpus = tuple(Device(f"GPU {i}", GPU, node=node) for i, node in enumerate(nodes))
    links = tuple(
        Link(src, dst, rng.uniform(1, 9), rng.choice([0.0, rng.random()]))
        for src in range(len(gpus))
        for dst in range(len(gpus))
        if src != dst and rng.random() < 0.7
    )
    cluster = Cluster(gpus, links)
    fixed, per_byte = _rings(cluster, np.arange(1, len(gpus) + 1))
    expected = [rings_by_hand(cluster, degree, 5.0) for degree in range(1, len(gpus) + 1)]
    assert (fixed + 5.0 * per_byte).tolist() == pytest.approx(expected)
