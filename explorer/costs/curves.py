"""How much longer kernels take than a data sheet allows, from kernels that were measured, by device and class.

A table that ships (`curves.json`) is all that planning reads; ``python -m explorer.costs.fit FOLDER`` makes it again
from measured kernels. Nothing in it is fitted to a model or to an iteration.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from explorer.costs.efficiency import WorkClass
from solvers.kernels.arrays import Floats

TABLE = Path(__file__).parent / "curves.json"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Estimated over measured seconds of kernels that were not fitted.

    rows: how many kernels.
    low, median, high: percentiles 10, 50 and 90.
    """

    rows: int
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of a kernel of one class on one kind of device against its ideal seconds, by the data sheet's rates.

    device, work: what was measured.
    ideal_s: ascending, [points].
    slowdown: measured over ideal seconds, at least 1 and never more for a larger kernel, [points].
    rows: how many kernels were fitted; held_out: how the curve meets those that were not, and by_shares how the shares
    of `efficiency` do.
    """

    device: str
    work: WorkClass
    ideal_s: Floats
    slowdown: Floats
    rows: int
    held_out: HeldOut
    by_shares: HeldOut

    def seconds(self, ideal_s: Floats) -> Floats:
        """Seconds of kernels of any shape of array. Below the first point they are constant (what a kernel takes at the
        least), above the last the slowdown is."""
        x = np.log2(np.maximum(ideal_s, 1e-12))
        slowdown: Floats = np.exp2(np.interp(x, np.log2(self.ideal_s), np.log2(self.slowdown)))
        seconds: Floats = np.maximum(ideal_s * slowdown, self.ideal_s[0] * self.slowdown[0])
        return seconds


@dataclass(frozen=True, slots=True)
class AttentionCurve:
    """Fused attention: seconds = start_s + ideal seconds / share, by length of the sequence and width of a head.

    widths: of a head, ascending, [widths].
    sequence: tokens of a sequence, ascending, [lengths].
    share: of the ideal rate, [widths, lengths].
    start_s: what a kernel takes at the least, [widths, lengths].
    """

    device: str
    widths: Floats
    sequence: Floats
    share: Floats
    start_s: Floats
    rows: int
    held_out: HeldOut
    by_shares: HeldOut

    def seconds(self, ideal_s: Floats, sequence: Floats, width: Floats) -> Floats:
        """ideal_s: [operators, points], for the arithmetic that the mask leaves. sequence, width: [operators].
        A width between two that were measured takes the nearer, a length what is interpolated in its logarithm."""
        nearest = np.abs(np.log2(self.widths)[None, :] - np.log2(width)[:, None]).argmin(axis=1)
        share, start = (np.empty((len(width), 1)) for _ in range(2))
        for of in np.unique(nearest):
            at = nearest == of
            x, points = np.log2(np.maximum(sequence[at], 1.0)), np.log2(self.sequence)
            share[at, 0] = np.interp(x, points, self.share[of])
            start[at, 0] = np.interp(x, points, self.start_s[of])
        return start + ideal_s / share


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """What links between devices of a kind were measured to do: a message, or a collective of ``devices`` as a ring,
    takes ``latency_s`` for each of its steps and its bytes over the bandwidth. Plans take these where they are asked
    for (`--wiring measured`)."""

    device: str
    operation: str
    devices: int
    latency_s: float
    bandwidth_bytes_per_s: float
    rows: int
    held_out: HeldOut


@dataclass(frozen=True, slots=True)
class Curves:
    """All that was fitted, by device kind and class."""

    by_class: dict[tuple[str, WorkClass], Curve]
    attention: dict[str, AttentionCurve]
    links: tuple[MeasuredLink, ...] = ()

    def of(self, device: str, work: WorkClass) -> Curve | AttentionCurve | None:
        """The curve of a device's class, that of its nearest kin where it was not measured; None where no kin was."""
        curves: dict[str, Any] = (
            dict(self.attention)
            if work is WorkClass.ATTENTION
            else {kind: curve for (kind, of), curve in self.by_class.items() if of is work}
        )
        return next((curves[kind] for kind in (device, *KIN.get(device, ())) if kind in curves), None)

    def link(self, device: str, operation: str, devices: int) -> MeasuredLink | None:
        """The line of an operation among at least so many devices of this very kind, the fewest that were measured;
        None where there is none."""
        links = [one for one in self.links if (one.device, one.operation) == (device, operation)]
        return min((one for one in links if one.devices >= devices), key=lambda one: one.devices, default=None)


KIN = {
    "V100-16GB": ("A100-80GB",),
    "V100-32GB": ("A100-80GB",),
    "A100-40GB": ("A100-80GB",),
    "H100-80GB": ("A100-80GB",),
    "H200-141GB": ("H100-80GB", "A100-80GB"),
    "B200-180GB": ("H200-141GB", "A100-80GB"),
    "GB200-186GB": ("B200-180GB", "H200-141GB", "A100-80GB"),
    "L4-24GB": ("L40S-48GB", "A100-80GB"),
    "L40S-48GB": ("A100-80GB",),
    "A10G-24GB": ("L40S-48GB", "A100-80GB"),
    "RTX4090-24GB": ("L40S-48GB", "A100-80GB"),
    "RTX4060M-8GB": ("L40S-48GB", "A100-80GB"),
}
"""Whose curves a device takes that was not measured, the nearest first: the same generation, then the one next to it.
A device that is not here (CPUs, AMD's) keeps the shares of `efficiency`."""


@cache
def curves() -> Curves:
    """What ships."""
    return read_curves(json.loads(TABLE.read_text(encoding="utf-8")))


def read_curves(value: dict[str, Any]) -> Curves:
    """Of the value of a `curves.json` of ours."""
    by_class: dict[tuple[str, WorkClass], Curve] = {}
    attention: dict[str, AttentionCurve] = {}
    for each in value["curves"]:
        device, work, held_out = each["device"], WorkClass(each["class"]), HeldOut(**each["held_out"])
        by_shares = HeldOut(**each["by_shares"])
        if work is WorkClass.ATTENTION:
            widths, sequence, share, start_us = (
                np.array(each[key], dtype=np.float64) for key in ("widths", "sequence", "share", "start_us")
            )
            attention[device] = AttentionCurve(
                device, widths, sequence, share, start_us * 1e-6, each["rows"], held_out, by_shares
            )
        else:
            ideal_s = np.array(each["ideal_us"], dtype=np.float64) * 1e-6
            # Both orders hold to the last bit, which numbers of four digits do not.
            slowdown = np.minimum.accumulate(np.array(each["slowdown"], dtype=np.float64))
            slowdown = np.maximum.accumulate(slowdown * ideal_s) / ideal_s
            by_class[device, work] = Curve(device, work, ideal_s, slowdown, each["rows"], held_out, by_shares)
    links = tuple(
        MeasuredLink(
            each["device"], each["operation"], each["devices"], each["latency_us"] * 1e-6, each["gb_per_s"] * 1e9,
            each["rows"], HeldOut(**each["held_out"]),
        )
        for each in value.get("links", ())
    )  # fmt: skip
    return Curves(by_class, attention, links)
