"""A schedule: an order with times, as columns of spans on devices and links."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import ACTION_KINDS

TOLERANCE = 1e-9
"""Relative slack when times are compared."""

SPAN_KINDS = ACTION_KINDS + "S"
"""What a span is of: an action, or "S", the all-reduce of the gradients of a stage's replicas."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that occupies a resource from start_s to end_s.

    action: "2F0" for compute, "2F0>1" for the transfer of 2F0's output to device 1, "2F0>" for the sender's
    half of a transfer, "2S>1" for the all-reduce of stage 2's gradients. resource: "device 3", or the name of
    a link, lane or shared wire. device: the device it runs on (the sender, for a transfer). operator: its
    position when the span is one operator, else -1. to_device: the receiver of a transfer (the sender itself
    for its half), else -1. nbytes: what a transfer moves.
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
        """Whether it sends a tensor to another device."""
        return self.to_device >= 0


class SpanColumns(NamedTuple):
    """Spans as columns, ordered by start, then end; see `Span` for what a row means."""

    start_s: Floats
    """[spans] s"""
    end_s: Floats
    """[spans] s"""
    stage: Ints
    """[spans] the stage that computes, or whose (last) action made what a transfer carries"""
    kind: Ints
    """[spans] position in SPAN_KINDS"""
    micro_batch: Ints
    """[spans] of the stage; 0 for updates and all-reduces"""
    operator: Ints
    """[spans] position of the operator if the span is a single one, else -1; -1 for transfers"""
    device: Ints
    """[spans] the device that computes or sends"""
    to_device: Ints
    """[spans] -1 for compute; the receiver; the sender itself for its half of a transfer"""
    resource: Ints
    """[spans] position in `Schedule.resources`"""
    nbytes: Floats
    """[spans] B that a transfer moves, 0 for compute"""
    sender: Ints
    """[spans] the operator that made what is sent, or that the span is; -1 if that is no single one"""
    reader: Ints
    """[spans] the first operator to run that reads what is brought, or that the span is; -1 likewise"""


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes held on one device: ``nbytes[i]`` from ``times_s[i]`` on. static_bytes is the floor."""

    times_s: tuple[float, ...]
    nbytes: tuple[float, ...]
    static_bytes: float

    @property
    def peak_bytes(self) -> float:
        """The most that is held at any time."""
        return max(self.nbytes, default=self.static_bytes)


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Spans ordered by start, no two overlapping on one resource of concurrency 1.

    columns: the spans. resources: the names of the resources they occupy. memory: one curve per device.
    critical: positions of spans that end the schedule's longest chain of waiting, in time order. Raises
    InvalidPlan if spans overlap.
    """

    columns: SpanColumns
    resources: tuple[str, ...]
    memory: tuple[MemoryCurve, ...]
    critical: tuple[int, ...] = ()
    shared: frozenset[str] = frozenset()
    """Resources that run any number of spans at once (CPU cores)."""
    cause: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """[spans] position of the span whose end let each one start: the last of those it waited for, or the one that
    left its resource; -1 for none. Empty where not recorded."""
    ready_s: Floats = field(default_factory=lambda: np.zeros(0))
    """[spans] s from which each could have started, had its resource been free. Empty likewise."""
    alike: tuple[tuple[int, ...], ...] = ()
    """Devices that do the same at the same times, as many in each tuple, the first of which has spans that stand for
    those of all; at one place in all tuples are devices that send to each other, but for gradients, which the last of a
    stage sends to the first at the next place. Empty where every device has spans of its own."""

    def __post_init__(self) -> None:
        columns = self.columns
        order = np.argsort(columns.resource, kind="stable")  # within a resource by start
        start, end, resource = columns.start_s[order], columns.end_s[order], columns.resource[order]
        slack = TOLERANCE * np.maximum(1e-6, end[:-1])
        over = (resource[1:] == resource[:-1]) & (start[1:] < end[:-1] - slack)
        for i in np.flatnonzero(over):
            name = self.resources[resource[i]]
            if name not in self.shared:
                before, after = int(order[i]), int(order[i + 1])
                raise InvalidPlan(
                    f"{name}: {self.action(after)} starts at {columns.start_s[after]} s before {self.action(before)}"
                    f" ends at {columns.end_s[before]} s"
                )

    def __repr__(self) -> str:
        return f"Schedule({len(self):,} spans on {len(self.resources):,} resources, makespan_s={self.makespan_s:.4g})"

    def __len__(self) -> int:
        return len(self.columns.start_s)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The rows of the columns as values, made when first asked for."""
        c = self.columns
        rows = zip(
            c.resource.tolist(), c.device.tolist(), c.start_s.tolist(), c.end_s.tolist(), c.nbytes.tolist(),
            c.operator.tolist(), c.to_device.tolist(), strict=True,
        )  # fmt: skip
        actions = _actions(c)
        names = self.resources
        return tuple(
            Span(action, names[resource], device, start, end, nbytes, operator, to_device)
            for action, (resource, device, start, end, nbytes, operator, to_device) in zip(actions, rows, strict=True)
        )

    def action(self, position: int) -> str:
        """What the span at a position is of: see `Span`."""
        return _actions(SpanColumns._make(column[position : position + 1] for column in self.columns))[0]

    @property
    def makespan_s(self) -> float:
        """When the last span ends."""
        return float(self.columns.end_s.max(initial=0.0))

    def busy_per_device_s(self) -> tuple[float, ...]:
        """Seconds each device computes, [devices]."""
        computes = self.columns.to_device < 0
        took = self.columns.end_s[computes] - self.columns.start_s[computes]
        busy = np.bincount(self.columns.device[computes], took, minlength=len(self.memory))
        for same in self.alike:
            busy[list(same)] = busy[same[0]]
        return tuple(busy.tolist())

    def busy_s(self, device: int) -> float:
        """Seconds a device computes."""
        return self.busy_per_device_s()[device]

    def idle_s(self, device: int) -> float:
        """Seconds in which a device does not compute."""
        return self.makespan_s - self.busy_s(device)

    def peak_bytes(self) -> tuple[float, ...]:
        """Largest memory held per device."""
        peak = {id(curve): curve.peak_bytes for curve in {id(curve): curve for curve in self.memory}.values()}
        return tuple(peak[id(curve)] for curve in self.memory)


def _actions(columns: SpanColumns) -> list[str]:
    texts = []
    rows = zip(
        columns.stage.tolist(), columns.kind.tolist(), columns.micro_batch.tolist(), columns.device.tolist(),
        columns.to_device.tolist(), strict=True,
    )  # fmt: skip
    for stage, number, micro_batch, device, to_device in rows:
        kind = SPAN_KINDS[number]
        text = f"{stage}{kind}" if kind in "US" else f"{stage}{kind}{micro_batch}"
        if to_device >= 0:
            text += ">" if to_device == device else f">{to_device}"
        texts.append(text)
    return texts
