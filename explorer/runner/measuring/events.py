"""Moments in the queue of a GPU's stream: events, whose times are read once the device has come to the end of it.

What is asked of torch here is an interface of its own (`Gpu`, which `torch.cuda` has), so that how events are paired,
used again and read can be tested where there is no GPU.
"""

from __future__ import annotations

from typing import Protocol, Self, cast

import torch


class Event(Protocol):
    """A moment in a stream's queue."""

    def record(self, stream: object) -> None: ...
    def elapsed_time(self, end: Self) -> float:
        """Milliseconds from this one to another, both of which have come."""
        ...


class Gpu(Protocol):
    """What of `torch.cuda` events need."""

    def Event(self, *, enable_timing: bool) -> Event: ...  # noqa: N802
    def current_stream(self, device: torch.device) -> object: ...
    def synchronize(self, device: torch.device) -> None: ...


class Events:
    """Marks set in the current stream, by number, each an event that is used again after the next `start`."""

    def __init__(self, device: torch.device, gpu: Gpu | None = None) -> None:
        self.device, self.gpu = device, cast(Gpu, torch.cuda) if gpu is None else gpu
        self._made: list[Event] = []
        self.used = 0

    def start(self) -> None:
        """Forget all marks."""
        self.used = 0

    def mark(self) -> int:
        """The number of a new mark, from 0."""
        if self.used == len(self._made):
            self._made.append(self.gpu.Event(enable_timing=True))
        self._made[self.used].record(self.gpu.current_stream(self.device))
        self.used += 1
        return self.used - 1

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued: only then are there times."""
        self.gpu.synchronize(self.device)

    def seconds(self, mark: int) -> float:
        """From mark 0 to another."""
        return self._made[0].elapsed_time(self._made[mark]) * 1e-3
