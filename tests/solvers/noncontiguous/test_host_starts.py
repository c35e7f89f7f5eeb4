"""What a search begins with where links between hosts are slower."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from solvers.evaluation.evaluate import judge
from solvers.noncontiguous.planners import host_starts
from solvers.noncontiguous.planners.host_starts import deal, start_on_hosts
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.cluster import two_level_cluster
from solvers.problem.problem import Contiguity, Objective, Transfers
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem


def chain(contiguity=Contiguity.ACYCLIC, nodes=(0, 1, 0, 1)):
    """Four operators of 3 s one after the other, 1, 8 and 2 B between them; 10 B/s inside a host, 1 B/s between."""
    p = problem(forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0), [3] * 4, 4, contiguity=contiguity,
                objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, training=False)  # fmt: skip
    sizes = (1.0, 8.0, 2.0)
    tensors = tuple(
        replace(tensor, nbytes=replace(tensor.nbytes, fixed=0.0, per_sample=size))
        for tensor, size in zip(p.graph.tensors, sizes, strict=True)
    )
    devices = tuple(replace(d, node=node) for d, node in zip(p.cluster.devices, nodes, strict=True))
    cluster = two_level_cluster(devices, 10.0, 0.0, 1.0, 0.0)
    return replace(p, graph=replace(p.graph, tensors=tensors), cluster=cluster, transfer_s=None)


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_of_a_plan_are_dealt_out_as_well_as_by_any_exchange_of_devices(seed):
    rng = random.Random(seed)
    p = chain(Contiguity.NONE, nodes=rng.choice([(0, 1, 0, 1), (0, 0, 0, 1), (0, 1, 2, 1)]))
    places = [(rng.randrange(4),) for _ in range(4)]
    monitor = Monitor(p)
    deal(p, monitor, assemble(p, places, p.mini_batch))
    every = [judge(p, assemble(p, [(to[d],) for (d,) in places], p.mini_batch)) for to in permutations(range(4))]
    assert monitor.objective_s == pytest.approx(min(judged.objective_s for judged in every), rel=1e-12)


def test_where_orders_are_too_many_the_plan_is_offered_as_it_is(monkeypatch):
    monkeypatch.setattr(host_starts, "MOST_DEALS", 5)
    p = chain()
    monitor = Monitor(p)
    deal(p, monitor, assemble(p, [(0,), (1,), (2,), (3,)], p.mini_batch))
    assert monitor.objective_s == pytest.approx(3 + 8 + 2)


@pytest.mark.parametrize("contiguity", list(Contiguity))
def test_a_start_is_the_best_for_fast_links_with_its_heavy_message_inside_a_host(contiguity):
    """Hosts 0, 1, 0, 1: b and c share one, a and d another or the same; b pays 1 and 0.8 s, c 0.8 and 2 s."""
    p = chain(contiguity)
    monitor = Monitor(p)
    start_on_hosts(p, monitor)
    best_s = solve(p, BruteForce()).objective_s
    assert best_s <= monitor.objective_s <= 3 + 0.8 + 2 + 1e-9
    assert monitor.bound_s <= best_s * (1 + 1e-9)
