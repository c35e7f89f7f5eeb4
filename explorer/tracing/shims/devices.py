"""CUDA in a forward, on a fake CPU: its devices are the fake CPU, its autocast is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.amp import autocast_mode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

ACCELERATORS = ("cuda", "xpu", "mps", "npu", "hpu")
"""Types of device that a forward may name."""

AUTOCAST = (
    "autocast for {device} is traced with the operators that a CPU's casts: products run in {dtype}, some norms and"
    " sums differ"
)
MOVED = "the forward names the device {device!r}: traced as if all were on one"

Call = Callable[..., Any]


def ignore(_: int) -> None:
    return None


class OneDevice(TorchFunctionMode):
    """Whatever is made on or sent to an accelerator stays where the trace runs. named: devices that were met.
    on_call is given the number of calls so far."""

    def __init__(self, on_call: Callable[[int], None] = ignore) -> None:
        super().__init__()
        self.named: set[str] = set()
        self.calls, self.on_call = 0, on_call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        self.on_call(self.calls)
        if func in (Tensor.cuda, Tensor.xpu):
            self.named.add("cuda")
            return args[0]
        args, kwargs = pytree.tree_map_only(torch.device, self._here, (args, kwargs))
        kwargs = {key: self._here(value) if key == "device" else value for key, value in kwargs.items()}
        if func is Tensor.to and len(args) > 1:
            args = (args[0], self._here(args[1]), *args[2:])
        return func(*args, **kwargs)

    def _here(self, device: Any) -> Any:
        kind = device.type if isinstance(device, torch.device) else device
        if isinstance(kind, int) and not isinstance(kind, bool):
            kind = "cuda"  # a bare number is an accelerator
        if not isinstance(kind, str) or kind.partition(":")[0] not in ACCELERATORS:
            return device
        self.named.add(kind.partition(":")[0])
        return torch.device("cpu")


@contextmanager
def autocast_kept() -> Iterator[set[tuple[str, str]]]:
    """torch.autocast of a device that is not here would be switched off, with a warning that nobody sees; it
    casts as a CPU's does. Yields (device, dtype) of each that was entered."""
    seen: set[tuple[str, str]] = set()
    begin: Call = autocast_mode.autocast.__init__

    def begun(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type in ACCELERATORS:
            dtype = dtype or (torch.float16 if device_type == "cuda" else torch.bfloat16)
            if enabled:
                seen.add((device_type, str(dtype).removeprefix("torch.")))
            device_type = "cpu"
        begin(self, device_type, dtype, enabled, cache_enabled)

    with patch.object(autocast_mode.autocast, "__init__", begun):
        yield seen
