"""Tokens divided over a group: what attention sends round a ring or by heads, which is cheaper, what it computes."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.question.nodes.groups import with_exchanges
from explorer.question.nodes.wired import unmeasured
from explorer.tracing.build import build
from explorer.tracing.captured import Captured, Exchange
from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.divide import Divided, Group
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import GroupLink, Prices, cheapest, cost_s
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.ways import HEADS, QUERIES, RING, attention_calls, only, way_of
from explorer.view.timeline.exchanges import exchange_of
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Link, uniform_cluster
from solvers.problem.collectives import ATTENTION, WHOLE, Axis, exchange_kind
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import ComputeTable, Problem
from solvers.verify.division import division
from tests.explorer.tracing.sharding.captures import captured, demo
from tests.explorer.tracing.sharding.members import note_divided, random_value, run_members, run_whole
from tests.explorer.tracing.sharding.test_division import Parts, faults, graph_of
from tests.explorer.tracing.sharding.test_groups import GPUS
from tests.explorer.tracing.sharding.test_program import (
    HEADS as QUERY_HEADS,
)
from tests.explorer.tracing.sharding.test_program import (
    ITEM,
    LINK,
    SAMPLES,
    TOKENS,
    WIDTH,
    Block,
    Stack,
    all_labels,
    captured_twice,
    seconds,
)

HEAD = WIDTH // QUERY_HEADS


class Fused(nn.Module):
    """Attention whose queries, keys and values are one product, as GPT's."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.qkv, self.o, self.causal = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, QUERY_HEADS, HEAD)).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.o(a.transpose(1, 2).flatten(-2))


class Cross(nn.Module):
    """Tokens that attend to half as many others."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (f(z).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f, z in ((self.q, x), (self.k, y), (self.v, y)))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2).square().sum()


def choices_of(module: nn.Module, degree: int) -> tuple[Choices, Captured]:
    small, large = captured_twice(module)
    return Choices(analyse(small), large, degree, axis=Axis.CONTEXT), large


def sent(module: nn.Module, degree: int, name: str) -> dict[Phase, float]:
    """Bytes that a member sends for a micro-batch of the traced size with all attention divided one way, by phase."""
    choices, large = choices_of(module, degree)
    prices = Prices(seconds_of(choices, large, seconds, True), LINK, 1, True)
    labels = cheapest(choices, prices, held=only(choices, name)).labels
    assert {way_of(choices, labels[at]) for at in attention_calls(choices)} == {name}
    graph = build(
        member_of(choices, labels, choices.captured), member_of(choices, labels, large), reference="m", training=True,
        tensor_parallel=degree,
    ).graph  # fmt: skip
    assert division(graph) == ()
    nbytes = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT, Phase.UPDATE), 0.0)
    for one in graph.operators:
        nbytes[one.phase] += one.exchanged_bytes.at(SAMPLES)
    return nbytes


BLOCKS = {
    "gpt": (Fused, QUERY_HEADS),
    "bert": (partial(Fused, causal=False), QUERY_HEADS),
    "llama": (partial(Block, norm=nn.RMSNorm), QUERY_HEADS),
    "llama, 2 heads of keys": (partial(Block, kv_heads=2, norm=nn.RMSNorm), 2),
    "llama, 4 heads of keys": (partial(Block, kv_heads=4, norm=nn.RMSNorm), 4),
}


@pytest.mark.first(5)
@pytest.mark.parametrize("name", [RING, HEADS])
@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_sends_what_the_closed_form_says(kind: str, degree: int, name: str) -> None:
    """Round a ring 2 b (s/c) h_kv d e (c-1) forward and twice that backward (Liu et al., 2023), by heads (2h + 2h_kv)
    b (s/c) d e (c-1)/c each way (Jacobs et al., 2023), to the byte."""
    make, key_heads = BLOCKS[kind]
    if name == HEADS and key_heads % degree:
        pytest.skip("heads of keys that the degree does not divide")
    two, three = (sent(Stack([make() for _ in range(count)]), degree, name) for count in (2, 3))
    share = SAMPLES * TOKENS // degree * HEAD * ITEM * (degree - 1)
    forward = 2 * key_heads * share if name == RING else (2 * QUERY_HEADS + 2 * key_heads) * share // degree
    assert three[Phase.FORWARD] - two[Phase.FORWARD] == forward
    assert three[Phase.BACKWARD_INPUT] - two[Phase.BACKWARD_INPUT] == forward * (2 if name == RING else 1)
    assert three[Phase.BACKWARD_WEIGHT] == 0


def _divided(module: nn.Module, degree: int, link: GroupLink = LINK) -> Divided:
    return Group(degree, seconds, "a device", link, axis=Axis.CONTEXT).divide(*captured_twice(module), training=True)


def _notes(divided: Divided) -> str:
    return " | ".join(divided.small.notes)


def test_every_call_that_has_tokens_is_divided_along_them() -> None:
    divided = _divided(Stack([Block(kv_heads=2)]), 2)
    for at, option in divided.division.labels.items():
        by_heads = way_of(divided.choices, option) == HEADS and at in divided.choices._by_heads
        assert option.leaf in divided.choices.tokens or by_heads
    for name in divided.small.parameters:
        assert divided.small.values[name].shape == divided.choices.captured.values[name].shape


@pytest.mark.parametrize("link", [LINK, GroupLink(1e9, 1e-7), GroupLink(1e13, 1e-9)])
@pytest.mark.parametrize("module", [Fused, partial(Block, kv_heads=2)])
def test_no_labels_are_cheaper(module: type[nn.Module], link: GroupLink) -> None:
    choices, large = choices_of(Stack([module()]), 2)
    prices = Prices(seconds_of(choices, large, seconds, True), link, 4, True)
    every = [(cost_s(choices, prices, labels), labels) for labels in all_labels(choices)]
    assert len(every) > 1
    best = cheapest(choices, prices)
    assert best.cost_s == pytest.approx(min(cost for cost, _ in every), rel=1e-6)
    at = next(iter(attention_calls(choices)))
    for name in (RING, HEADS):
        best = min(cost for cost, labels in every if way_of(choices, labels[at]) == name)
        assert cheapest(choices, prices, held=only(choices, name)).cost_s == pytest.approx(best, rel=1e-6)


def test_both_ways_are_priced_and_the_cheaper_one_is_taken() -> None:
    """Few heads of keys are cheap to send round; many are not."""
    assert "attention is divided round a ring; a micro-batch of 2" in _notes(_divided(Stack([Block(kv_heads=2)]), 2))
    notes = _notes(_divided(Stack([Block()]), 4))
    assert "attention is divided by heads (Ulysses)" in notes
    assert "with all of it round a ring and" in notes
    assert "zigzag" not in notes


def test_a_way_that_is_impossible_says_why() -> None:
    notes = _notes(_divided(Stack([Block(kv_heads=2)]), 16))
    assert "by heads (Ulysses) is impossible: 2 heads of keys cannot be divided over 16" in notes
    assert "before they are repeated" in notes
    assert "1.94 times the even share" in notes
    for degree, words in ((3, "samples have 16 tokens"), (32, "samples have 16 tokens")):
        with pytest.raises(InvalidProblem, match=words):
            _divided(Stack([Block()]), degree)


@pytest.mark.parametrize(("degree", "causal", "times"), [(4, True, 4), (16, True, 31), (16, False, 16), (8, True, 8)])
def test_a_causal_mask_leaves_all_as_much_where_tokens_make_twice_as_many_chunks(
    degree: int, causal: bool, times: int
) -> None:
    """Else the last member has (2c-1)/c times the even share, which is what all wait for."""
    divided = _divided(Stack([Fused(causal)]), degree, GroupLink(1e15, 0.0))
    choices, large = choices_of(Stack([Fused(causal)]), degree)
    labels = dict(divided.division.labels)
    (at,) = attention_calls(choices)
    labels[at] = next(option for option in choices.options[at] if option.ring)
    parts = (member_of(choices, labels, choices.captured), member_of(choices, labels, large))
    graph = graph_of(parts, degree)
    (forward,) = (one for one in graph.operators if one.op_type == ATTENTION and one.phase is Phase.FORWARD)
    assert forward.causal is causal
    each = 2 * SAMPLES * QUERY_HEADS * (TOKENS // degree) ** 2 * 2 * HEAD
    assert forward.flops.at(SAMPLES) == times * each
    assert division(graph) == ()


def test_one_sample_has_tokens_too() -> None:
    small, large = captured(Stack([Block()]), (torch.zeros(1, TOKENS, WIDTH),))
    divided = Group(2, seconds, "a device", LINK, axis=Axis.CONTEXT).divide(small, large, training=True)
    assert any(option.leaf in divided.choices.tokens for option in divided.division.labels.values())


MODELS = ("gpt-small", "llama-small", "bert-small", "transformer-small", "moe-small")


def by_chance(name: str, seed: int) -> tuple[Choices, dict[int, Option]]:
    small, large = demo(name)
    choices, chance = Choices(analyse(small), large, 2, axis=Axis.CONTEXT), random.Random(seed)
    return choices, {at: chance.choice(options) for at, options in choices.options.items()}


def parts_of(name: str, seed: int) -> Parts:
    small, large = demo(name)
    choices, labels = by_chance(name, seed)
    return member_of(choices, labels, small), member_of(choices, labels, large)


@pytest.mark.first(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_members_compute_the_loss_of_the_whole_model(name: str, seed: int) -> None:
    small, _ = demo(name)
    choices, labels = by_chance(name, seed)
    part = member_of(choices, labels, small)
    torch.manual_seed(1)
    names = (*small.parameters, *small.buffers, *small.inputs)
    given = {each: random_value(small.values[each], 2) * (0.1 if each in small.parameters else 1) for each in names}
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(choices, labels)
    for values in run_members(choices, labels, part, given):
        torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_whatever_labels_a_model_has_its_graph_keeps_the_rules(name: str) -> None:
    for seed in range(3):
        assert division(graph_of(parts_of(name, seed))) == ()


def ring_of(parts: Parts) -> int:
    """The position of a call whose keys go round."""
    return next(at for at, node in enumerate(parts[0].nodes) if node.target == ATTENTION and node.rounds > 1)


def with_a_ring(name: str) -> Parts:
    small, large = demo(name)
    choices = Choices(analyse(small), large, 4, axis=Axis.CONTEXT)
    labels = {at: next((o for o in options if o.ring), options[0]) for at, options in choices.options.items()}
    return member_of(choices, labels, small), member_of(choices, labels, large)


@pytest.mark.parametrize(
    "wrong",
    [
        {"forward_bytes": 0.5}, {"backward_bytes": 0.5}, {"backward_bytes": 2.0}, {"forward_steps": 2 / 3},
        {"backward_steps": 5 / 6}, {"forward_bytes": 0.0, "forward_steps": 0.0},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["gpt-small", "llama-small"])
def test_a_ring_that_sends_otherwise_is_refused(name: str, wrong: dict[str, float]) -> None:
    parts = with_a_ring(name)
    assert division(graph_of(parts, 4)) == ()

    def spoil(one: Exchange) -> Exchange:
        return replace(one, **{key: type(getattr(one, key))(getattr(one, key) * by) for key, by in wrong.items()})

    small, large = (
        replace(part, nodes=tuple(replace(n, exchange=spoil(n.exchange)) if i == ring_of(parts) else n
                                  for i, n in enumerate(part.nodes)))
        for part in parts
    )  # fmt: skip
    assert any("scaled_dot_product" in line for line in division(graph_of((small, large), 4)))


@pytest.mark.parametrize("argument", [0, 1, 2])
@pytest.mark.parametrize("placement", [WHOLE, "S(1)", "S(3)", "S(2,2)"])
def test_keys_that_lie_otherwise_than_queries_are_refused(argument: int, placement: str) -> None:
    graph = graph_of(with_a_ring("llama-small"), 4)
    stated = graph.division
    assert stated is not None
    call = next(one for one in stated.calls if one.target == ATTENTION)
    tensors = list(stated.tensors)
    tensors[call.inputs[argument]] = replace(tensors[call.inputs[argument]], placement=placement)
    assert division(replace(graph, division=replace(stated, tensors=tuple(tensors))))


def test_a_ring_that_computes_one_round_is_refused() -> None:
    parts = with_a_ring("gpt-small")
    small, large = (
        replace(part, nodes=tuple(replace(node, rounds=1) if i == ring_of(parts) else node
                                  for i, node in enumerate(part.nodes)))
        for part in parts
    )  # fmt: skip
    assert any("computes" in line for line in division(graph_of((small, large), 4)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-small", pytest.param("llama-small", marks=pytest.mark.slow)])
def test_planted_faults_are_refused(name: str) -> None:
    for kind, graphs in faults(parts_of(name, 1), random.Random(1)).items():
        refused = [bool(division(graph)) for graph in graphs]
        print(f"{name} {kind}: {sum(refused)} of {len(refused)}")
        assert refused, kind
        assert sum(refused) >= 0.99 * len(refused), kind


def test_queries_may_be_divided_alone_where_keys_are_of_other_tokens() -> None:
    small, large = captured(Cross(), (torch.zeros(2, 8, WIDTH), torch.zeros(2, 4, WIDTH)))
    choices = Choices(analyse(small), large, 2, axis=Axis.CONTEXT)
    (at,) = attention_calls(choices)
    assert {way_of(choices, option) for option in choices.options[at]} == {QUERIES, HEADS}
    option = next(each for each in choices.options[at] if way_of(choices, each) == QUERIES)
    labels = {other: options[0] for other, options in choices.options.items()} | {at: option}
    part = member_of(choices, labels, small)
    assert division(graph_of((part, member_of(choices, labels, large)))) == ()
    given = {name: random_value(small.values[name], 2) for name in (*small.parameters, *small.inputs)}
    whole = run_whole(small, given)[small.outputs[0]]
    note_divided(choices, labels)
    for values in run_members(choices, labels, part, given):
        torch.testing.assert_close(values[part.outputs[0]], whole, rtol=1e-8, atol=1e-8)
    divided = Group(2, seconds, "a device", LINK, axis=Axis.CONTEXT).divide(small, large, training=True)
    assert "round a ring is impossible: 8 tokens attend to 4 others" in _notes(divided)


def test_tensors_that_are_divided_know_nothing_of_rings() -> None:
    small, large = demo("gpt-small")
    choices = Choices(analyse(small), large, 2, whole_weights=True)
    for at in attention_calls(choices):
        assert not any(option.ring or option.leaf in choices.tokens for option in choices.options[at])


def ring_graph() -> OpGraph:
    return graph_of(with_a_ring("gpt-small"), 4)


def test_a_ring_takes_messages_from_one_to_the_next() -> None:
    """Twice as many in the backward as in the forward, which are as many as an all-reduce has, and are none."""
    graph = ring_graph()
    table = ComputeTable((1, 2), {"H100-80GB": np.zeros((len(graph), 2))})

    def lines(kind: str, operation: str, devices: int) -> Link | None:
        return Link(0, 1, {"all_reduce": 1e6, "reduce_scatter": 1e9}[operation], 0.0)

    link = Link(0, 1, 1e9, 1e-6)
    plain, seconds = (
        with_exchanges(table, graph, link, measured=each).seconds["H100-80GB"] for each in (unmeasured, lines)
    )
    rings = [at for at, one in enumerate(graph.operators) if one.op_type == ATTENTION]
    assert {graph.operators[at].exchange_steps for at in rings} == {3, 6}
    for at in rings:
        nbytes = graph.operators[at].exchanged_bytes.at(2)
        assert plain[at, 1] == pytest.approx(graph.operators[at].exchange_steps * 1e-6 + nbytes / 1e9)
        assert seconds[at, 1] == pytest.approx(nbytes / 1e9)
        assert exchange_kind(graph.operators[at]) == "ring"
        problem = Problem(
            graph, uniform_cluster(GPUS[:1], 1e9), table, group_link=link, group_sum_link=Link(0, 1, 1.0, 1.0)
        )
        assert exchange_of(problem, graph.operators[at], 2).seconds == pytest.approx(plain[at, 1])
