"""Messages that a rank has posted, several small tensors in one, and their tensors for as long as these are needed.

What a message costs its ranks, it costs however little it carries. Both ranks know shapes and dtypes, so both lay
the tensors of one out alike: one after the other, each where any dtype may begin. The receiver reads them where they
arrived, and nothing is copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.scripts.answers import Message
from explorer.runner.scripts.duties import packed

Meta = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype."""
ALIGNED = 16
"""Bytes: where any dtype may begin."""


def room(metas: Sequence[Meta], device: torch.device) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(empty tensors of these shapes, what is to be received so that they are filled)."""
    if not packed([_nbytes(meta) for meta in metas]):
        tensors = tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype in metas)
        return tensors, tensors
    whole, parts = _laid_out(metas, device)
    # Each with a version of its own: autograd would take a change to one of them for a change to all.
    return tuple(part.data for part in parts), (whole,)


def packed_up(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What is to be sent for `room` to receive ``tensors``."""
    metas = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    if not packed([_nbytes(meta) for meta in metas]):
        return tuple(tensor.contiguous() for tensor in tensors)
    whole, parts = _laid_out(metas, tensors[0].device)
    for part, tensor in zip(parts, tensors, strict=True):
        part.copy_(tensor)
    return (whole,)


def _nbytes(meta: Meta) -> int:
    shape, dtype = meta
    return torch.Size(shape).numel() * dtype.itemsize


def _laid_out(metas: Sequence[Meta], device: torch.device) -> tuple[Tensor, list[Tensor]]:
    starts, end = [], 0
    for meta in metas:
        starts.append(end)
        end += -(-_nbytes(meta) // ALIGNED) * ALIGNED
    whole = torch.empty(end, dtype=torch.uint8, device=device)
    return whole, [
        whole[start : start + _nbytes(meta)].view(meta[1]).view(meta[0])
        for start, meta in zip(starts, metas, strict=True)
    ]


class Work(Protocol):
    """What posting a message gives."""

    def is_completed(self) -> bool: ...

    def wait(self) -> bool: ...


class Sends:
    """The messages of one rank that are under way. answered_by: message that comes in -> those of this rank that have
    then arrived. send: begins to send a tensor to a rank."""

    def __init__(
        self, answered_by: Mapping[Message, Sequence[Message]], send: Callable[[Tensor, int], Work | None] = dist.isend
    ) -> None:
        self._answered_by, self._send = answered_by, send
        self._under_way: dict[Message, list[Work]] = {}

    def post(self, message: Message, tensors: Sequence[Tensor], peer: int) -> None:
        """Begins to send tensors, which nobody may change until they are through; whoever drops them frees them
        then."""
        self._drop([m for m, works in self._under_way.items() if all(work.is_completed() for work in works)])
        self._under_way[message] = [work for tensor in tensors if (work := self._send(tensor, peer)) is not None]

    def answered(self, message: Message) -> None:
        """Frees what has arrived, now that this message came in."""
        self._drop([m for m in self._answered_by.get(message, ()) if m in self._under_way])

    def finish(self) -> None:
        """Waits for all that is under way."""
        self._drop(list(self._under_way))

    def _drop(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for work in self._under_way.pop(message):
                work.wait()  # also where it is completed: till then the work keeps its tensor
