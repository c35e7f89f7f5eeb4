"""Rows that a forward selects by their values (which tokens an expert gets), where somebody states how many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

STATED = "every selection of rows by value is taken to select {rows:,} ({calls:,} selections), as stated"


class StatedRows(TorchFunctionMode):
    """`torch.nonzero`, `torch.where` of a condition alone and indexing with a mask select ``rows`` rows (at most all):
    those of a sort of the same size. calls: how many were met."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.nonzero, Tensor.nonzero):
            found = self._positions(args[0])
            return found if kwargs.get("as_tuple") else torch.stack(found, dim=1)
        if func is torch.where and len(args) == 1 and not kwargs:
            return self._positions(args[0])
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _is_mask(args[1]):
            return func(args[0], self._positions(args[1]), *args[2:])
        if func is Tensor.__getitem__ and isinstance(args[1], tuple) and any(map(_is_mask, args[1])):
            index = tuple(part for item in args[1] for part in (self._positions(item) if _is_mask(item) else (item,)))
            return func(args[0], index)
        return func(*args, **kwargs)

    def _positions(self, mask: Tensor) -> tuple[Tensor, ...]:
        """One index tensor of [rows] for each dimension."""
        self.calls += 1
        flat = mask.reshape(-1).to(torch.float32)
        return tuple(torch.unravel_index(flat.topk(min(self.rows, flat.shape[0])).indices, mask.shape))


def _is_mask(index: object) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) and index.dim() > 0
