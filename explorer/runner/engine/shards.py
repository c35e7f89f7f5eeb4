"""What the replicas of a segment hold a share each of: the states of the optimizer (ZeRO-1; Rajbhandari et al., SC
2020, section 5.1).

Trained parameters lie one after the other in one tensor, and so do their gradients. Every replica has the gradients of
its own samples whole until the iteration ends; a reduce-scatter leaves each the sum over all of them in its part, the
optimizer updates that part, and an all-gather gives the others its new values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from solvers.errors import RunError

COUNT = "step"
"""A state that is a number of steps, whatever the shape of the parameter."""


class Piece(NamedTuple):
    """What a replica updates of a parameter: entries [begin, end) of it as one row. of: which parameter; first: the
    entry of the replica's part where it begins; value: a view of the parameter, which the optimizer has in its place.
    """

    of: int
    begin: int
    end: int
    first: int
    value: nn.Parameter

    def cut(self, whole: Tensor) -> Tensor:
        """The same entries of what is as large as the parameter."""
        return whole.reshape(-1)[self.begin : self.end]


class Shards:
    """Parameters of one dtype that the processes of ``group`` have alike, of which this is number ``replica`` of
    ``replicas``. Every one of them must call the same methods in the same order.

    Parameters become views of one tensor, of equal parts, filled up with fewer than ``replicas`` entries.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], replica: int, replicas: int, group: dist.ProcessGroup
    ) -> None:
        self.parameters, self.replica, self.replicas, self.group = tuple(parameters), replica, replicas, group
        *self._starts, total = accumulate((p.numel() for p in parameters), initial=0)
        self.size = -(-total // replicas)
        """Entries of a part."""
        self._values = self.parameters[0].detach().new_zeros(replicas * self.size)
        for parameter, view in zip(self.parameters, self._views(self._values), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
        self.pieces = tuple(self._pieces())
        self._gradients: Tensor | None = None
        self._into: tuple[Tensor | None, ...] = ()
        """Of each parameter its gradient, as a view of all of them; None: it has none."""
        self._flows: tuple[bool, ...] = ()
        """Of each parameter whether any replica makes a gradient of it; all say so once, after the first iteration."""
        self._before: Tensor | None = None
        self._work: dist.Work | None = None

    def _pieces(self) -> Iterable[Piece]:
        begin = self.replica * self.size
        for number, (start, parameter) in enumerate(zip(self._starts, self.parameters, strict=True)):
            first, last = max(start, begin), min(start + parameter.numel(), begin + self.size)
            if first < last:
                yield Piece(number, first - start, last - start, first - begin, nn.Parameter(self._values[first:last]))

    def _views(self, whole: Tensor) -> list[Tensor]:
        starts = zip(self._starts, self.parameters, strict=True)
        return [whole[start : start + p.numel()].view(p.shape) for start, p in starts]

    def _part(self, whole: Tensor) -> Tensor:
        """This replica's part."""
        return whole[self.replica * self.size : (self.replica + 1) * self.size]

    def begin(self, *, adding: bool) -> None:
        """Before an iteration. adding: to the sum that is there from the iteration before."""
        before = None
        if adding and self._gradients is not None:
            before = self._part(self._gradients).clone()
        self.forget()
        self._before = before
        if self._flows:
            self._make_room()

    def forget(self) -> None:
        """All gradients."""
        self._gradients, self._into, self._before = None, (), None
        for tensor in (*self.parameters, *(piece.value for piece in self.pieces)):
            tensor.grad = None

    def _make_room(self) -> None:
        """Gradients that micro-batches add to."""
        self._gradients = torch.zeros_like(self._values)
        views = zip(self._flows, self._views(self._gradients), strict=True)
        self._into = tuple(view if flows else None for flows, view in views)
        for parameter, into in zip(self.parameters, self._into, strict=True):
            parameter.grad = into

    def begin_sum(self) -> None:
        """Begin to add up the replicas' gradients; each already has its samples' share as weight."""
        made = [parameter.grad for parameter in self.parameters]
        if not self._flows:
            flows = torch.tensor([each is not None for each in made], dtype=torch.int32, device=self._values.device)
            dist.all_reduce(flows, dist.ReduceOp.MAX, group=self.group)
            self._flows = tuple(map(bool, flows.tolist()))
            self._make_room()
        for gradient, into in zip(made, self._into, strict=True):
            if gradient is not None and into is None:
                raise RunError("a parameter had no gradient in the first iteration and has one now; plan with --zero 0")
            if gradient is not None and into is not None and gradient is not into:
                into.copy_(gradient)
        assert self._gradients is not None  # there is room since the first iteration
        part = self._part(self._gradients)
        self._work = dist.reduce_scatter_tensor(part, self._gradients, group=self.group, async_op=True)

    def finish_sum(self) -> None:
        """Wait for the sum: pieces have their gradients then, and parameters none."""
        if self._work is not None:
            self._work.wait()
        assert self._gradients is not None  # it was begun
        part = self._part(self._gradients)
        if self._before is not None:
            part.add_(self._before)
            self._before = None
        for parameter in self.parameters:
            parameter.grad = None
        for piece in self.pieces:
            if self._flows[piece.of]:
                piece.value.grad = part[piece.first : piece.first + piece.end - piece.begin]

    def gather(self) -> None:
        """Give all replicas what each has updated."""
        dist.all_gather_into_tensor(self._values, self._part(self._values).clone(), group=self.group)

    def gradients(self) -> list[Tensor | None]:
        """Of each parameter, whole, after an iteration; None where it has none."""
        grads = [piece.value.grad for piece in self.pieces]
        whole = self._together(grads, self._values.dtype)
        flows = self._flows or (False,) * len(self.parameters)
        return [each if known else None for each, known in zip(whole, flows, strict=True)]

    def states(self, state: Mapping[Tensor, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What an optimizer keeps of each parameter, whole. state: what it keeps of the pieces. Raises RunError for
        what is neither as large as a piece nor a single number."""
        own = [state.get(piece.value, {}) for piece in self.pieces]
        plain_of: list[Any] = [None] * self.replicas
        states = zip(self.pieces, own, strict=True)
        plain = [
            (piece.of, {key: _as_exchanged(key, value, piece) for key, value in each.items()}) for piece, each in states
        ]
        dist.all_gather_object(plain_of, plain, group=self.group)
        merged: list[dict[str, Any]] = [{} for _ in self.parameters]
        for of, values in (each for of_replica in plain_of for each in of_replica):
            merged[of].update({key: value for key, value in values.items() if key not in merged[of]})
        for key in sorted({key for each in merged for key, value in each.items() if isinstance(value, torch.dtype)}):
            dtype = next(each[key] for each in merged if isinstance(each.get(key), torch.dtype))
            whole = self._together([each.get(key) for each in own], dtype)
            for each, value in zip(merged, whole, strict=True):
                if key in each:
                    each[key] = value
        return merged

    def _together(self, values: Sequence[Tensor | None], dtype: torch.dtype) -> list[Tensor]:
        """Copies of whole tensors, one of each parameter, from what every replica has of its pieces; None: zeros."""
        part = self._values.new_zeros(self.size, dtype=dtype)
        for piece, value in zip(self.pieces, values, strict=True):
            if value is not None:
                part[piece.first : piece.first + piece.end - piece.begin] = value
        whole = part.new_empty(len(self._values))
        dist.all_gather_into_tensor(whole, part, group=self.group)
        return [view.clone() for view in self._views(whole)]


def _as_exchanged(key: str, value: Any, piece: Piece) -> Any:
    """A state as others are sent it: its dtype where it is as large as the piece, else itself."""
    if not isinstance(value, Tensor) or (value.numel() == 1 and key == COUNT):
        return value
    if value.shape != piece.value.shape:
        raise RunError(
            f"the optimizer keeps {key} of {list(value.shape)} for {len(piece.value)} of a parameter's entries"
        )
    return value.dtype


def is_shared(key: str, whole: Tensor, parameter: Tensor) -> bool:
    """Whether replicas have a share each of a state, given whole."""
    return whole.shape == parameter.shape and key != COUNT


def share_out(optimizer: torch.optim.Optimizer, shards: Iterable[Shards]) -> None:
    """Let an optimizer that has made no step update this replica's pieces in place of parameters: groups of parameters
    stay as they were made, of whole parameters."""
    pieces: dict[int, list[nn.Parameter]] = {}
    for each in shards:
        pieces.update({id(parameter): [] for parameter in each.parameters})
        for piece in each.pieces:
            pieces[id(each.parameters[piece.of])].append(piece.value)
    for group in optimizer.param_groups:
        group["params"] = [value for p in group["params"] for value in pieces.get(id(p), [p])]


def shards_of(parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> tuple[Shards, ...]:
    """Of a segment's parameters, a part for each dtype, over the processes of a group."""
    replica, replicas = dist.get_rank(group), dist.get_world_size(group)
    dtypes = dict.fromkeys(p.dtype for p in parameters)
    return tuple(Shards([p for p in parameters if p.dtype is dtype], replica, replicas, group) for dtype in dtypes)
