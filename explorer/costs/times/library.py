"""Operator times: what calls took on one piece of hardware, whichever models they are of. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated

from explorer.costs.devices import CPU_CORE, DEVICES
from explorer.costs.measured import catalogue_kind
from explorer.costs.times.calls import Call
from solvers.errors import InvalidProblem
from solvers.formats.records import STATED, Within
from solvers.problem.cluster import CPU_KIND

MAX_TIMES = 1_000_000
MAX_SOURCES = 10_000
MAX_DIMENSIONS = 64
MAX_NAME = 200
Name = Annotated[str, Within(most=MAX_NAME)]
NOT_STATED = "not stated"
"""Of the versions of what a file from elsewhere was measured with."""


@dataclass(frozen=True, slots=True)
class Source:
    """One measurement. reference: the model, or the trace. processes: how many computed at once.

    noise: of a fixed piece of work, as a share; None where nobody looked.
    """

    reference: Name
    date: Name
    clock: Name
    processes: Annotated[int, Within(1), STATED] = 1
    noise: Annotated[float | None, STATED] = None


@dataclass(frozen=True, slots=True)
class CallTime:
    """What one call took. shape: of what its forward gives, for people. samples: at which it was seen.

    seconds: the median. spread: how far that is over the lower quartile, as a share of the latter. count: of the
    operators that did just this (in a trace, of the times that they ran). source: position in the library's.
    """

    call: Call
    seconds: float
    spread: float
    count: Annotated[int, Within(1)]
    samples: Annotated[int, Within(1)]
    shape: Annotated[tuple[int, ...], Within(most=MAX_DIMENSIONS), STATED] = ()
    source: Annotated[int, STATED] = 0


@dataclass(frozen=True, slots=True)
class Library:
    """Measured calls, each once. Raises InvalidProblem if the parts do not fit together.

    hardware: as the system names it: "NVIDIA H200". threads: of a process on a CPU.
    """

    hardware: Name
    threads: Annotated[int, Within(1)]
    torch: Name
    python: Name
    sources: Annotated[tuple[Source, ...], Within(most=MAX_SOURCES)]
    times: Annotated[tuple[CallTime, ...], Within(most=MAX_TIMES)]

    def __post_init__(self) -> None:
        if not self.hardware.strip():
            raise InvalidProblem("hardware: expected a name")
        if not self.sources or not self.times:
            raise InvalidProblem("a library holds at least one source and one time")
        if len({time.call for time in self.times}) != len(self.times):
            raise InvalidProblem("times: a call occurs twice")
        for position, time in enumerate(self.times):
            where = f"times[{position}] ({time.call.of.op_type[:80]})"
            if not (math.isfinite(time.seconds) and time.seconds > 0):
                raise InvalidProblem(f"{where}: seconds must be finite and more than 0, found {time.seconds}")
            if not (math.isfinite(time.spread) and time.spread >= 0):
                raise InvalidProblem(f"{where}: spread must be finite and at least 0, found {time.spread}")
            if not 0 <= time.source < len(self.sources):
                raise InvalidProblem(f"{where}: there is no source {time.source} (there are {len(self.sources)})")

    @property
    def kind(self) -> str:
        """The catalogue's kind of device that these are times of. Raises InvalidProblem if it has none."""
        kind = catalogue_kind(self.hardware)
        if kind is None:
            known = ", ".join(name for name in DEVICES if name != CPU_KIND)
            raise InvalidProblem(f"there is no kind of device for {self.hardware[:80]!r}; known are {known}")
        return kind

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(sorted({time.call.of.dtype for time in self.times}))

    def label(self) -> str:
        """For `Problem.costs_from`: "operator times of NVIDIA H200, torch 2.13.0, gpt and bert, 2026-11-23"."""
        on_cpu = self.kind == CPU_CORE
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if on_cpu else ""
        models = list(dict.fromkeys(source.reference for source in self.sources))
        named = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
        dates = sorted({source.date[:10] for source in self.sources})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        version = "" if self.torch == NOT_STATED else f", torch {self.torch}"
        return f"operator times of {self.hardware}{threads}{version}, from {named}, {when}"


def merged(old: Library, new: Library) -> Library:
    """Both together. What both have is the mean, weighted by count, with the newer source. Raises InvalidProblem where
    they are not of one hardware and one version of torch."""
    for what, before, after in (
        ("hardware", old.hardware, new.hardware),
        ("threads", old.threads, new.threads),
        ("torch", old.torch, new.torch),
    ):
        if before != after:
            raise InvalidProblem(
                f"it holds times of {what} {str(before)[:80]!r}, and these are of {str(after)[:80]!r}; times of one"
                " file are comparable, so write these to another"
            )
    moved = [replace(time, source=time.source + len(old.sources)) for time in new.times]
    return replace(old, sources=(*old.sources, *new.sources), times=pooled([*old.times, *moved]))


def pooled(times: list[CallTime]) -> tuple[CallTime, ...]:
    """Every call once, in the order of their first occurrence: means weighted by count."""
    groups: dict[Call, list[CallTime]] = {}
    for time in times:
        groups.setdefault(time.call, []).append(time)
    return tuple(_pool(same) if len(same) > 1 else same[0] for same in groups.values())


def _pool(same: list[CallTime]) -> CallTime:
    count = sum(time.count for time in same)
    return replace(
        same[-1],
        seconds=sum(time.seconds * time.count for time in same) / count,
        spread=sum(time.spread * time.count for time in same) / count,
        count=count,
    )


def typical(seconds: list[float], spreads: list[float]) -> tuple[float, float]:
    """(seconds, spread) of operators that do the same in one model: the median of each."""
    return median(seconds), median(spreads)
