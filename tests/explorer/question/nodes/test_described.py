"""Clusters by their nodes: what a few lines stand for, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explorer.costs.devices import DEVICES
from explorer.question.cluster_file import parse_cluster
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Cluster, Link

TWO: dict[str, Any] = {
    "nodes": [
        {"devices": "2xV100-16GB", "memory": "8GB", "links": {"bandwidth": "50GB/s", "latency": 5e-6}, "cpus": 1},
        {"devices": "A100-40GB", "out": "1GB/s", "in": 2e9},
    ],
    "network": {"bandwidth": "12.5GB/s", "latency": "30us"},
}


def cluster(value: object) -> Cluster:
    return parse_cluster(json.dumps(value), "mine.json")


def link(machines: Cluster, src: int, dst: int) -> Link:
    shown = machines.link(src, dst)
    assert shown is not None
    return shown


def test_devices_are_in_the_order_of_their_nodes_and_cpus_come_last() -> None:
    machines = cluster(TWO)
    shown = [(d.name, d.kind, d.node) for d in machines.devices]
    assert shown == [
        ("GPU 0", "V100-16GB", 0),
        ("GPU 1", "V100-16GB", 0),
        ("GPU 2", "A100-40GB", 1),
        ("CPU 0", "cpu", 0),
    ]
    assert [d.memory_bytes for d in machines.devices] == [8e9, 8e9, 40e9, DEVICES["cpu"].memory_bytes]


def test_links_inside_a_node_and_between_nodes_are_as_fast_as_stated_each_way() -> None:
    machines = cluster(TWO)
    assert len(machines.links) == 4 * 3
    assert link(machines, 0, 1) == Link(0, 1, 50e9, 5e-6, "0->1")
    assert link(machines, 0, 2).bandwidth_bytes_per_s == 2e9
    assert link(machines, 0, 2).latency_s == pytest.approx(30e-6)
    assert link(machines, 2, 0).bandwidth_bytes_per_s == 1e9
    assert link(machines, 0, 3).bandwidth_bytes_per_s == 50e9


@pytest.mark.parametrize(
    ("wires", "same", "distinct"),
    [
        ("dedicated", (), ((0, 1), (0, 2), (1, 0))),
        ("device", ((0, 1), (0, 2)), ((0, 1), (1, 0))),
        ("shared", ((0, 1), (1, 2), (2, 0)), ()),
    ],
)
def test_what_shares_a_wire_inside_a_node(wires: str, same: tuple[Any, ...], distinct: tuple[Any, ...]) -> None:
    machines = cluster({"nodes": [{"devices": "3xV100-16GB", "links": {"wires": wires}}]})
    assert len({link(machines, *pair).resource for pair in same}) <= 1
    assert len({link(machines, *pair).resource for pair in distinct}) == len(distinct)


@pytest.mark.parametrize(
    ("wires", "shares", "does_not"),
    [
        ("device", ((0, 2), (0, 4)), ((0, 2), (1, 2))),
        ("node", ((0, 2), (1, 4)), ((0, 2), (2, 0))),
        ("pair", ((0, 2), (1, 3)), ((0, 2), (0, 4))),
    ],
)
def test_what_shares_a_wire_between_nodes(wires: str, shares: tuple[Any, ...], does_not: tuple[Any, ...]) -> None:
    machines = cluster({"nodes": [{"count": 3, "devices": "2xV100-16GB"}], "network": {"wires": wires}})
    assert len({link(machines, *pair).resource for pair in shares}) == 1
    assert len({link(machines, *pair).resource for pair in does_not}) == 2


def test_nodes_of_one_rack_are_joined_by_what_the_rack_has() -> None:
    machines = cluster(
        {
            "nodes": [{"count": 3, "devices": "V100-16GB"}],
            "network": {"bandwidth": "1GB/s", "latency": 9e-6, "wires": "node"},
            "racks": [{"nodes": [0, 1], "bandwidth": "10GB/s"}],
        }
    )
    assert link(machines, 0, 1) == Link(0, 1, 10e9, 9e-6, "node0 adapter")
    assert link(machines, 1, 2) == Link(1, 2, 1e9, 9e-6, "node1 adapter")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nodes": []}, "expected an object with nodes|at least one node|devices: missing"),
        ({"nodes": [{"devices": "8xH100-80G"}]}, r"nodes\[0\].devices: expected kinds of .*did you mean 'H100-80GB'"),
        ({"nodes": [{"devices": "cpu"}]}, r"nodes\[0\].devices: expected kinds of"),
        ({"nodes": [{"devices": "V100-16GB", "memory": "8 Gbit"}]}, r"nodes\[0\].memory: .*a size such as"),
        ({"nodes": [{"devices": "V100-16GB", "links": {"bandwidth": "400Gbit/s"}}]}, "is in bits"),
        ({"nodes": [{"devices": "V100-16GB", "links": {"bandwidth": 0}}]}, r"links.bandwidth: expected more than 0"),
        ({"nodes": [{"devices": "V100-16GB", "links": {"wires": "string"}}]}, "one of dedicated, device, shared"),
        ({"nodes": [{"devices": "V100-16GB", "gpus": 8}]}, r"nodes\[0\].gpus: unknown field"),
        ({"nodes": [{"devices": "V100-16GB", "count": 20000}]}, r"count: expected an integer from 1 to 16384"),
        ({"nodes": [{"devices": "8xV100-16GB", "count": 3000}]}, "at most 16,384 devices in all"),
        ({"nodes": [{"devices": "V100-16GB"}], "racks": [{"nodes": [1]}]}, r"racks\[0\].nodes\[0\]: expected"),
        ({"nodes": [{"devices": "V100-16GB"}], "network": {"speed": 1}}, r"network.speed: unknown field"),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_place(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidProblem, match=words) as refused:
        cluster(changed)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("mine.json")
