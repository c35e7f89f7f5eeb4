"""What joins devices: links of their own or one wire, and what is no cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.simulation import simulate
from solvers.kernels import ring_kernel
from solvers.kernels.interpreted import interpreted
from solvers.planners.check import check
from solvers.problem.cluster import (
    Cluster,
    Device,
    Link,
    Ring,
    Wires,
    around,
    two_level_cluster,
    uniform_cluster,
)
from solvers.problem.problem import Contiguity, Objective
from solvers.schedules.assemble import assemble
from tests.instances import devices, forward_graph, problem

PAIR = (Device("a", "gpu"), Device("b", "gpu"))


def resources(cluster: Cluster) -> set[str]:
    return {link.resource for link in cluster.links}


def test_dedicated_links_are_as_many_as_ordered_pairs() -> None:
    assert len(resources(uniform_cluster(devices(4), 1.0))) == 4 * 3


def test_shared_links_of_a_host_are_one_wire() -> None:
    cluster = uniform_cluster(devices(3, cpus=1), 1.0, wires=Wires.SHARED)
    assert resources(cluster) == {"host 0 root"}
    assert len(cluster.links) == 4 * 3


def test_every_host_has_a_wire_of_its_own_and_one_to_every_other_host() -> None:
    on = tuple(Device(f"GPU {i}", "gpu", node=i // 2) for i in range(4))
    cluster = two_level_cluster(on, 2.0, 0.0, 1.0, 0.0, Wires.SHARED)
    assert resources(cluster) == {"host 0 root", "host 1 root", "node0->node1", "node1->node0"}
    assert cluster.transfer_s(2.0, 0, 1) == 1.0
    assert cluster.transfer_s(2.0, 1, 2) == 2.0


@pytest.mark.parametrize(("wires", "ends"), [(Wires.DEDICATED, [3.0, 3.0]), (Wires.SHARED, [3.0, 5.0])])
def test_a_shared_wire_carries_one_transfer_at_a_time_in_either_direction(wires: Wires, ends: list[float]) -> None:
    """a on 0 (1 s) feeds c on 1, b on 1 (1 s) feeds d on 0; both transfers are ready at 1 s and take 2 s."""
    g = forward_graph([(0, 2), (1, 3)], 4, nbytes=2.0)
    p = problem(g, [1] * 4, 2, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, training=False)
    p = replace(p, cluster=uniform_cluster(devices(2), 1.0, wires=wires))
    plan = assemble(p, [(0,), (1,), (1,), (0,)], 1)
    assert sorted(span.end_s for span in simulate(p, plan).spans if span.is_transfer) == ends
    assert check(p, plan) == ()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ((Link(0, 0, 1.0),), "link 0 -> 0: a device needs no link to itself"),
        ((Link(0, 1, 1.0), Link(0, 1, 2.0)), "link 0 -> 1: there are two of them; keep one"),
        ((Link(0, 1, 1.0, resource="device 0"),), "'device 0' has the name of a device's own"),
        ((Link(0, 1, 1.0, resource="lane 7"),), "'lane 7' has the name of a device's own"),
        ((Link(0, 2, 1.0),), "no such device"),
        ((Link(0, 1, 0.0),), "bandwidth must be more than 0"),
        ((Link(0, 1, float("nan")),), "bandwidth must be more than 0"),
        ((Link(0, 1, 1.0, float("inf")),), "latency must be >= 0"),
    ],
)
def test_links_that_make_no_cluster_are_refused_by_name(links: tuple[Link, ...], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        Cluster(PAIR, links)


def test_a_ring_of_three_moves_four_thirds_of_the_bytes_in_four_steps() -> None:
    slow, far = Link(0, 1, 2.0, 1.0), Link(1, 2, 8.0, 10.0)
    assert around((0, 1, 2)) == [(0, 1), (1, 2), (2, 0)]
    assert (Ring(3).steps, Ring(3).nbytes(6.0)) == (4, 8.0)
    assert Ring(3).link_s(slow, 6.0) == 4 * 1.0 + 8 / 2
    assert Ring(3).over_worst_s([slow, far]) == (4 * 10.0, 4 / 3 / 2)


def test_kernels_tell_a_ring_alike() -> None:
    link = Link(0, 1, 3e9, 5e-6)
    ring_s = interpreted(ring_kernel.ring_s)
    assert [ring_s(r, 1e8, 5e-6, 3e9) for r in range(1, 9)] == [Ring(r).link_s(link, 1e8) for r in range(1, 9)]
