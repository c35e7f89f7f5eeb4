"""The call that is traced: a module's forward with everything that stands in around it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn

from explorer.tracing.standins.devices import AUTOCAST, MOVED, OneDevice, autocast_kept, ignore
from explorer.tracing.standins.outputs import CACHE_DROPPED, tensors_of, without_caches
from explorer.tracing.standins.selections import STATED, StatedRows


@contextmanager
def standing_in(
    module: nn.Module, rows: int | None = None, on_call: Callable[[int], None] = ignore
) -> Iterator[list[str]]:
    """While this lasts the forward of ``module`` (a copy, which stays changed in its configs) returns tensors only.
    rows: how many each selection by value selects. on_call: given the number of calls so far. Yields the notes,
    complete at the end."""
    notes: list[str] = []
    dropped: set[str] = set()
    devices = OneDevice(on_call)
    selections = None if rows is None else StatedRows(rows)
    inner = module.forward

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with devices, selections or nullcontext():
            return tensors_of(inner(*args, **kwargs), dropped)

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
