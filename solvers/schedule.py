"""A schedule: an order with times, as spans on devices and links."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.errors import InvalidPlan

TOLERANCE = 1e-9
"""Relative slack when times are compared."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that occupies a resource from start_s to end_s.

    action: "2F0" for compute, "2F0>1" for the transfer of 2F0's output to device 1. resource:
    "device 3", or the name of a link, lane or shared wire. device: the device it runs on (the
    sender, for a transfer). operator: its position when the span is one operator, else -1.
    to_device: the receiver of a transfer, else -1. nbytes: what a transfer moves.
    """

    action: str
    resource: str
    device: int
    start_s: float
    end_s: float
    nbytes: float = 0.0
    operator: int = -1
    to_device: int = -1

    @property
    def is_transfer(self) -> bool:
        return self.to_device >= 0


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes held on one device: ``nbytes[i]`` from ``times_s[i]`` on. static_bytes is the floor."""

    times_s: tuple[float, ...]
    nbytes: tuple[float, ...]
    static_bytes: float

    @property
    def peak_bytes(self) -> float:
        return max(self.nbytes, default=self.static_bytes)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Spans ordered by start, no two overlapping on one resource of concurrency 1.

    memory: one curve per device. critical: positions of spans that end the schedule's longest
    chain of waiting, in time order. Raises InvalidPlan if spans overlap.
    """

    spans: tuple[Span, ...]
    memory: tuple[MemoryCurve, ...]
    critical: tuple[int, ...] = ()
    shared: frozenset[str] = frozenset()
    """Resources that run any number of spans at once (CPU cores)."""

    def __post_init__(self) -> None:
        last: dict[str, Span] = {}
        for span in self.spans:
            if span.resource in self.shared:
                continue
            before = last.get(span.resource)
            if before is not None and span.start_s < before.end_s - TOLERANCE * max(1e-6, before.end_s):
                raise InvalidPlan(
                    f"{span.resource}: {span.action} starts at {span.start_s} s before {before.action}"
                    f" ends at {before.end_s} s"
                )
            last[span.resource] = span

    @property
    def makespan_s(self) -> float:
        return max((span.end_s for span in self.spans), default=0.0)

    def busy_per_device_s(self) -> tuple[float, ...]:
        """Seconds each device computes, [devices]."""
        busy = [0.0] * len(self.memory)
        for span in self.spans:
            if not span.is_transfer:
                busy[span.device] += span.end_s - span.start_s
        return tuple(busy)

    def busy_s(self, device: int) -> float:
        """Seconds a device computes."""
        return self.busy_per_device_s()[device]

    def idle_s(self, device: int) -> float:
        return self.makespan_s - self.busy_s(device)

    def peak_bytes(self) -> tuple[float, ...]:
        """Largest memory held per device."""
        return tuple(curve.peak_bytes for curve in self.memory)
