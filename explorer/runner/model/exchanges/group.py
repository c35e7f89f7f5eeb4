"""The group of processes that share the tensors of a stage, and what they exchange, forward and backward.

A process is one member of one group, and along each axis of the group exchanges with those that have its place along
the other. How a tensor lies over the members is a placement (`solvers.problem.collectives`); a change of placement
exchanges what it needs, and its backward is the mirror image: of a whole tensor (R) every member has all of the
gradient, of one with a part of its gradient (R+) the members' are added up, a part of a sum (P) has the whole sum's
gradient, and of a share (S) it is the share's. Tokens whose causal attention goes round a ring are dealt out in two
chunks a member (`Along.mirrored`), which a run calls Z where a plan says S.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from solvers.errors import RunError
from solvers.problem import collectives
from solvers.problem.collectives import PARTIAL, RING, UNSUMMED, WHOLE


class Along(NamedTuple):
    """Where a tensor is divided: along a dimension, in so many pieces that are each divided. mirrored: a member has a
    chunk of the first half of every piece and its mirror image in the second ("zigzag"), else one chunk."""

    dim: int
    pieces: int = 1
    mirrored: bool = False


class Exchanged(NamedTuple):
    """One exchange of a member. kind: as in `solvers.problem.collectives`; sent_bytes: round a ring; began, ended:
    stamps of `Members.now`."""

    kind: str
    sent_bytes: float
    began: Any
    ended: Any


@dataclass
class Members:
    """Along one axis of a group. member: the place of this process among so many. group: of the processes; None: there
    are no others, and what they would send is taken to be what this one has, so that its own work can be timed.
    exchanged: those of this process since it was cleared. now: what stamps their times. counts: how often it exchanged
    how many rows experts have, a few bytes that no plan counts."""

    member: int = 0
    members: int = 1
    group: dist.ProcessGroup | None = None
    exchanged: list[Exchanged] = field(default_factory=list)
    now: Callable[[], Any] = time.perf_counter
    counts: int = 0

    def add_up(self, tensor: Tensor, how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> Tensor:
        """A new tensor."""
        began, total = self.now(), tensor.contiguous().clone()
        if self.group is not None:
            dist.all_reduce(total, how, group=self.group)
        self.note("all_reduce", 2 * (self.members - 1) / self.members * _bytes(total), began)
        return total

    def gather(self, share: Tensor, along: Along) -> Tensor:
        """The whole of what every member has a share of."""
        began, own = self.now(), share.contiguous()
        parts = own.new_empty(self.members * own.numel())
        if self.group is None:
            parts = own.view(-1).repeat(self.members)
        else:
            dist.all_gather_into_tensor(parts, own.view(-1), group=self.group)
        self.note("all_gather", (self.members - 1) * _bytes(own), began)
        if along == Along(0):  # as they lie
            return parts.view(self.members * own.shape[0], *own.shape[1:])
        return joined(parts.view(self.members, *own.shape).unbind(), along)

    def scatter_sum(self, part: Tensor, along: Along) -> Tensor:
        """A share of the sum of all members' parts."""
        began = self.now()
        if along == Along(0):  # as they lie
            parts = part.contiguous().view(self.members, -1, *part.shape[1:])
        else:
            parts = torch.stack([share_of(part, along, self.members, m) for m in range(self.members)])
        own = parts[0].clone() if self.group is None else torch.empty_like(parts[0])
        if self.group is not None:
            dist.reduce_scatter_tensor(own.view(-1), parts.view(-1), group=self.group)
        self.note("reduce_scatter", (self.members - 1) * _bytes(own), began)
        return own

    def redistribute(self, share: Tensor, before: Along, after: Along) -> Tensor:
        """From a share along one dimension to the share along another. before, after: of the whole tensor; where one is
        inside of the other, a share has fewer pieces of it."""
        began = self.now()
        if before.dim == after.dim and after.pieces > before.pieces:
            after = after._replace(pieces=after.pieces // self.members)
        elif before.dim == after.dim:
            before = before._replace(pieces=before.pieces // self.members)
        sent = torch.stack([share_of(share, after, self.members, m) for m in range(self.members)])
        parts = sent.clone() if self.group is None else torch.empty_like(sent)
        if self.group is not None:
            dist.all_to_all_single(parts, sent, group=self.group)
        self.note("all_to_all", (self.members - 1) / self.members * _bytes(sent), began)
        return joined(parts.unbind(), before)

    def pass_on(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Begins to send a tensor to the next member, which all do at once. What is returned waits for the one that the
        member before has sent; the time that is noted is that of the wait, not of what was computed meanwhile."""
        sent = tensor.contiguous()
        received = sent.clone() if self.group is None else torch.empty_like(sent)
        sending: list[dist.Work] = []
        if self.group is not None:
            before, after = (dist.get_global_rank(self.group, (self.member + by) % self.members) for by in (-1, 1))
            both = [
                dist.P2POp(dist.isend, sent, after, self.group),
                dist.P2POp(dist.irecv, received, before, self.group),
            ]
            sending = dist.batch_isend_irecv(both)

        def arrived() -> Tensor:
            began = self.now()
            for work in sending:
                work.wait()
            self.note(RING, _bytes(sent), began)
            return received

        return arrived

    def share(self, whole: Tensor, along: Along) -> Tensor:
        """That of this process."""
        return share_of(whole, along, self.members, self.member)

    def note(self, kind: str, sent_bytes: float, began: object) -> None:
        """Keeps an exchange that ends now."""
        self.exchanged.append(Exchanged(kind, sent_bytes, began, self.now()))


@dataclass(frozen=True)
class Group:
    """The group of a process. axes: its members along each axis that they divide the model along, the outer first."""

    axes: tuple[Members, ...] = field(default_factory=lambda: (Members(),))

    @property
    def member(self) -> int:
        """The place of this process among all members: those of an inner group follow one another."""
        return numbered(self.axes)

    @property
    def members(self) -> int:
        """How many there are."""
        return math.prod(axis.members for axis in self.axes)

    @property
    def exchanged(self) -> list[Exchanged]:
        """Along all axes, as they began."""
        return sorted((each for axis in self.axes for each in axis.exchanged), key=lambda each: each.began)

    def forget(self) -> None:
        """All exchanges so far."""
        for axis in self.axes:
            axis.exchanged.clear()


def numbered(axes: Iterable[Members]) -> int:
    """The place of a process among all members of these axes, the outer first."""
    place = 0
    for axis in axes:
        place = place * axis.members + axis.member
    return place


def places(member: int, degrees: Sequence[int]) -> tuple[int, ...]:
    """The reverse: the place along each of the axes, of so many members, of one of all members."""
    inner_first = []
    for degree in reversed(degrees):
        member, place = divmod(member, degree)
        inner_first.append(place)
    return tuple(reversed(inner_first))


_here = Group()
"""The group of this process: one at a time, that of the machine made last."""


def join(*axes: Members) -> Group:
    """Makes a group that of this process. axes: its members along each, the outer first."""
    global _here
    _here = Group(axes)
    return _here


def current() -> Group:
    """The group of this process."""
    return _here


def here(axis: int = 0) -> Members:
    """Its members along an axis, of which the outer is the first."""
    return _here.axes[axis]


def _bytes(tensor: Tensor) -> float:
    return float(tensor.numel() * tensor.element_size())


def divided_along(placement: str) -> Along | None:
    """Along what a share lies; None for other placements."""
    halves = placement.startswith("Z")
    along = collectives.divided_along(f"S{placement[1:]}" if halves else placement)
    return None if along is None else Along(*along, halves)


def mirrored(placement: str) -> str:
    """That of a share whose pieces are dealt out in two chunks a member."""
    return f"Z{placement.removeprefix('S')}"


def share_of(whole: Tensor, along: Along, members: int, member: int) -> Tensor:
    """A member's share, dense."""
    (dim, pieces, halves), shape = along, whole.shape
    each = shape[dim] // pieces // members
    if halves:
        chunks = whole.reshape(*shape[:dim], pieces, 2 * members, each // 2, *shape[dim + 1 :])
        first, second = (chunks.narrow(dim + 1, at, 1) for at in (member, 2 * members - 1 - member))
        own = torch.cat([first, second], dim + 1)
    else:
        every = whole.reshape(*shape[:dim], pieces, members * each, *shape[dim + 1 :])
        own = every.narrow(dim + 1, member * each, each)
    return own.reshape(*shape[:dim], pieces * each, *shape[dim + 1 :])


def joined(shares: Sequence[Tensor], along: Along) -> Tensor:
    """The whole from all members' shares, in their order."""
    (dim, pieces, halves), shape = along, shares[0].shape
    each = shape[dim] // pieces
    separate = [share.reshape(*shape[:dim], pieces, each, *shape[dim + 1 :]) for share in shares]
    if halves:
        cut = [torch.split(share, each // 2, dim + 1) for share in separate]
        separate = [first for first, _ in cut] + [second for _, second in reversed(cut)]
    return torch.cat(separate, dim + 1).reshape(*shape[:dim], len(shares) * shape[dim], *shape[dim + 1 :])


def exchange(tensor: Tensor, before: str, after: str, axis: int = 0) -> Tensor:
    """A tensor in another placement. before, after: as a graph states them; axis: along which."""
    result: Tensor = _Exchange.apply(tensor, before, after, here(axis))  # type: ignore[no-untyped-call]
    return result


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, before: str, after: str, members: Members) -> Tensor:
        ctx.members, ctx.before, ctx.after = members, before, after
        return changed(members, tensor, before, after)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return changed_back(ctx.members, gradients[0], ctx.before, ctx.after), None, None, None


def changed(members: Members, tensor: Tensor, before: str, after: str) -> Tensor:
    """`exchange` without its gradient."""
    source, target = divided_along(before), divided_along(after)
    if before == PARTIAL:
        return members.add_up(tensor) if target is None else members.scatter_sum(tensor, target)
    if source is not None:
        return members.gather(tensor, source) if target is None else members.redistribute(tensor, source, target)
    return tensor.view_as(tensor) if target is None else members.share(tensor, target).clone()


def changed_back(members: Members, gradient: Tensor, before: str, after: str) -> Tensor:
    """The gradient of what was exchanged, by that of what came of it."""
    source, target = divided_along(before), divided_along(after)
    if target is not None:
        if source is not None:
            return members.redistribute(gradient, target, source)
        return members.gather(gradient, target)
    if source is not None:
        if after == UNSUMMED:
            return members.scatter_sum(gradient, source)
        return members.share(gradient, source).contiguous()
    return members.add_up(gradient) if after == UNSUMMED and before in (WHOLE, PARTIAL) else gradient


def on_one(tensor: Tensor, axis: int = 0) -> Tensor:
    """What one member alone along an axis adds to a sum: itself there, zeros at the others."""
    return tensor if here(axis).member == 0 else tensor * 0


def rows(axes: Sequence[int], table: Tensor, indices: Tensor, padding_idx: int = -1, *rest: object) -> Tensor:
    """A look-up in a table of which this member has some rows, in their order: zeros for those of others. axes: along
    which the rows are divided, the outer first."""
    if any(rest):
        raise RunError("a table whose rows are divided cannot scale gradients by frequency, or have sparse ones")
    first = numbered(map(here, axes)) * len(table)
    at = indices - first
    there = (at >= 0) & (at < len(table))
    padding = padding_idx - first
    at = at.clamp(0, len(table) - 1)
    looked_up = torch.nn.functional.embedding(at, table) * there.unsqueeze(-1)
    if padding_idx >= 0 and 0 <= padding < len(table):  # no gradient goes there
        looked_up = torch.where((at == padding).unsqueeze(-1), looked_up.detach(), looked_up)
    return looked_up


MEAN = 1
"""Of aten's reductions."""


def loss_of_rows(
    axes: Sequence[int], scores: Tensor, targets: Tensor, weight: None = None, reduction: int = MEAN,
    ignore_index: int = -100, *rest: float,
) -> Tensor:  # fmt: skip
    """This member's part of the cross-entropy of all members' rows. axes: along which the rows are divided."""
    _check_loss(weight)
    if reduction != MEAN:
        result: Tensor = torch.ops.aten.cross_entropy_loss(scores, targets, None, reduction, ignore_index, *rest)
        return result
    total: Tensor = torch.ops.aten.cross_entropy_loss(scores, targets, None, 2, ignore_index, *rest)
    return total / _counted(targets != ignore_index, axes)


def _counted(counts: Tensor, axes: Sequence[int]) -> Tensor:
    """How many targets count, of the rows of all members along some axes."""
    total = counts.sum()
    for axis in axes:
        if here(axis).group is not None:
            dist.all_reduce(total, group=here(axis).group)
    return total


def loss_of_classes(
    axis: int, axes: Sequence[int], scores: Tensor, targets: Tensor, weight: None = None, reduction: int = MEAN,
    ignore_index: int = -100, *rest: float,
) -> Tensor:  # fmt: skip
    """This member's part of the cross-entropy over classes of which each member has some: of each row the largest score
    and the sum of exponentials are exchanged (Shoeybi et al., 2019, section 3). axis: along which classes are divided;
    axes: along which rows are."""
    _check_loss(weight)
    if any(rest):
        raise RunError("a loss with smoothed labels cannot be divided over its classes; plan with another degree")
    if reduction not in (MEAN, 2):
        raise RunError("a loss of every row cannot be divided over its classes; plan with another degree")
    counts = targets != ignore_index
    share = 1.0 / _counted(counts, axes) if reduction == MEAN else torch.ones((), device=scores.device)
    result: Tensor = _OfClasses.apply(scores, targets, counts, share, here(axis))  # type: ignore[no-untyped-call]
    return result


def _check_loss(weight: object) -> None:
    if weight is not None:
        raise RunError("a loss with weights of classes cannot be divided; plan with another degree")


class _OfClasses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, counts: Tensor, share: Tensor, members: Members) -> Tensor:
        wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        largest = members.add_up(wide.amax(-1), dist.ReduceOp.MAX)
        exponents = (wide - largest.unsqueeze(-1)).exp()
        total = members.add_up(exponents.sum(-1))
        classes = scores.shape[-1]
        at = targets - members.member * classes
        there = (at >= 0) & (at < classes) & counts
        at = at.clamp(0, classes - 1)
        own = torch.where(there, wide.gather(-1, at.unsqueeze(-1)).squeeze(-1), 0.0)
        normal = (largest + total.log()) * counts if members.member == 0 else torch.zeros_like(own)
        ctx.save_for_backward(exponents / total.unsqueeze(-1), at, there, counts, share)
        ctx.dtype = scores.dtype
        return ((normal - own).sum() * share).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        shares, at, there, counts, share = ctx.saved_tensors
        result = shares * counts.unsqueeze(-1)
        result.scatter_add_(-1, at.unsqueeze(-1), -there.unsqueeze(-1).to(result.dtype))
        return (result * (gradients[0] * share)).to(ctx.dtype), None, None, None, None
