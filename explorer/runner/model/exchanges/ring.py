"""Attention whose queries stay at their member while keys and values go round all members of the group (Liu et al.,
2023, ring attention).

In every round a member attends to the keys and values that it has and sends them on to the next member. In the backward
they go round once more. Their gradients follow them: they begin at the next member, go on from there with what every
member adds, and come home from the member before, so that they need as many messages as keys and values do. A round's
messages are on their way while the round is computed.

Under a causal mask a member computes what its queries see. Where tokens are dealt out in mirrored chunks
(`group.Along`), that is half of each block but its own, alike at all members; else nothing of the blocks of later
members, so that the last has most to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from explorer.runner.model.exchanges.blocks import Block, attended, gradients, merged
from explorer.runner.model.exchanges.group import Along, Members, here, share_of

RANDOM = 2**62
"""Seeds of what is dropped lie below."""


class Dealt(NamedTuple):
    """mirrored, pieces: as tokens are divided (`group.Along`). keys, values: how many heads that follow one another are
    copies of one, for the queries of a group; one of them goes round."""

    mirrored: bool = False
    pieces: int = 1
    keys: int = 1
    values: int = 1


PLAIN = Dealt()


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropped: float = 0.0, causal: bool = False,
    scale: float | None = None, dealt: Dealt = PLAIN, axis: int = 0,
) -> Tensor:  # fmt: skip
    """Of a member's queries to the keys and values of all members. query, key, value: [..., heads, tokens, width], this
    member's tokens; heads of queries are a multiple of those of keys. mask: all keys' columns, in their order, and the
    rows of this member's queries, of all, or one for all. dropped: the share of the softmax that is. axis: along which
    members have tokens."""
    shape = query.shape
    each = [one.reshape(-1, *one.shape[-3:]) if one.dim() != 4 else one for one in (query, key, value)]
    if mask is not None and mask.dim() > 3 and len(shape) > 4:
        mask = mask.expand(*shape[:-3], *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
    seed = int(torch.randint(RANDOM, ())) if dropped else 0
    turns = Turns(here(axis), causal, dropped, seed, shape[-1] ** -0.5 if scale is None else scale, dealt)
    result: Tensor = _Attention.apply(*each, mask, turns)  # type: ignore[no-untyped-call]
    return result.reshape(*shape[:-1], value.shape[-1])


class Seen(NamedTuple):
    """What a member's queries see of a block: which rows of them, which of its keys, and whether causally."""

    rows: slice
    keys: slice
    causal: bool = False


ALL = slice(None)


@dataclass(frozen=True)
class Turns:
    """What is done with the block of every member."""

    members: Members
    causal: bool
    dropped: float
    seed: int
    scale: float
    dealt: Dealt = PLAIN

    def owner(self, turn: int) -> int:
        """Whose block is here."""
        return (self.members.member - turn) % self.members.members

    def seen(self, owner: int, tokens: int) -> Seen | None:
        """None: nothing."""
        own, half = self.members.member, tokens // 2
        if not self.causal or owner == own:
            return Seen(ALL, ALL, self.causal)
        if self.dealt.mirrored:
            return Seen(ALL, slice(half)) if owner < own else Seen(slice(half, None), ALL)
        return Seen(ALL, ALL) if owner < own else None

    def block(self, owner: int, seen: Seen, query: Tensor, tokens: int, mask: Tensor | None) -> Block:
        """query: all of this member's; tokens: of each member; mask: as `attention` takes it."""
        dropout = None
        if self.dropped:
            draw = torch.Generator(query.device).manual_seed(self.seed ^ owner)
            random = torch.rand(*query.shape[:3], tokens, generator=draw, device=query.device)
            dropout = ((random >= self.dropped) / (1 - self.dropped))[..., seen.rows, seen.keys]
        return Block(self.scale, seen.causal, self._part(mask, owner, query.shape[-2]), dropout)

    def _part(self, mask: Tensor | None, owner: int, tokens: int) -> Tensor | None:
        """A mask's rows of this member and columns of another."""
        for dim, member, own in ((-2, self.members.member, tokens), (-1, owner, 1)):
            if mask is not None and mask.shape[dim] not in (1, own):
                along = Along(mask.dim() + dim, self.dealt.pieces, self.dealt.mirrored)
                mask = share_of(mask, along, self.members.members, member)
        return mask


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, turns: Turns) -> Tensor:
        result, total = query.new_zeros(()), query.new_zeros(())
        passing = Passing(turns, key, value)
        for turn in range(turns.members.members):
            owner, there = turns.owner(turn), passing.begin(turn)
            if (seen := turns.seen(owner, key.shape[-2])) is not None:
                rows = query[..., seen.rows, :]
                keys, values = (_for_heads(one, rows)[..., seen.keys, :] for one in there)
                block = turns.block(owner, seen, query, key.shape[-2], mask)
                new = attended(rows, keys, values, block)
                new = new[0].to(new[1].dtype), new[1]
                if turn == 0:
                    result, total = new
                else:
                    at = seen.rows
                    result[..., at, :], total[..., at] = merged((result[..., at, :], total[..., at]), new)
            passing.end(turn)
        result = result.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, total, *([] if mask is None else [mask]))
        ctx.turns = turns
        return result

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        query, key, value, result, total, *masks = ctx.saved_tensors
        turns: Turns = ctx.turns
        of_query = torch.zeros_like(query, dtype=total.dtype)
        passing = Passing(turns, key, value)
        back = Returning(turns.members, passing) if any(ctx.needs_input_grad[1:3]) else None
        for turn in range(turns.members.members):
            owner, there = turns.owner(turn), passing.begin(turn)
            own: Sequence[Tensor] = ()
            if (seen := turns.seen(owner, key.shape[-2])) is not None:
                rows = query[..., seen.rows, :]
                keys, values = (_for_heads(one, rows)[..., seen.keys, :] for one in there)
                block = turns.block(owner, seen, query, key.shape[-2], masks[0] if masks else None)
                of_block = result[..., seen.rows, :], total[..., seen.rows]
                of_rows, *own = gradients(given[0][..., seen.rows, :], (rows, keys, values), *of_block, block)
                of_query[..., seen.rows, :] += of_rows
                own = [_into(one, gradient, seen.keys) for one, gradient in zip(there, own, strict=True)]
            if back is not None:
                back.add(turn, own)
            passing.end(turn)
        of_key, of_value = (None, None) if back is None else back.home((key, value))
        return of_query.to(query.dtype), of_key, of_value, None, None


class Passing:
    """Keys and values on their way round, of every head that is a copy one, as one message."""

    def __init__(self, turns: Turns, key: Tensor, value: Tensor) -> None:
        self.turns = turns
        self.here = _packed([key[:, :: turns.dealt.keys], value[:, :: turns.dealt.values]])
        self.shapes = key[:, :: turns.dealt.keys].shape, value[:, :: turns.dealt.values].shape

    def begin(self, turn: int) -> tuple[Tensor, Tensor]:
        """Those that are here, which are sent on unless all have had them."""
        if turn + 1 < self.turns.members.members:
            self.arrived = self.turns.members.pass_on(self.here)
        return self.unpacked(self.here)

    def end(self, turn: int) -> None:
        """Waits for those of the next turn."""
        if turn + 1 < self.turns.members.members:
            self.here = self.arrived()

    def unpacked(self, packed: Tensor) -> tuple[Tensor, Tensor]:
        key, value = torch.split(packed, [shape.numel() for shape in self.shapes])
        return key.view(self.shapes[0]), value.view(self.shapes[1])


class Returning:
    """Gradients of keys and values that follow these round. Those of this member's own stay here, until what the others
    have added up comes home."""

    def __init__(self, members: Members, passing: Passing) -> None:
        self.members, self.passing = members, passing
        self.arrived: Callable[[], Tensor]

    def add(self, turn: int, own: Sequence[Tensor]) -> None:
        """own: what this member has of the block of a turn; () for nothing."""
        if turn == 0:
            self.own_gradients = _packed(own)
            return
        before = torch.zeros_like(self.passing.here) if turn == 1 else self.arrived()
        self.arrived = self.members.pass_on((before + _packed(own)).to(before.dtype) if own else before)

    def home(self, given: tuple[Tensor, Tensor]) -> list[Tensor]:
        """Gradients of ``given``, this member's keys and values: of heads that are copies the first has all of it."""
        total = self.own_gradients + self.arrived() if self.members.members > 1 else self.own_gradients
        gradients = []
        for one, gradient in zip(given, self.passing.unpacked(total), strict=True):
            whole = torch.zeros_like(one)
            whole[:, :: one.shape[1] // gradient.shape[1]] = gradient
            gradients.append(whole)
        return gradients


def _packed(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _for_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Keys or values for every head of the queries."""
    times = query.shape[1] // tensor.shape[1]
    return tensor if times == 1 else tensor.repeat_interleave(times, 1)


def _into(tensor: Tensor, gradient: Tensor, keys: slice) -> Tensor:
    """The gradient of keys or values, ``tensor``, by that of some of them for every head of the queries."""
    samples, heads, _, width = tensor.shape
    added = gradient.reshape(samples, heads, -1, gradient.shape[-2], width).sum(2)
    if added.shape == tensor.shape:
        return added
    whole = added.new_zeros(tensor.shape)
    whole[..., keys, :] = added
    return whole
