"""Several small tensors as one message: what a message costs its ranks, it costs however little it carries.

Both ranks know shapes and dtypes, so both lay the tensors out alike: one after the other, each where any dtype may
begin. The receiver reads them where they arrived, and nothing is copied there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
