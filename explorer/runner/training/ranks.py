"""The processes of a training, and what they agree on: an error of one is raised on all, in the same line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from explorer.runner.bundles.request import Backend
from explorer.runner.measuring.place import reduced
from explorer.runner.start.transport import device_of
from solvers.errors import PlacementError, RunError

T = TypeVar("T")
LONGEST = 500
"""Characters of an error that are shown."""


@dataclass(frozen=True)
class Ranks:
    """This process among ``count``. device: where it computes; owns_group: whether the process group was made here."""

    rank: int
    count: int
    device: torch.device
    owns_group: bool

    def all_of(self, value: T) -> list[T]:
        """What every rank gives here, by rank."""
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def extremes(self, number: int) -> tuple[int, int]:
        """The least and the largest of what the ranks give here."""
        most, least = map(int, reduced([number, -number], self._talks_on(), dist.ReduceOp.MAX))
        return -least, most

    def sums(self, *numbers: float) -> list[float]:
        """The sums over ranks, in double precision."""
        return reduced(numbers, self._talks_on())

    def agreed(self, doing: Callable[[], T], what: str = "") -> T:
        """What ``doing`` returns, where no rank failed at it. Else raises RunError on every rank, with the line of the
        first that failed; ``what`` it was doing, where the error does not say so itself."""
        made, error = None, None
        try:
            made = doing()
        except Exception as problem:
            error = problem
        self.settle(error, what)
        return made  # type: ignore[return-value]

    def settle(self, error: Exception | None, what: str = "") -> None:
        """Raises the first rank's error on every rank; None: this one has none. Every rank must call it."""
        if self.extremes(error is not None)[1] == 0:
            return
        lines = self.all_of("" if error is None else one_line(error, what))
        raise RunError(next(line for line in lines if line)) from error

    def _talks_on(self) -> torch.device:
        """Where small numbers are added up: on the CPU if the processes talk there too."""
        return torch.device("cpu") if "gloo" in str(dist.get_backend_config()) else self.device


def one_line(error: BaseException, what: str) -> str:
    """The first line of an error, as a person can use it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = (lines or ["no message"])[0][:LONGEST]
    if isinstance(error, PlacementError):
        return first
    return f"{what + ': ' if what else ''}{type(error).__name__}: {first}"


@contextmanager
def connected(backend: str) -> Iterator[Ranks]:
    """The processes that torchrun started, or this one alone. A process group that is there is taken; one that is made
    here is ended if what is done inside fails. Raises RunError if there are too few GPUs."""
    known = {each.value for each in Backend}
    if backend not in known:
        raise RunError(f"backend: expected {', '.join(sorted(known))}, found {backend!r}")
    owns_group = not dist.is_initialized()
    rank = int(os.environ.get("RANK", "0")) if owns_group else dist.get_rank()
    count = int(os.environ.get("WORLD_SIZE", "1")) if owns_group else dist.get_world_size()
    device = device_of(Backend(backend), count)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if owns_group:
        kind = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if count > 1:
            dist.init_process_group(kind)
        else:  # nobody to meet: no address is needed
            dist.init_process_group(kind, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield Ranks(rank, count, device, owns_group)
    except BaseException:
        if owns_group:
            dist.destroy_process_group()
        raise
