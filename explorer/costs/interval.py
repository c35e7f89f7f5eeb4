"""How far off an estimated time may be, from kernels that no curve was fitted to.

Within a class all kernels are taken to be off alike, which is the worst for their sum; classes are taken to be off
independently of one another, so their parts add up in squares. What is reported is the middle 80 %: nine in ten such
kernels took no more, and nine in ten no less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from explorer.costs.curves import HeldOut, curves
from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.efficiency import WorkClass
from explorer.costs.roofline import dtype_of, measured_curve
from explorer.costs.shapes import shapes
from explorer.words import text
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

LIKE = {
    WorkClass.CONVOLUTIONS: WorkClass.PRODUCTS,
    WorkClass.ATTENTION_BACKWARD: WorkClass.ATTENTION,
    WorkClass.MEMORY: WorkClass.ELEMENTWISE,
}
"""Whose residuals a class takes of which no kernels were measured."""
ESTIMATED = "roofline"
"""How `Problem.costs_from` begins where all times are estimated."""
DIGITS = 3
"""Significant digits up to which seconds of kernels are distinguished."""


class Interval(NamedTuple):
    """Seconds between which a time may lie, the predicted one within."""

    low_s: float
    high_s: float

    def words(self) -> str:
        """ "2.5 to 3.3 s"."""
        low, high = text.seconds_alike((self.low_s, self.high_s), 2)
        return f"{low.split()[0]} to {high}"


class Kernel(NamedTuple):
    """Kernels that are off by one factor: of a kind of device, a class, and as long as one another."""

    kind: str
    work: WorkClass
    seconds: float


def residual(device: DeviceKind, dtype: str, work: WorkClass) -> HeldOut | None:
    """Estimated over measured seconds of kernels that were held out, of the class's curve on the device; without one,
    of its shares on the devices that were measured (the median of each percentile). None for CPUs, of which no kernel
    was measured."""
    if device.name.startswith("cpu"):
        return None
    curve = measured_curve(device, dtype, work)
    if curve is not None:
        return curve.held_out
    of = LIKE.get(work, work)
    every = [one.by_shares for one in curves().attention.values()] if of is WorkClass.ATTENTION else [
        one.by_shares for (_, kind), one in curves().by_class.items() if kind is of]  # fmt: skip
    rows = sum(one.rows for one in every)
    return HeldOut(rows, *(float(np.median([getattr(one, key) for one in every])) for key in ("low", "median", "high")))


def interval(problem: Problem, plan: Plan | None, seconds: float) -> Interval | None:
    """Of a predicted time of the plan: bubbles, which are made of operators, scale as these do. None where times are
    not all estimated, residuals of a device are not known, or there is no plan."""
    estimated = problem.costs_from.startswith(ESTIMATED) and not problem.compute.origins
    if plan is None or not estimated or not np.isfinite(seconds):
        return None
    by_class: dict[tuple[str, WorkClass], float] = {}
    for on_device in kernels(problem, plan).values():
        for kernel, taken in on_device.items():
            key = kernel.kind, kernel.work
            by_class[key] = by_class.get(key, 0.0) + taken
    total, dtype = sum(by_class.values()), dtype_of(problem.graph)
    centre = above = below = 0.0
    for (kind, work), taken in by_class.items():
        off = residual(DEVICES[kind], dtype, work) if kind in DEVICES else None
        if off is None:
            return None
        part = taken / total
        centre += part / off.median
        above += (part * (1 / off.low - 1 / off.median)) ** 2
        below += (part * (1 / off.median - 1 / off.high)) ** 2
    if total <= 0:
        return None
    return Interval(seconds * min(1.0, centre - below**0.5), seconds * max(1.0, centre + above**0.5))


def and_interval(problem: Problem, plan: Plan | None, seconds: float) -> str:
    """ ", 2.5 to 3.3 s", to stand behind the time; "" where no interval is known."""
    within = interval(problem, plan, seconds)
    return "" if within is None else f", {within.words()}"


def kernels(problem: Problem, plan: Plan) -> Mapping[int, Mapping[Kernel, float]]:
    """Device -> what it runs for a mini-batch, and how long."""
    work = shapes(problem.graph).work
    once = np.array([operator.phase is Phase.UPDATE for operator in problem.graph.operators])
    by_device: dict[int, dict[Kernel, float]] = {}
    for stage in plan.stages:
        samples, times = stage.micro_batch_size / len(stage.devices), problem.mini_batch / stage.micro_batch_size
        for device in stage.devices:
            kind = problem.cluster.devices[device].kind
            seconds = problem.compute.at(kind, samples)
            on_device = by_device.setdefault(device, {})
            for o in stage.operators:
                if 0 < seconds[o] < np.inf:
                    kernel = Kernel(kind, WorkClass(work[o]), float(f"{seconds[o]:.{DIGITS}g}"))
                    taken = float(seconds[o]) * (1.0 if once[o] else times)
                    on_device[kernel] = on_device.get(kernel, 0.0) + taken
    return by_device


def distinguishable(problem: Problem, first: Plan, second: Plan, first_s: float, second_s: float) -> bool | None:
    """Whether predicted times of two plans differ by more than estimates of what they do differently are off.

    Compared is what their busiest devices run, as a share of the time: kernels that both run alike are off by the same
    and take nothing from the difference; every other kernel is off by itself. None where no interval is known.
    """
    if interval(problem, first, first_s) is None or interval(problem, second, second_s) is None:
        return None
    difference: dict[Kernel, float] = {}
    for plan, seconds, sign in ((first, first_s, 1.0), (second, second_s, -1.0)):
        busiest = max(kernels(problem, plan).values(), key=lambda one: sum(one.values()))
        scale = seconds / sum(busiest.values())
        for kernel, taken in busiest.items():
            difference[kernel] = difference.get(kernel, 0.0) + sign * scale * taken
    off, dtype = 0.0, dtype_of(problem.graph)
    for kernel, more in difference.items():
        held_out = residual(DEVICES[kernel.kind], dtype, kernel.work)
        assert held_out is not None
        off += (more * (1 / held_out.low - 1 / held_out.high) / 2) ** 2
    return bool(abs(first_s - second_s) > off**0.5)
