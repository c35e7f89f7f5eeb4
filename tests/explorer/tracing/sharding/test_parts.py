"""Parts of a model that are divided over groups of different sizes: computed, stated, checked, laid out, planned."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch

import explorer
from explorer.question.models.part_degrees import PartDegrees
from explorer.question.nodes.groups import in_groups
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import Part, members_of
from explorer.tracing.sharding.rules import analyse
from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import cluster_json, read_cluster
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import graph_json, read_op_graph
from solvers.problem.cluster import Cluster, Device, uniform_cluster
from solvers.problem.collectives import COLLECTIVE, REGROUP
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable
from solvers.verify.division import division
from tests.explorer.tracing.sharding.captures import demo
from tests.explorer.tracing.sharding.members import any_labels, random_value, run_parts, run_whole

MODELS = ("gpt-small", "llama-small", "bert-small", "multimodal-small", "resnet50-small")
REGROUPS = f"{COLLECTIVE}{REGROUP}"


def by_chance(name: str, seed: int) -> tuple[dict[int, Part], dict[int, int]]:
    """Labels by chance at degrees 1, 2 and 4, and which modules have which; readers of one parameter have one."""
    small, large = demo(name)
    chance, known = random.Random(seed), analyse(small)
    parts = {}
    for degree in (1, 2, 4):
        choices = Choices(known, large, degree, whole_weights=True)
        labels = any_labels(choices, chance)
        if degree == 1:
            labels = {at: options[0] for at, options in choices.options.items()}
        parts[degree] = Part(choices, labels)
    first = parts[1].choices
    tied = {}
    degree_of, by_module = {}, {}
    for at in first.options:
        node = small.nodes[at]
        degree = by_module.setdefault(node.module_path, chance.choice((1, 2, 4)))
        for _, value in node.tensors:
            if first.source(value) in small.parameters:
                degree = tied.setdefault(first.source(value), degree)
        degree_of[at] = degree
    used = set(degree_of.values())
    return {degree: part for degree, part in parts.items() if degree in used}, degree_of


def divided(name: str, seed: int) -> OpGraph:
    parts, degree_of = by_chance(name, seed)
    both = [members_of(parts, degree_of, of) for of in demo(name)]
    return build(*both, reference="m", training=True, tensor_parallel=4).graph


def given_of(small: Captured) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    names = (*small.parameters, *small.buffers, *small.inputs)
    return {name: random_value(small.values[name], 2) * (0.1 if name in small.parameters else 1) for name in names}


@pytest.mark.first(8)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_members_of_all_groups_compute_the_loss_of_the_whole_model(name: str, seed: int) -> None:
    small, _ = demo(name)
    parts, degree_of = by_chance(name, seed)
    part = members_of(parts, degree_of, small)
    assert any(node.target == REGROUPS for node in part.nodes)
    given = given_of(small)
    whole = run_whole(small, given)[small.outputs[0]]
    last = part.whole[part.outputs[0]].members
    for values in run_parts(parts, degree_of, part, given)[last]:
        torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


def test_receivers_that_get_the_first_ones_share_are_noticed() -> None:
    small, _ = demo("gpt-small")
    parts, degree_of = by_chance("gpt-small", 1)
    part = members_of(parts, degree_of, small)
    given = given_of(small)
    whole = run_whole(small, given)[small.outputs[0]]
    shared = [n.name for n in part.nodes if n.target == REGROUPS and part.whole[n.outputs[0]].placement != "R"]
    assert shared
    for name in shared:
        values = run_parts(parts, degree_of, part, given, name)[part.whole[part.outputs[0]].members][0]
        assert not torch.allclose(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8), name


@pytest.mark.first(2)
@pytest.mark.parametrize("name", MODELS)
def test_the_graph_keeps_the_rules_and_comes_back_from_its_file(name: str) -> None:
    for seed in range(4):
        graph = divided(name, seed)
        assert division(graph) == ()
        again = read_op_graph(Field(json.loads(json.dumps(graph_json(graph))), "graph"))
        assert (again, again.division) == (graph, graph.division)
        assert again.degrees == graph.degrees


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_planted_faults_of_regrouping_are_refused(seed: int) -> None:
    planted = refused = 0
    graph = divided("multimodal-small", seed)
    assert graph.division is not None
    for at, operator in enumerate(graph.operators):
        if operator.op_type != REGROUPS:
            continue
        wrong = [replace(operator, exchange_steps=operator.exchange_steps + 1)]
        if operator.exchange_steps:
            wrong.append(replace(operator, exchanged_bytes=operator.exchanged_bytes + operator.exchanged_bytes))
        for one in wrong:
            planted += 1
            refused += bool(
                division(replace(graph, operators=(*graph.operators[:at], one, *graph.operators[at + 1 :])))
            )
    for at, call in enumerate(graph.division.calls):
        if call.target != REGROUPS:
            continue
        for members in {1, 2, 4} - {call.members}:
            calls = list(graph.division.calls)
            calls[at] = replace(call, members=members)
            planted += 1
            refused += bool(division(replace(graph, division=replace(graph.division, calls=tuple(calls)))))
        for number in (*call.inputs, *call.outputs):
            tensors = list(graph.division.tensors)
            for members in {1, 2, 4, 8} - {tensors[number].members}:
                tensors[number] = replace(tensors[number], members=members)
                planted += 1
                stated = replace(graph.division, tensors=tuple(tensors))
                refused += bool(division(replace(graph, division=stated)))
    print(f"{refused} of {planted} refused")
    assert planted > 20
    assert refused == planted


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu()).sum()


def test_a_parameter_has_one_degree() -> None:
    with pytest.raises(InvalidProblem, match="give them one degree"):
        explorer.trace(Tied(), (torch.zeros(4, 8),), tensor_parallel_of="last:2")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("blocks.0:0", "from 1 to"),
        ("blocks", "such as vision:2"),
        ("blocks.3-1:2", "before the last"),
        ("a:2+", "such as"),
        ("+".join(["a:1"] * 65), "1 to 64 parts"),
        ("x" * 3000, "parts"),
    ],
)
def test_parts_that_are_none_are_refused(written: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        PartDegrees.parse(written)


def test_the_last_that_says_something_of_a_module_counts() -> None:
    parts = PartDegrees.parse("blocks:2+blocks.1-2:4+blocks.2.attn:8")
    assert [parts.of(f"blocks.{i}.attn", 1) for i in range(4)] == [2, 4, 8, 2]
    assert parts.of("blocksize", 1) == 1
    assert PartDegrees.parse(str(parts)) == parts
    with pytest.raises(InvalidProblem, match=r"did you mean 'blocks\.1'"):
        PartDegrees.parse("block.1:2").check({"blocks.1.attn"})


def layout(count: int, work: tuple[float, float], nodes: int = 8, kinds: int = 1) -> Cluster:
    """Groups of 4 and of 2 that run so many seconds of a chain's two operators."""
    from solvers.problem.graph import Operator, Tensor

    graph = OpGraph((Operator("a", members=4), Operator("b", members=2)), (Tensor(0, (1,)),), tensor_parallel=4)
    devices = [Device(f"G{i}", "k" if kinds == 1 or i < nodes else "slow", 1e9, node=i // nodes) for i in range(count)]
    seconds = {kind: ComputeTable((1,), {kind: _column(work)}).seconds[kind] for kind in {d.kind for d in devices}}
    return in_groups(uniform_cluster(devices, 1e9), graph, ComputeTable((1,), seconds), "m")[0]


def _column(work: tuple[float, float]) -> object:
    import numpy as np

    return np.array([[work[0]], [work[1]]])


def test_groups_of_each_size_are_as_many_as_share_the_work_evenly() -> None:
    assert [device.members for device in layout(8, (1.0, 1.0)).devices] == [4, 2, 2]
    assert [device.members for device in layout(16, (3.0, 1.0)).devices] == [4, 4, 4, 2, 2]
    assert [device.members for device in layout(16, (1.0, 6.0)).devices] == [4, 2, 2, 2, 2, 2, 2]
    cluster = layout(8, (1.0, 1.0))
    assert [device.name for device in cluster.devices] == ["GPU 0-3", "GPU 4-5", "GPU 6-7"]
    assert [device.kind for device in cluster.devices] == ["k x4", "k x2", "k x2"]
    assert read_cluster(Field(json.loads(json.dumps(cluster_json(cluster))), "cluster")) == cluster


def test_devices_that_make_no_such_groups_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="make no groups of 4 and 2 that leave none over"):
        layout(4, (1.0, 1.0))
    with pytest.raises(InvalidProblem, match="each in one node"):
        layout(6, (1.0, 1.0), nodes=3)


def test_heads_that_share_keys_are_divided_by_their_keys() -> None:
    with pytest.raises(InvalidProblem, match=r"the 4 heads \(2 of keys\) of .* cannot be divided over 4 devices"):
        explorer.trace("llama-small", tensor_parallel=4)


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x))


def test_one_degree_by_parts_is_that_degree() -> None:
    x = (torch.zeros(4, 8),)
    graph = explorer.trace(Pair(), x, tensor_parallel_of="up:2+down:2").graph
    assert graph.tensor_parallel == 2
    assert graph == explorer.trace(Pair(), x, tensor_parallel=2).graph
