"""The program finds the cheapest way to divide a model, and what it exchanges is what the literature counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import PARTIAL, SHARED, WHOLE, Choices, Option
from explorer.tracing.sharding.divide import Divided, Group
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import GroupLink, Labels, Prices, cheapest, cost_s
from explorer.tracing.sharding.rules import analyse
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph, Phase
from tests.explorer.tracing.sharding.captures import captured

LINK = GroupLink(1.35e11, 0.0)
"""As fast beside the memory of `seconds` as NVLink 4 is beside an H100's."""
SAMPLES, TOKENS, WIDTH, HEADS, KV_HEADS = 2, 16, 32, 8, 8
ITEM = 4


def seconds(graph: OpGraph) -> Floats:
    """A device of 300 TFLOP/s and 1 TB/s without launches."""
    amounts = [(o.flops.at(graph.samples), o.moved_bytes.at(graph.samples)) for o in graph.operators]
    return np.array([flops / 300e12 + moved / 1e12 for flops, moved in amounts])


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64, bias=False), nn.Linear(64, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x))).sum()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return (torch.softmax(self.one(x), -1) + self.two(x)).sum()


class Block(nn.Module):
    """A transformer block; kv_heads: heads of keys and values."""

    def __init__(self, kv_heads: int = HEADS, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.kv_heads, each = kv_heads, WIDTH // HEADS
        self.norm1, self.norm2 = norm(WIDTH), norm(WIDTH)
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, kv_heads * each), nn.Linear(WIDTH, kv_heads * each)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = (each.repeat_interleave(HEADS // self.kv_heads, dim=1) for each in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x.sum()


def captured_twice(module: nn.Module) -> tuple[Captured, Captured]:
    return captured(module, (torch.zeros(SAMPLES, TOKENS, WIDTH),))


def all_labels(choices: Choices) -> Iterator[Labels]:
    """Every labelling in which readers of one parameter divide it alike."""
    calls = list(choices.options)
    for chosen in product(*choices.options.values()):
        yield dict(zip(calls, chosen, strict=True))


@pytest.mark.parametrize("module", [Two, Residual])
@pytest.mark.parametrize("link", [LINK, GroupLink(1e9, 1e-7), GroupLink(1e11, 1e-8)])
@pytest.mark.parametrize("whole_weights", [False, True])
def test_no_labels_are_cheaper(module: type[nn.Module], link: GroupLink, whole_weights: bool) -> None:
    small, large = captured_twice(module())
    choices = Choices(analyse(small), large, 2, whole_weights=whole_weights)
    prices = Prices(seconds_of(choices, large, seconds, True), link, 4, True)
    best = min(cost_s(choices, prices, labels) for labels in all_labels(choices))
    best_division = cheapest(choices, prices)
    assert best_division.cost_s == pytest.approx(best, rel=1e-6)
    assert best_division.bound_s == pytest.approx(best, rel=1e-5)
    assert best_division.bound_s <= best_division.cost_s


def _divided(blocks: list[nn.Module], degree: int, sequence: bool) -> Divided:
    group = Group(degree, seconds, "a device", LINK, sequence)
    return group.divide(*captured_twice(Stack(blocks)), training=True)


def _labels(divided: Divided, path: str) -> list[Option]:
    captured = divided.choices.captured
    return [option for at, option in divided.division.labels.items() if captured.nodes[at].module_path == path]


def _sent(divided: Divided, degree: int) -> float:
    """Bytes that a member sends for a micro-batch of the traced size, forward and backward."""
    graph = build(divided.small, divided.large, reference="m", training=True, tensor_parallel=degree).graph
    return sum(o.exchanged_bytes.at(SAMPLES) for o in graph.operators if o.phase is not Phase.UPDATE)


def test_a_transformer_block_is_divided_as_megatron_divides_it() -> None:
    """Columns, then rows, twice, tokens in between (Korthikanti et al., 2022, figure 5)."""
    divided = _divided([Block(), Block()], 2, sequence=True)
    for block in ("blocks.0", "blocks.1"):
        column = [_labels(divided, f"{block}.{name}")[0] for name in ("q", "k", "v", "up")]
        row = [_labels(divided, f"{block}.{name}")[0] for name in ("o", "down")]
        assert all(option.inputs[0] == SHARED and option.outputs[0] >= 0 for option in column)
        assert all(option.outputs[0] == PARTIAL for option in row)
        tokens = {option.leaf for name in ("norm1", "norm2") for option in _labels(divided, f"{block}.{name}")}
        assert len(tokens) == 1
        assert WHOLE not in tokens


@pytest.mark.first(3)
@pytest.mark.parametrize("sequence", [True, False])
@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize("kind", ["gpt", "llama", "bert"])
def test_a_block_sends_what_the_closed_form_says(kind: str, degree: int, sequence: bool) -> None:
    """8 (t-1)/t of the bytes of a layer's activation, to the byte: two all-reduces each way, or as many gathers and
    scatters (Shoeybi et al., 2019; Korthikanti et al., 2022)."""

    def block() -> nn.Module:
        return Block(norm=nn.RMSNorm if kind == "llama" else nn.LayerNorm)

    two = _sent(_divided([block(), block()], degree, sequence), degree)
    three = _sent(_divided([block(), block(), block()], degree, sequence), degree)
    activation = SAMPLES * TOKENS * WIDTH * ITEM
    assert three - two == 8 * (degree - 1) / degree * activation


def test_grouped_queries_are_divided_by_heads_of_keys() -> None:
    divided = _divided([Block(kv_heads=2)], 2, sequence=True)
    attention = next(o for at, o in divided.division.labels.items()
                     if "scaled_dot" in divided.choices.captured.nodes[at].target)  # fmt: skip
    assert divided.choices.known.dimensions.lengths[attention.leaf] == 2


def test_a_member_holds_its_share_of_matrices() -> None:
    divided = _divided([Block()], 4, sequence=True)
    part = build(divided.small, divided.large, reference="m", training=True, tensor_parallel=4).graph
    whole = build(*captured_twice(Stack([Block()])), reference="m", training=True).graph
    matrices, vectors = 13 * WIDTH * WIDTH * ITEM, 2 * 2 * WIDTH * ITEM
    rest = sum(o.param_bytes for o in whole.operators) - matrices - vectors
    held = sum(o.param_bytes for o in part.operators)
    assert matrices / 4 + vectors <= held <= matrices / 4 + vectors + rest
    assert part.tensor_parallel == 4


def test_what_nothing_divides_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="nothing can be divided over 7 devices"):
        _divided([Block()], 7, sequence=True)
