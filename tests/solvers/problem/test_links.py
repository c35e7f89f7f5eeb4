"""Links by class: those that are stated one by one, made when somebody asks for one."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.columns import cluster_columns, has_wire, pairs_of, wire_names
from solvers.evaluation.simulation import simulate
from solvers.formats.cluster_json import cluster_json, read_cluster
from solvers.formats.json_fields import Field
from solvers.planners.check import check
from solvers.problem.cluster import Cluster, Device, Wires, two_level_cluster
from solvers.problem.links import BETWEEN, INSIDE, Link, LinkClass, Speed, Tiers, Wire, tiers_of
from solvers.problem.problem import Transfers
from tests.oracle.random_plans import random_plan

NODES = Cluster(tuple(Device(f"GPU {i}", "gpu", node=i // 8) for i in range(16_384)))


def random_tiers(rng: random.Random, devices: int) -> Tiers:
    nodes = sorted(rng.randrange(1 + devices // 2) for _ in range(devices))
    rng.shuffle(nodes) if rng.random() < 0.5 else None
    group = {node: rng.randrange(3) for node in nodes}

    def one(wires: tuple[Wire, ...]) -> LinkClass:
        return LinkClass(rng.choice([1.0, 2.0, 5.0]), rng.choice([0.0, 0.1]), rng.choice(wires))

    within = {g: one(INSIDE) for g in range(3)}
    between = {(g, h): one(BETWEEN) for g in range(3) for h in range(3)}
    groups = [group[node] for node in nodes]
    return tiers_of(range(devices), nodes, groups, within.__getitem__, lambda a, b: between[a, b])


def one_by_one(cluster: Cluster) -> Cluster:
    return Cluster(cluster.devices, tuple(cluster.links))


def random_cluster(rng: random.Random, devices: tuple[Device, ...]) -> Cluster:
    on = tuple(replace(device, node=rng.randrange(3)) for device in devices)
    return Cluster(on, random_tiers(rng, len(on)))


@pytest.mark.parametrize("seed", range(40))
def test_links_by_class_are_those_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    tiers = random_cluster(rng, tuple(Device(f"{i}", "cpu" if i > 6 else "gpu") for i in range(rng.randint(2, 9))))
    each = one_by_one(tiers)
    assert tiers == each
    assert hash(tiers) == hash(each)
    assert (len(tiers.links), tiers.links[-1], tiers.is_complete) == (len(each.links), each.links[-1], True)
    assert tiers.speeds == each.speeds
    devices = each.devices
    assert each.speeds == Counter(
        Speed(x.latency_s, x.bandwidth_bytes_per_s, devices[x.src].node == devices[x.dst].node,
              devices[x.src].is_cpu, devices[x.dst].is_cpu)
        for x in each.links
    )  # fmt: skip
    some = sorted(rng.sample(range(len(devices)), rng.randint(1, len(devices))))
    assert tiers.part(some) == each.part(some)
    assert tiers.at_speed(0.5, 3.0) == each.at_speed(0.5, 3.0)
    for actual, expected in zip(pairs_of(tiers, len(tiers)), pairs_of(each, len(tiers)), strict=True):
        assert (actual == expected).all()
    assert list(wire_names(tiers)) == list(wire_names(each))
    for name in ["", "0->99", "node77->node1", "x" * 5000, *wire_names(tiers)]:
        assert has_wire(tiers, name) == has_wire(each, name)


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_runs_over_links_by_class_as_over_those_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    drawn = random_plan(seed)
    if drawn is None:
        return
    tiers = random_cluster(rng, drawn[0].cluster.devices)
    p = replace(drawn[0], cluster=tiers, transfers=rng.choice(list(Transfers)))
    plan = replace(drawn[1], messages=())
    given = simulate(p, plan)
    again = simulate(replace(p, cluster=one_by_one(tiers)), plan)
    assert given.spans == again.spans
    assert given.makespan_s == again.makespan_s
    assert check(p, plan) == check(replace(p, cluster=one_by_one(tiers)), plan)


def test_two_levels_share_a_wire_between_nodes_as_the_classes_say() -> None:
    rng = random.Random(1)
    for _ in range(50):
        devices = tuple(Device(f"{i}", "gpu", node=rng.randrange(4)) for i in range(rng.randint(1, 6)))
        cluster = two_level_cluster(devices, 4.0, 0.1, 1.0, 0.2, rng.choice(list(Wires)))
        assert cluster.shares_between == one_by_one(cluster).shares_between


def test_a_cluster_of_many_devices_makes_no_pair_that_nobody_asks_for() -> None:
    tracemalloc.start()
    cluster = two_level_cluster(NODES.devices, 450e9, 1e-6, 50e9, 1e-5)
    cluster_columns(cluster)
    assert len(cluster.links) == 16_384 * 16_383
    assert cluster.link(9, 3) == Link(9, 3, 50e9, 1e-5, "node1->node0")
    assert {speed.inside: pairs for speed, pairs in cluster.speeds.items()} == {
        True: 16_384 * 7, False: 16_384 * 16_376}  # fmt: skip
    text = json.dumps(cluster_json(cluster))
    assert read_cluster(Field(json.loads(text), "c.json:")) == cluster
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(text) < 2_000
    assert peak < 50e6


@pytest.mark.parametrize("seed", range(20))
def test_files_tell_links_by_class(seed: int) -> None:
    rng = random.Random(seed)
    devices = tuple(Device(f"{rng.choice('ab')} {i}", "gpu", rng.choice([1e9, 2e9])) for i in range(70))
    cluster = random_cluster(rng, devices)
    written = cluster_json(cluster)
    assert written["version"] == 2
    assert read_cluster(Field(json.loads(json.dumps(written)), "c.json:")) == cluster
    few = cluster.part(range(8))
    assert "version" not in cluster_json(few)
    assert read_cluster(Field(cluster_json(few), "c.json:")) == few


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("groups", ["0-3*99999999"], "a run"),
        ("groups", ["0*70", 5], "at most|70 devices"),
        ("nodes", ["0-69*2"], "devices"),
        ("within", [None], "class is missing"),
        ("within", [7], "an integer from 0"),
        ("between", [], "a list of 1"),
        ("numbers", ["0*70"], "one number"),
        ("numbers", [1.5], "an integer"),
        ("classes", [{"bandwidth_bytes_per_s": 0, "latency_s": 0, "wire": "pair"}] * 2, "more than 0"),
        ("classes", [{"bandwidth_bytes_per_s": 1, "latency_s": 0, "wire": "nodes"}] * 2, "wire is one of"),
        ("classes", [{"bandwidth_bytes_per_s": 1, "latency_s": 0, "wire": "glue"}] * 2, "one of pair"),
    ],
)
def test_what_is_wrong_with_links_by_class_is_reported_in_a_line(part: str, value: object, message: str) -> None:
    cluster = two_level_cluster(NODES.devices[:70], 2.0, 0.0, 1.0, 0.0)
    spoiled = json.loads(json.dumps(cluster_json(cluster)))
    spoiled["links"][part] = value
    with pytest.raises(InvalidProblem, match=message) as refused:
        read_cluster(Field(spoiled, "c.json:"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"name": "GPU 0", "kind": "gpu", "count": 20_000, "node": [0]}, "an integer from 1"),
        ({"name": "GPU", "kind": "gpu", "count": 2, "node": ["0*2"]}, "ends in a number"),
        ({"name": "GPU 0", "kind": "gpu", "count": 2, "node": [0]}, "2 nodes"),
    ],
)
def test_counted_devices_have_names_and_nodes(item: dict, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        read_cluster(Field({"version": 2, "devices": [item], "links": {}}, "c.json:"))
