"""Real profiles as training passes of single operators: counted from the file, planned, checked."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from solvers.formats.pipedream import read_pipedream
from solvers.formats.workload import Workload
from solvers.problem.groups import together
from tests.explorer.cli.command import Command
from tests.solvers.formats.test_pipedream import FOLDER, LAYERS, needs_profiles

pytestmark = needs_profiles

PROFILES = ("nasnetalarge", "inception_v3", "resnet101")
PLANNER = "layer-split"
DEVICES = 2


@cache
def lines(name: str) -> tuple[dict[str, float], list[tuple[str, str]]]:
    """Bytes of the activation of every node but the inputs, and the edges between those."""
    text = (FOLDER / f"{name}.txt").read_text().split("\n")
    nodes = {line.split(" -- ")[0]: line for line in text if line.startswith("node")}
    inputs = {node for node, line in nodes.items() if " -- Input" in line}
    sizes = {
        node: float(line.split("activation_size=")[1].split(",")[0])
        for node, line in nodes.items()
        if node not in inputs
    }
    edges = [tuple(line.strip().split(" -- ")) for line in text if line.startswith("\t")]
    return sizes, [(a, b) for a, b in edges if a not in inputs]


@cache
def workload(name: str) -> Workload:
    path = FOLDER / f"{name}.txt"
    return read_pipedream(path.read_bytes(), str(path))


@pytest.mark.parametrize("name", PROFILES)
def test_activations_become_tensors_and_the_backward_mirrors_them(name: str) -> None:
    sizes, edges = lines(name)
    graph, layers = workload(name).graph, LAYERS[name]
    read = {source for source, _ in edges}
    assert len(graph) == 2 * layers
    # An activation is one tensor, however many read it; each reader sends a gradient of its own back; and every
    # backward waits for its forward.
    assert len(graph.tensors) == len(read) + len(edges) + layers
    forward = [t for t in graph.tensors if t.producer < layers and max(t.consumers) < layers]
    assert sum(t.nbytes.per_sample for t in forward) == sum(sizes[node] for node in read)
    backward = [t for t in graph.tensors if t.producer >= layers]
    assert sum(t.nbytes.per_sample for t in backward) == sum(sizes[source] for source, _ in edges)
    assert len({t.sum_group for t in backward} - {None}) == sum(
        sum(source == node for source, _ in edges) > 1 for node in read
    )


@pytest.mark.parametrize("name", PROFILES)
def test_a_layer_shares_its_device_with_its_backward_and_with_nothing_else(name: str) -> None:
    layers = LAYERS[name]
    assert sorted(map(tuple, together(workload(name).graph))) == [(i, layers + i) for i in range(layers)]


def seconds(name: str) -> dict[int, float]:
    """Of every operator."""
    table = workload(name).compute
    assert table is not None
    return dict(enumerate(table.seconds["accelerator"][:, 0]))


@pytest.mark.parametrize("name", PROFILES)
def test_a_pass_is_planned_and_its_plan_is_valid(name: str, command: Command, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    ran = command(
        "plan", FOLDER / f"{name}.txt", "--objective", "makespan", "--devices", DEVICES, "--planner", PLANNER, "--json",
        "-o", saved,
    )  # fmt: skip
    assert (ran.status, ran.json["status"]) == (0, "FEASIBLE")
    busy = seconds(name)
    order: nx.DiGraph = nx.DiGraph()
    order.add_nodes_from(busy)
    graph = workload(name).graph
    order.add_edges_from((i, j, {"weight": busy[i]}) for i in busy for j in graph.successors[i])
    path = nx.dag_longest_path(order)
    longest = sum(busy[operator] for operator in path)
    assert max(longest, sum(busy.values()) / DEVICES) <= ran.json["bound_s"] * (1 + 1e-9) <= ran.json["objective_s"]
    placement = ran.json["placement"]
    assert {operator.name for operator in graph.operators if operator.forward_of is None} <= placement.keys()
    assert set(placement.values()) <= set(range(DEVICES))
    checked = command("check", saved)
    assert checked.status == 0
    assert "valid" in checked.out
