"""Attention round a ring against attention in one piece: every member in a thread of one process, mailboxes between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses import FakeTensorMode

from explorer.runner.model.exchanges import ring
from explorer.runner.model.exchanges.blocks import Block, attended, gradients
from explorer.runner.model.exchanges.group import Along, Members, joined, share_of

SAMPLES, HEADS, TOKENS, WIDTH = 2, 4, 16, 8
NEAR = {torch.float64: 1e-14, torch.float32: 3e-6, torch.bfloat16: 3e-2}
Given = tuple[Tensor, Tensor, Tensor]


@dataclass
class Posting(Members):
    boxes: list[Queue[Tensor]] = field(default_factory=list)

    def pass_on(self, tensor: Tensor) -> Callable[[], Tensor]:
        self.boxes[(self.member + 1) % self.members].put(tensor.clone())

        def arrived() -> Tensor:
            self.note("ring", tensor.numel() * tensor.element_size(), 0.0)
            return self.boxes[self.member].get(timeout=60)

        return arrived


def by_members(
    turns: Callable[[Members], ring.Turns], members: int, given: Given, gradient: Tensor, mask: Tensor | None = None
) -> tuple[list[Tensor], list[Members]]:
    """What comes of queries, and their gradients with those of keys and values, put together; and the members."""
    every = [Posting(member, members, boxes=[]) for member in range(members)]
    boxes: list[Queue[Tensor]] = [Queue() for _ in range(members)]
    along = Along(2, 1, turns(every[0]).dealt.mirrored)

    def run(one: Posting) -> list[Tensor]:
        one.boxes = boxes
        own = [share_of(each, along, members, one.member).requires_grad_() for each in given]
        output = ring._Attention.apply(*own, mask, turns(one))  # type: ignore[no-untyped-call]
        return [output.detach(), *torch.autograd.grad(output, own, share_of(gradient, along, members, one.member))]

    with ThreadPoolExecutor(members) as pool:
        shares = list(pool.map(run, every))
    return [joined(each, along) for each in zip(*shares, strict=True)], list(every)


def in_one_piece(given: Given, gradient: Tensor, mask: Tensor | None, causal: bool) -> list[Tensor]:
    wide = [each.double().requires_grad_() for each in given]
    added = mask.double() if mask is not None and mask.is_floating_point() else mask
    output = F.scaled_dot_product_attention(*wide, added, is_causal=causal)  # type: ignore[arg-type]
    return [output.detach(), *torch.autograd.grad(output, wide, gradient.double())]


def drawn(key_heads: int, dtype: torch.dtype) -> tuple[Given, Tensor]:
    torch.manual_seed(0)
    query, gradient = (torch.randn(SAMPLES, HEADS, TOKENS, WIDTH).to(dtype) for _ in range(2))
    keys, values = (torch.randn(SAMPLES, key_heads, TOKENS, WIDTH).to(dtype) for _ in range(2))
    key, value = (each.repeat_interleave(HEADS // key_heads, 1) for each in (keys, values))
    return (query, key, value), gradient


def folded(tensors: list[Tensor], heads: int) -> list[Tensor]:
    """With the gradients of heads that are copies added up."""
    return [*tensors[:2], *(each.unflatten(1, (heads, -1)).sum(2) for each in tensors[2:])]


def furthest(tensors: list[Tensor], right: list[Tensor]) -> float:
    return max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(tensors, right, strict=True))


MASKS = {
    "": lambda: None,
    "causal": lambda: None,
    "padding": lambda: torch.rand(SAMPLES, 1, 1, TOKENS) > 0.3,
    "a row of nothing": lambda: (torch.rand(1, 1, TOKENS, TOKENS) > 0.4) & (torch.arange(TOKENS) != 3)[:, None],
    "added": lambda: torch.randn(HEADS, TOKENS, TOKENS),
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("members", [1, 2, 4])
@pytest.mark.parametrize("key_heads", [HEADS, 2])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", NEAR)
def test_equals_attention_in_one_piece(
    dtype: torch.dtype, kind: str, key_heads: int, members: int, mirrored: bool
) -> None:
    """With as many bytes and messages as a plan counts: a share of keys and values to all but the last, three times."""
    given, gradient = drawn(key_heads, dtype)
    mask, copies = MASKS[kind](), HEADS // key_heads
    dealt = ring.Dealt(mirrored, 1, copies, copies)
    tensors, every = by_members(
        lambda one: ring.Turns(one, kind == "causal", 0.0, 0, WIDTH**-0.5, dealt), members, given, gradient, mask
    )
    right = in_one_piece(given, gradient, mask, kind == "causal")
    assert furthest(folded(tensors, key_heads), folded(right, key_heads)) < NEAR[dtype]
    share = 2 * SAMPLES * key_heads * TOKENS // members * WIDTH * dtype.itemsize
    for one in every:
        assert [each.sent_bytes for each in one.exchanged] == [share] * 3 * (members - 1)


def test_what_is_dropped_is_dropped_in_the_backward_too() -> None:
    given, gradient = drawn(HEADS, torch.float64)

    def turns(one: Members) -> ring.Turns:
        return ring.Turns(one, True, 0.25, 1000 * one.member, 0.5)

    tensors, every = by_members(turns, 2, given, gradient)
    half, seen = TOKENS // 2, ring.Seen(slice(None), slice(None))
    blocks = [
        [turns(one).block(owner, seen, given[0][:, :, :half], half, None).dropout for owner in range(2)]
        for one in every
    ]
    dropout = torch.cat([torch.cat(row, -1) for row in blocks], -2)  # type: ignore[arg-type]
    assert 0.7 < float((dropout > 0).double().mean()) < 0.8
    wide = [each.clone().requires_grad_() for each in given]
    scores = (wide[0] @ wide[1].mT * 0.5).masked_fill(~torch.ones(TOKENS, TOKENS).tril().bool(), -torch.inf)
    right = (scores.softmax(-1) * dropout) @ wide[2]
    assert furthest(tensors, [right.detach(), *torch.autograd.grad(right, wide, gradient)]) < 1e-14


@pytest.mark.parametrize("shape", [(2, 8, 4), (2, 2, 3, 8, 4)])
def test_any_number_of_dimensions_before_the_heads(shape: tuple[int, ...]) -> None:
    query, key, value = (torch.randn(shape, dtype=torch.float64) for _ in range(3))
    for mask in (None, torch.randn(*shape[:-1], shape[-2], dtype=torch.float64)):
        right = F.scaled_dot_product_attention(query, key, value, mask)
        assert torch.allclose(ring.attention(query, key, value, mask), right, atol=1e-14)


def test_alone_a_member_computes_as_much_as_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its own work can be timed."""
    alone = Members(1, 4)
    monkeypatch.setattr(ring, "here", lambda axis: alone)
    query, key, value = (torch.randn(1, 2, 8, 4, requires_grad=True) for _ in range(3))
    ring.attention(query, key, value, None, 0.0, True, None, ring.Dealt(True)).sum().backward()
    assert [each.kind for each in alone.exchanged] == ["ring"] * 9


def test_a_gpu_has_kernels_for_narrow_types() -> None:
    """By their shapes alone."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        query, key, value = (torch.empty(2, 4, 16, 64, dtype=torch.bfloat16) for _ in range(3))
        block = Block(0.125, True)
        assert block.has_kernel(query, value)
        assert not block.has_kernel(query.float(), value.float())
        output, total = attended(query, key, value, block)
        assert (output.dtype, total.dtype, total.shape) == (torch.bfloat16, torch.float32, (2, 4, 16))
        assert [each.shape for each in gradients(output, (query, key, value), output, total, block)] == [
            query.shape
        ] * 3
