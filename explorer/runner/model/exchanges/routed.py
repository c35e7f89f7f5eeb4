"""Rows of tokens, sorted by the expert that these chose, on the members of a group: who has tokens sorts their rows,
who has experts gets the rows of these, and sends back what it made of them.

Rows of all members together are in the order of experts, of one expert in that of the members, of one member in its
own; so whoever knows how many rows each expert has at each member (`counted`) knows where every row is. A member that
has tokens has a part of the rows, `S(0)`, as many as all others; one that has experts the rows of these, `E(0)`, as
many as chose them. What numbers say (`Route`) is of the rows, choices or tokens of the member that has them; on their
way to others they become those of all members together. Members are those along one axis of their group (`group.here`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.model.exchanges import group
from explorer.runner.model.exchanges.group import Along, Members, divided_along, here, joined, share_of
from solvers.problem.collectives import PARTIAL, UNSUMMED

BY_EXPERT = "E"
"""How the placement of rows begins of which a member has those of its experts."""
BY_TOKEN = "T"
"""Of which it has those of its tokens: of sorted rows, what a graph calls S(0)."""
GROUPED = (torch.bfloat16, torch.float16, torch.float32)
"""Types of which a GPU has a product of rows by expert."""


class Numbers(NamedTuple):
    """What integers are numbers of, of a member's own. rows: whether of rows, else of choices, or of tokens with
    ``each`` choices. pieces: of the dimension of choices that are each divided over the members."""

    rows: bool
    each: int = 1
    pieces: int = 1


def counted(experts: Tensor, number: int, everywhere: bool, axis: int = 0) -> Tensor:
    """How many rows each of so many experts has at each member, [members, experts], on the CPU. experts: of each of
    this member's rows; everywhere: whether all members have all rows, which then count as those of one."""
    own = torch.bincount(experts.reshape(-1), minlength=number)
    members = here(axis)
    if everywhere or members.group is None:
        return own.cpu().repeat(1 if everywhere else members.members, 1)
    members.counts += 1
    counts = own.new_empty(members.members * number)
    dist.all_gather_into_tensor(counts, own, group=members.group)
    return counts.view(members.members, number).cpu()


class Rows:
    """Where rows are. counts: as `counted` gives them."""

    def __init__(self, members: Members, counts: Tensor) -> None:
        self.members, self.counts = members, counts
        by_owner = counts.view(len(counts), members.members, -1)
        self.sent: list[list[int]] = by_owner.sum(-1).tolist()
        """From whose tokens to whose experts."""
        self.held: list[int] = by_owner.sum((0, 2)).tolist()
        """By member, rows of its experts."""

    def of_experts(self) -> Tensor:
        """How many rows each expert of this member has, [members, experts of it]."""
        return self.counts.view(len(self.counts), self.members.members, -1)[:, self.members.member]

    def places(self) -> Tensor:
        """Of the rows of all members, one after the other, the place in the order of all."""
        if len(self.counts) != self.members.members:
            raise RuntimeError("rows that were sorted at every member are of nobody's tokens")
        ordered = self.counts.t().reshape(-1)
        first = (ordered.cumsum(0) - ordered).view(self.counts.shape[::-1]).t().reshape(-1)
        counts = self.counts.reshape(-1)
        inside = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        return first.repeat_interleave(counts) + inside

    def own_places(self) -> Tensor:
        """Those of this member's tokens."""
        here: Tensor = self.places().view(self.members.members, -1)[self.members.member]
        return here

    def arrival(self) -> Tensor:
        """Of the rows of this member's experts, as they come from one member after the other, the order by expert."""
        counts = self.of_experts()
        experts = torch.arange(counts.shape[1]).repeat(len(counts)).repeat_interleave(counts.reshape(-1))
        return torch.argsort(experts, stable=True)


def exchange(
    tensor: Tensor, counts: Tensor, before: str, after: str, numbers: Numbers | None = None, axis: int = 0
) -> Tensor:
    """Sorted rows in another placement, or which row each choice has become. before, after: as a graph states them, but
    `BY_TOKEN` and `BY_EXPERT`; numbers: of what, where their integers are some."""
    rows = Rows(here(axis), counts)
    if numbers is not None and _is_own(before) and not _is_own(after):
        tensor = _of_all(tensor, rows, numbers)
    if numbers is not None and numbers.rows:
        result = group.changed(rows.members, tensor, before, after)
    else:
        result = _Exchange.apply(tensor, rows, before, after)  # type: ignore[no-untyped-call]
    return _of_one(result, rows, numbers) if numbers is not None and _is_own(after) and not _is_own(before) else result


def _is_own(placement: str) -> bool:
    """Whether numbers of a member are its own there."""
    return placement == BY_TOKEN or divided_along(placement) is not None


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rows: Rows, before: str, after: str) -> Tensor:
        ctx.rows, ctx.before, ctx.after = rows, before, after
        return _forward(rows, tensor, before, after)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _backward(ctx.rows, gradients[0], ctx.before, ctx.after), None, None, None


def _forward(rows: Rows, tensor: Tensor, before: str, after: str) -> Tensor:
    if BY_TOKEN not in (before, after):
        return _of_experts(rows, tensor, before, after)
    if BY_EXPERT in (before, after):
        return _to_experts(rows, tensor) if after == BY_EXPERT else _to_tokens(rows, tensor)
    if before == BY_TOKEN:
        return _ordered(rows, group.changed(rows.members, tensor, "S(0)", after))
    return group.changed(rows.members, _by_member(rows, tensor), before, "S(0)")


def _backward(rows: Rows, gradient: Tensor, before: str, after: str) -> Tensor:
    """The mirror image (`group`)."""
    if BY_TOKEN in (before, after) and BY_EXPERT in (before, after):
        return _forward(rows, gradient, after, before)
    if before == BY_TOKEN:
        return group.changed_back(rows.members, _by_member(rows, gradient), "S(0)", after)
    if after == BY_TOKEN:
        return _ordered(rows, group.changed_back(rows.members, gradient, before, "S(0)"))
    if before == BY_EXPERT and after == UNSUMMED:
        return _of_experts(rows, gradient, PARTIAL, BY_EXPERT)
    return _of_experts(rows, gradient, after, before if divided_along(before) or before == BY_EXPERT else "")


def _ordered(rows: Rows, tensor: Tensor) -> Tensor:
    """Rows of one member after the other, in the order of all."""
    return tensor[torch.argsort(rows.places()).to(tensor.device)]


def _by_member(rows: Rows, tensor: Tensor) -> Tensor:
    """The reverse."""
    return tensor[rows.places().to(tensor.device)]


def _to_experts(rows: Rows, tensor: Tensor) -> Tensor:
    member = rows.members.member
    arrived = _sent(rows.members, tensor, rows.sent[member], [each[member] for each in rows.sent])
    return arrived[rows.arrival().to(tensor.device)]


def _to_tokens(rows: Rows, tensor: Tensor) -> Tensor:
    member = rows.members.member
    back = torch.argsort(rows.arrival()).to(tensor.device)
    return _sent(rows.members, tensor[back], [each[member] for each in rows.sent], rows.sent[member])


def _of_experts(rows: Rows, tensor: Tensor, before: str, after: str) -> Tensor:
    """From rows by expert to all rows, whole or a share of their other dimensions, or the reverse."""
    members, held = rows.members, rows.held
    own, every = held[members.member], members.members
    if before == BY_EXPERT and (share := divided_along(after)) is not None:
        parts = torch.cat([share_of(tensor, share, every, member) for member in range(every)])
        return _sent(members, parts, [own] * every, held)
    if before == BY_EXPERT:
        return _sent(members, tensor.repeat(every, *[1] * (tensor.dim() - 1)), [own] * every, held, "all_gather")
    if (share := divided_along(before)) is not None:
        arrived = _sent(members, tensor, held, [own] * every)
        return joined(torch.split(arrived, [own] * every), share)
    if before == PARTIAL:
        arrived = _sent(members, tensor, held, [own] * every, "reduce_scatter")
        return torch.stack(torch.split(arrived, [own] * every)).sum(0)
    return torch.split(tensor, held)[members.member].clone()


def _sent(
    members: Members, tensor: Tensor, sizes: Sequence[int], arriving: Sequence[int], kind: str = "all_to_all"
) -> Tensor:
    """Rows to all members, so many to each, as many as said from each. kind: what that is in a plan."""
    began, given = members.now(), tensor.contiguous()
    own = sizes[members.member]
    if members.group is None:  # what others would send is as what is here, as far as that goes
        received = given.new_zeros(sum(arriving), *given.shape[1:])
        there = min(len(given), len(received))
        received[:there] = given[:there]
    else:
        received = given.new_empty(sum(arriving), *given.shape[1:])
        dist.all_to_all_single(received, given, list(arriving), list(sizes), group=members.group)
    entries = given[:1].numel() if len(given) else 0
    members.note(kind, float((len(given) - own) * entries * given.element_size()), began)
    return received


def _of_all(numbers: Tensor, rows: Rows, of: Numbers) -> Tensor:
    """A member's numbers as those of all members together."""
    return _whole_numbers(rows, of)[numbers.cpu()].to(numbers.device)


def _of_one(numbers: Tensor, rows: Rows, of: Numbers) -> Tensor:
    """The reverse: of what this member has."""
    whole = _whole_numbers(rows, of)
    own = torch.zeros(int(whole.max()) + 1 if len(whole) else 1, dtype=whole.dtype)
    own[whole] = torch.arange(len(whole))
    return own[numbers.cpu()].to(numbers.device)


def _whole_numbers(rows: Rows, of: Numbers) -> Tensor:
    if of.rows:
        return rows.own_places()
    total = torch.arange(int(rows.counts.sum()) // of.each)
    return share_of(total, Along(0, of.pieces), rows.members.members, rows.members.member)


def picked(table: Tensor, numbers: Tensor, counts: Tensor, of: Numbers, axis: int = 0) -> Tensor:
    """Rows of a whole table by numbers of this member's own."""
    return table[_of_all(numbers, Rows(here(axis), counts), of)]


def of_experts(table: Tensor, experts: Tensor, axis: int = 0) -> Tensor:
    """What each row's expert has in a table of this member's experts."""
    return table[experts - here(axis).member * len(table)]


def put_back(made: Tensor, numbers: Tensor, counts: Tensor, axis: int = 0) -> Tensor:
    """Rows of this member's experts where choices find them, nothing for all others. numbers: which row of all a choice
    has become."""
    rows = Rows(here(axis), counts)
    at = numbers - sum(rows.held[: rows.members.member])
    there = (at >= 0) & (at < len(made))
    nothing = made.new_zeros(1, *made.shape[1:])
    return torch.cat([made, nothing])[torch.where(there, at, len(made))]


def row_of_choice(room: Tensor, order: Tensor) -> Tensor:
    """In ``room``, which row each choice of this member has become. order: which choice each row is."""
    return room.copy_(torch.argsort(order))


def product(rows: Tensor, matrices: Tensor, counts: Tensor, by: str, axis: int = 0) -> Tensor:
    """Each row times the matrix of its expert. by: of whom the rows are: of this member's experts, of its tokens, or
    all."""
    where = Rows(here(axis), counts)
    if by == BY_EXPERT:
        each = where.of_experts().sum(0)
    else:
        each = counts[where.members.member] if by == BY_TOKEN else counts.sum(0)
    if rows.is_cuda and rows.dtype in GROUPED:
        ends = each.cumsum(0).to(rows.device, torch.int32)
        result: Tensor = torch._grouped_mm(rows, matrices, offs=ends)
        return result
    parts = torch.split(rows, each.tolist())
    return torch.cat([part @ matrix for part, matrix in zip(parts, matrices, strict=True)])
