"""From seconds to pixels; of a long steady state the middle is left out, and the ramp and the drain are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from explorer.view.plan_types import PlanView
from explorer.view.timeline.phases import is_pipelined

WANTED = 46.0
"""Pixels that a period of the steady state should have, for its bars to be distinguished and numbered."""
LEAST_SHOWN = 3
"""Periods of the steady state that are drawn on each side of what is left out."""
WORTH = 6
"""Fewer periods than this are not left out: one more picture is easier to read than a break in it."""
BREAK = 40.0
"""Pixels between what is before the break and what is after."""
ALIKE = 0.02
"""Relative difference up to which periods count as alike."""


@dataclass(frozen=True, slots=True)
class TimeScale:
    """start_s to cut_s is drawn from x on, then, after BREAK, resume_s to end_s; without a cut, cut_s and resume_s are
    end_s. left_out: micro-batches between; alike: whether they take equally long, period_s each."""

    x: float
    per_s: float
    end_s: float
    cut_s: float
    resume_s: float
    left_out: int = 0
    period_s: float = 0.0
    alike: bool = False

    @property
    def is_cut(self) -> bool:
        return self.resume_s > self.cut_s

    def at(self, time_s: float) -> float:
        """The pixel of a time; that of the break's near edge for one that is left out."""
        if time_s < self.resume_s or not self.is_cut:
            return self.x + min(time_s, self.cut_s) * self.per_s
        return self.x + self.cut_s * self.per_s + BREAK + (time_s - self.resume_s) * self.per_s

    def parts(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """(x, width) of what is to be seen of an interval: one part, two around the break, or none."""
        if not self.is_cut:
            return [(self.at(start_s), (end_s - start_s) * self.per_s)]
        parts = []
        for low, high in ((0.0, self.cut_s), (self.resume_s, self.end_s)):
            a, b = max(start_s, low), min(end_s, high)
            if b > a:
                left = self.x + a * self.per_s if low == 0.0 else self.at(a)
                parts.append((left, (b - a) * self.per_s))
        return parts


def round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, no less than asked for."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


def time_scale(plan: PlanView, x: float, width: float) -> TimeScale:
    """The scale on which a plan's view is drawn from ``x`` on, ``width`` pixels wide."""
    span = plan["span_s"] or 1.0
    whole = TimeScale(x, width / span, span, span, span)
    starts = _forward_starts(plan)
    limits = _steady(plan)
    if limits is None or len(starts) < 2 * LEAST_SHOWN + WORTH:
        return whole
    inside = [start for start in starts if limits[0] <= start <= limits[1]]
    if len(inside) < 2 * LEAST_SHOWN + WORTH:
        return whole
    periods = [b - a for a, b in pairwise(inside)]
    period = median(periods)
    room = (width - BREAK) / WANTED  # periods that fit
    around = (span - (inside[-1] - inside[0])) / period if period > 0 else room
    shown = max(LEAST_SHOWN, int((room - around) / 2))
    left_out = len(inside) - 1 - 2 * shown
    if period <= 0 or left_out < WORTH:
        return whole
    cut, resume = inside[shown], inside[len(inside) - 1 - shown]
    per_s = (width - BREAK) / (span - (resume - cut))
    alike = max(abs(p - period) for p in periods[shown : shown + left_out]) <= ALIKE * period
    return TimeScale(x, per_s, span, cut, resume, left_out, period, alike)


def _steady(plan: PlanView) -> tuple[float, float] | None:
    """From the end of the last warm-up to the begin of the first drain; None where there is nothing between."""
    if not is_pipelined(plan):
        return None
    rows = [row for row in plan["phases"]["devices"] if row is not None]
    low, high = max((row[0] for row in rows), default=0.0), min((row[1] for row in rows), default=0.0)
    return (low, high) if high > low else None


def _forward_starts(plan: PlanView) -> Sequence[float]:
    """When the busiest stage of the device that decides begins each forward, ascending."""
    on = [i for i, stage in enumerate(plan["stages"]) if plan["bottleneck"] in stage["devices"]]
    if not on:
        return []
    busiest = max(on, key=lambda i: plan["stages"][i]["busy_s"])
    bars = plan["bars"]
    return sorted(
        start
        for start, kind, stage, device in zip(bars["start_s"], bars["kind"], bars["stage"], bars["device"], strict=True)
        if kind == "F" and stage == busiest and device == plan["bottleneck"]
    )
