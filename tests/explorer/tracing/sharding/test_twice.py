"""Models divided along two axes: every member computes its part, exchanges what it must, and faults are noticed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from explorer.question.loading import load
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import WHOLE, Choices
from explorer.tracing.sharding.local import Part, member_of
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import Prices, cheapest
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import graph_hash, graph_json, read_op_graph
from solvers.problem.collectives import (
    ATTENTION,
    Axis,
    DividedTensor,
    Division,
    axes_of,
    is_outer,
    redundant_experts,
)
from solvers.problem.graph import Amount, Operator, OpGraph, Phase
from solvers.verify.division import division
from tests.explorer.runner.engine.divided_plans import both
from tests.explorer.tracing.sharding.captures import demo
from tests.explorer.tracing.sharding.members import any_labels, note_divided, random_value, run_twice, run_whole
from tests.explorer.tracing.sharding.test_experts import mixture
from tests.explorer.tracing.sharding.test_program import LINK, seconds

MODELS = ("gpt-small", "llama-small", "bert-small")


def divided(name: str, seed: int, axis: Axis = Axis.CONTEXT) -> tuple[Part, Part, tuple[Captured, Captured]]:
    """A demo divided by chance over 2 inner groups of 2: how, and what a member runs at both batches."""
    small, large = demo(name)
    chance = random.Random(seed)
    choices = Choices(analyse(small), large, 2, axis=axis, again=2)
    outer = Part(choices, any_labels(choices, chance))
    one, other = (to_divide_again(member_of(choices, outer.labels, each), 2) for each in (small, large))
    again = Choices(analyse(one), other, 2, whole_weights=seed % 2 == 0)
    inner = Part(again, any_labels(again, chance))
    return outer, inner, (member_of(again, inner.labels, one), member_of(again, inner.labels, other))


def graph_of(parts: tuple[Captured, Captured]) -> OpGraph:
    return build(*parts, reference="m", training=True, tensor_parallel=4).graph


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_members_of_inner_groups_compute_the_loss_of_the_whole_model(name: str, seed: int) -> None:
    outer, inner, (part, _) = divided(name, seed)
    assert any(is_outer(node.target) for node in part.nodes)
    small = demo(name)[0]
    torch.manual_seed(1)
    names = (*small.parameters, *small.buffers, *small.inputs)
    given = {name: random_value(small.values[name], 2) * (0.1 if name in small.parameters else 1) for name in names}
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(inner.choices, inner.labels)
    for members in run_twice(outer, inner, part, given):
        for values in members:
            torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("axis", [Axis.CONTEXT, Axis.EXPERT])
@pytest.mark.parametrize("name", [*MODELS, "moe-small"])
def test_whatever_both_divisions_are_the_graph_keeps_the_rules_and_comes_back(name: str, axis: Axis) -> None:
    for seed in range(2):
        graph = graph_of(divided(name, seed, axis)[2])
        assert division(graph) == ()
        assert axes_of(graph) == {axis: 2, Axis.TENSOR: 2}
        assert graph.sample_step == (2 if axis is Axis.EXPERT else 1)
    again = read_op_graph(Field(json.loads(json.dumps(graph_json(graph))), "graph"))
    assert (again.division, again.outer_degree) == (graph.division, 2)
    assert graph_hash(again) == graph_hash(graph)


GPT = "tests.explorer.runner.model.mixtures:gpt"


def tokens_and_experts(seed: int, load: float, redundant: int) -> tuple[Part, Part, tuple[Captured, Captured]]:
    """A mixture whose tokens are divided among 2 inner groups, in the cheapest way, and samples and experts over the 2
    members of each by chance."""
    small, large = both(GPT)
    choices = Choices(analyse(small), large, 2, axis=Axis.CONTEXT)
    priced = seconds_of(choices, large, seconds, training=True)
    outer = Part(choices, cheapest(choices, Prices(priced, LINK, 1, trains=True)).labels)
    one, other = (to_divide_again(member_of(choices, outer.labels, each), 2) for each in (small, large))
    again = Choices(analyse(one), other, 2, axis=Axis.EXPERT, load=load, redundant=redundant)
    inner = Part(again, any_labels(again, random.Random(seed)))
    return outer, inner, (member_of(again, inner.labels, one), member_of(again, inner.labels, other))


@pytest.mark.parametrize(("load", "redundant"), [(1.0, 0), (1.25, 0), (1.25, 2)])
@pytest.mark.parametrize("seed", range(2))
def test_members_with_tokens_and_experts_compute_the_loss_of_the_whole_model(
    seed: int, load: float, redundant: int
) -> None:
    outer, inner, parts = tokens_and_experts(seed, load, redundant)
    part, small = parts[0], both(GPT)[0]
    targets = {node.target for node in part.nodes}
    assert {"collective.context.all_reduce", "collective.all_to_all"} <= targets
    torch.manual_seed(1)
    names = (*small.parameters, *small.inputs)
    given = {name: random_value(small.values[name], 32) for name in names}
    given = {name: value - 1.0 if name in small.parameters else value for name, value in given.items()}
    given |= {name: torch.zeros(small.values[name].shape, dtype=torch.float64) for name in small.buffers}
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(inner.choices, inner.labels)
    for members in run_twice(outer, inner, part, given):
        for values in members:
            torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-12, atol=1e-12)
    graph = graph_of(parts)
    assert division(graph) == ()
    assert axes_of(graph) == {Axis.CONTEXT: 2, Axis.EXPERT: 2}
    assert graph.sample_step == 2
    assert redundant_experts(graph) == redundant


@pytest.mark.parametrize("redundant", [0, 2])
def test_faults_of_tokens_and_experts_are_noticed(redundant: int) -> None:
    graph = graph_of(tokens_and_experts(0, 1.25, redundant)[2])
    assert division(graph) == ()
    planted = random.Random(0).sample(list(faults(graph)), 60)
    assert graph.division is not None
    planted += [
        (f"{redundant} more", replace(graph, division=replace(graph.division, redundant=redundant + 2))),
        ("another load", replace(graph, division=replace(graph.division, load=1.5))),
    ]
    for at, one in enumerate(graph.operators):
        if one.exchange_steps:
            wrong = replace(one, exchanged_bytes=Amount(one.exchanged_bytes.fixed / 2, one.exchanged_bytes.per_sample))
            operators = (*graph.operators[:at], wrong, *graph.operators[at + 1 :])
            planted += [(one.name, replace(graph, operators=operators))] if one.exchanged_bytes.fixed else []
    assert [what for what, wrong in planted if not division(wrong)] == []


def test_tokens_and_experts_share_out_work_as_tokens_do_and_hold_what_experts_do() -> None:
    graphs = [
        load(f"{GPT},{degrees}").graph
        for degrees in ("context-parallel=2,expert-parallel=2", "context-parallel=2", "expert-parallel=2")
    ]
    assert (graphs[0].tensor_parallel, graphs[0].outer_degree) == (4, 2)
    held = [sum(one.param_bytes for one in graph.operators) for graph in graphs]
    assert held[0] == held[2] - 4 * 8 * 16 / 2, "the table of 8 positions is divided with the tokens"
    assert held[0] < held[1]
    flops = [
        sum(one.flops.at(4) for one in graph.operators if "linear" in one.op_type or "grouped" in one.op_type)
        for graph in graphs
    ]
    assert flops[0] == pytest.approx(flops[1] / 2)


@pytest.mark.parametrize("load", [1.0, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_members_of_a_group_with_experts_of_its_own_divide_their_matrices(seed: int, load: float) -> None:
    """Rows that came from other groups are whole at each member: they are in an order of their own."""
    small, large = mixture()
    chance = random.Random(seed)
    choices = Choices(analyse(small), large, 2, axis=Axis.EXPERT, load=load)
    labels = any_labels(choices, chance)
    one, other = (to_divide_again(member_of(choices, labels, each), 2) for each in (small, large))
    again = Choices(analyse(one), other, 2)
    labels = any_labels(again, chance)
    products = [labels[at] for at, node in enumerate(one.nodes) if "grouped_mm" in node.target]
    assert products
    assert all(option.leaf != WHOLE for option in products)
    assert division(graph_of((member_of(again, labels, one), member_of(again, labels, other)))) == ()


def faults(graph: OpGraph) -> Iterator[tuple[str, OpGraph]]:
    """One thing wrong in each."""
    for at, one in enumerate(graph.operators):
        for wrong in _wrong(one) if one.outer_steps else ():
            operators = (*graph.operators[:at], wrong, *graph.operators[at + 1 :])
            yield one.name, replace(graph, operators=operators)
    assert graph.division is not None
    assert graph.division.outer is not None
    stated, outer = graph.division, graph.division.outer
    yield "no outer division", replace(graph, division=replace(stated, outer=None))
    for at, tensor in enumerate(outer.tensors):
        for placement in {"R", "S(0)", "S(1)", "P"} - {tensor.placement, "R" if tensor.placement == "R+" else ""}:
            if tensor.placement.startswith("S") or placement == "P":
                yield f"{tensor.name} {placement}", _placed(graph, stated, at, replace(tensor, placement=placement))
    calls = [replace(one, target="collective.all_gather") if is_outer(one.target) else one for one in stated.calls]
    yield "over the wrong axis", replace(graph, division=replace(stated, calls=tuple(calls)))
    yield "a group more", replace(graph, outer_degree=4)


def _wrong(one: Operator) -> Iterator[Operator]:
    yield replace(one, outer_steps=one.outer_steps + 1)
    yield replace(one, outer_bytes=Amount(one.outer_bytes.fixed / 2, one.outer_bytes.per_sample / 2))
    yield replace(one, outer_steps=0, outer_bytes=Amount(), exchange_steps=one.exchange_steps + one.outer_steps,
                  exchanged_bytes=one.exchanged_bytes + one.outer_bytes)  # fmt: skip


def _placed(graph: OpGraph, stated: Division, at: int, tensor: DividedTensor) -> OpGraph:
    assert stated.outer is not None
    tensors = (*stated.outer.tensors[:at], tensor, *stated.outer.tensors[at + 1 :])
    return replace(graph, division=replace(stated, outer=replace(stated.outer, tensors=tensors)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-small", "moe-small"])
def test_faults_of_the_outer_division_are_noticed(name: str) -> None:
    graph = graph_of(divided(name, 1, Axis.CONTEXT if name == "llama-small" else Axis.EXPERT)[2])
    assert division(graph) == ()
    planted = random.Random(0).sample(list(faults(graph)), 60)
    assert [what for what, wrong in planted if not division(wrong)] == []


def sent(graph: OpGraph, *phases: Phase) -> tuple[float, float]:
    """Bytes along the inner axis and along the outer, of the forward and backward of a micro-batch."""
    each = [one for one in graph.operators if one.phase in phases]
    inner, outer = (sum(amount.at(4) for amount in some) for some in zip(
        *((one.exchanged_bytes, one.outer_bytes) for one in each), strict=True))  # fmt: skip
    return inner, outer


def test_an_axis_sends_what_it_does_alone_by_the_degree_of_the_other() -> None:
    """Of a transformer whose products are divided as Megatron does: tensors of a share of the tokens, and tokens of a
    share of the heads (norms and sums of residuals are of whole rows, which all members have)."""
    model = "gpt-small,sequence=64"
    phases = (Phase.FORWARD, Phase.BACKWARD_INPUT)
    tensor, context, both = (
        load(f"{model},{degrees}").graph
        for degrees in ("tensor-parallel=2", "context-parallel=2", "context-parallel=2,tensor-parallel=2")
    )
    inner, outer = sent(both, *phases)
    attention = [one.op_type for one in both.operators if one.op_type == ATTENTION]
    assert len(attention) > 0
    assert inner == pytest.approx(sent(tensor, *phases)[0] / 2, rel=0.02)
    assert outer == pytest.approx(sent(context, *phases)[0] / 2, rel=0.02)
    flops = [sum(one.flops.at(4) for one in graph.operators) for graph in (tensor, both)]
    assert flops[1] == pytest.approx(flops[0] / 2, rel=0.01)
    held = [sum(one.param_bytes for one in graph.operators) for graph in (tensor, both)]
    assert held[1] == held[0], "tokens are divided, parameters are not"


def test_what_cannot_be_divided_is_stated() -> None:
    for degrees, why in (
        ("context-parallel=2,expert-parallel=2,tensor-parallel=2", "two of tokens, experts and tensors"),
        ("context-parallel=2,tensor-parallel=auto", "leave out --context-parallel"),
        ("tensor-parallel=2,context-parallel=2,tensor-parallel-of=blocks:1", "leave out --context-parallel"),
        ("tensor-parallel=64,context-parallel=2", "cannot be divided over 64"),
    ):
        with pytest.raises(InvalidProblem, match=why):
            load(f"gpt-small,{degrees}")
