"""The call that is traced: a module's forward with everything that stands in around it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explorer.tracing.shims.devices import AUTOCAST, MOVED, OneDevice, autocast_kept, ignore

DEEPEST = 8
"""Containers in containers; deeper ones are left out."""
LOSS = "loss"
LOSS_ALONE = "training goes by the {loss} that the model returns; what else it returns is left out: {others}"
CACHE_DROPPED = "what it keeps for decoding token by token ({kind}) is left out"
STATED = "every selection of rows by value is taken to select {rows:,} ({calls:,} selections), as stated"


@contextmanager
def standing_in(
    module: nn.Module, rows: int | None = None, on_call: Callable[[int], None] = ignore, *, training: bool = False
) -> Iterator[list[str]]:
    """While this lasts the forward of ``module`` (a copy, which stays changed in its configs) returns tensors only.
    rows: how many each selection by value selects. on_call: given the number of calls so far. training: whether, of an
    output that names its loss, that alone is left. Yields the notes, complete at the end."""
    notes: list[str] = []
    dropped: set[str] = set()
    devices = OneDevice(on_call)
    selections = None if rows is None else StatedRows(rows)
    inner = module.forward

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with devices, selections or nullcontext():
            result = tensors_of(inner(*args, **kwargs), dropped)
            return _loss_alone(result, notes) if training else result

    without_caches(module)
    module.forward = forward
    try:
        with autocast_kept() as casts:
            yield notes
    finally:
        vars(module).pop("forward", None)
        notes += [AUTOCAST.format(device=device, dtype=dtype) for device, dtype in sorted(casts)]
        notes += [MOVED.format(device=device) for device in sorted(devices.named)]
        notes += [CACHE_DROPPED.format(kind=kind) for kind in sorted(dropped)]
        if selections is not None and selections.calls:
            notes.append(STATED.format(rows=selections.rows, calls=selections.calls))


def _loss_alone(result: object, notes: list[str]) -> object:
    """Of a dict with a loss that training can go by, that; all else as it is."""
    loss = result.get(LOSS) if isinstance(result, dict) else None
    if not (isinstance(result, dict) and isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad):
        return result
    if others := ", ".join(sorted(key for key in result if key != LOSS)):
        notes[:] = [LOSS_ALONE.format(loss=LOSS, others=others)]
    return {LOSS: loss}


def tensors_of(value: object, dropped: set[str], depth: int = 0) -> object:
    """The tensors of ``value`` in dicts and tuples of the same shape; None where there is none. What is left out
    though it holds tensors is named in ``dropped``."""
    if isinstance(value, Tensor):
        return value
    if depth > DEEPEST or isinstance(value, (str, bytes, int, float, bool, complex, nn.Module)) or value is None:
        return None
    if "Cache" in type(value).__name__:
        dropped.add(type(value).__name__)
        return None
    if isinstance(value, Mapping):
        return _some({str(key): tensors_of(inner, dropped, depth + 1) for key, inner in value.items()})
    if isinstance(value, (list, tuple, set, frozenset)):
        inner_tensors = [tensors_of(inner, dropped, depth + 1) for inner in value]
        return tuple(inner for inner in inner_tensors if inner is not None) or None
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name, None) for field in fields(value)}
    else:
        named = dict(vars(value)) if hasattr(value, "__dict__") else {}
    return _some({name: tensors_of(inner, dropped, depth + 1) for name, inner in named.items()})


def _some(by_name: dict[str, Any]) -> dict[str, Any] | None:
    return {name: inner for name, inner in by_name.items() if inner is not None} or None


def without_caches(module: nn.Module) -> None:
    """Turns off, in every config that ``module`` (a copy) carries, what only decoding needs."""
    for part in module.modules():
        for held in (getattr(part, "config", None), getattr(part, "generation_config", None)):
            if getattr(held, "use_cache", None):
                held.use_cache = False  # type: ignore[union-attr]


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
            positions = self._positions(args[0])
            return positions if kwargs.get("as_tuple") else torch.stack(positions, dim=1)
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
