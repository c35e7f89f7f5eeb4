"""Where to cut a line for as many devices as there are, and how much of each device runs again.

From the end of the line every device takes as much as it may; how much that is, is bisected. What a device runs beyond
its memory it runs again: first its cheap components, then all of its front, one part, up to where the rest fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.pipelines.selective.line import Line

HALVINGS = 30
CLOSE = 1e-4


class Filling(NamedTuple):
    """How full a pipeline is. ahead: micro-batches in flight for each device from here to the end. lean: which share of
    the seconds before a first micro-batch reaches a device, and after the last left it, its load is less by, 0..1."""

    ahead: float
    lean: float


class Cut(NamedTuple):
    """The groups of a device, as places of its line: those from first to again are one part that runs again; of those
    from there to end the cheap ones do if cheaply. in_flight: micro-batches. seconds: of one, backward included."""

    first: int
    again: int
    end: int
    cheaply: bool
    in_flight: int
    seconds: float


def even_cuts_of(line: Line, filling: Filling, caps: Sequence[float]) -> list[Cut] | None:
    """Cuts for at most as many devices as there are ``caps`` (B, in the order of the line), of which the longest takes
    the least time; None if memory does not allow any."""
    low, high = 0.0, float(line.both_s[-1] + line.forward_s[-1]) * line.count
    best = _within(line, filling, caps, high)
    for _ in range(HALVINGS if best is not None else 0):
        middle = (low + high) / 2
        cuts = _within(line, filling, caps, middle)
        if cuts is None:
            low = middle
        else:
            best, high = cuts, middle
        if high - low <= CLOSE * high:
            break
    return best


def _within(line: Line, filling: Filling, caps: Sequence[float], most_s: float) -> list[Cut] | None:
    """The cuts of devices that all take so long at most; None if they do not reach the front of the line.

    A device that is busy for x seconds of a micro-batch, those behind it for b and those before it for a, has
    count x + lean a to do. With the seconds of the whole line in most_s that is (count - lean) x <= most_s + lean b.
    """
    cuts: list[Cut] = []
    end, behind_s = len(line.places) - 1, 0.0
    for follows, cap in enumerate(reversed(caps)):
        in_flight = min(line.count, math.ceil(filling.ahead * (follows + 1)))
        lean = filling.lean if line.count > 1 else 0.0
        cut = _longest(line, end, in_flight, cap, (most_s + lean * behind_s) / (line.count - lean))
        if cut is None:
            return None
        cuts.append(cut)
        end, behind_s = cut.first, behind_s + cut.seconds
        if end == 0:
            return cuts[::-1]
    return None


def shed_bytes(line: Line, in_flight: int) -> Floats:
    """Bytes that a device holds less if all up to a place runs again, but for what it holds in any case, [places]: of
    every micro-batch in flight nothing is saved there, of the one that goes back all of it."""
    return np.maximum.accumulate(in_flight * line.lean_bytes - line.saved_bytes)


def _longest(line: Line, end: int, in_flight: int, cap: float, most_s: float) -> Cut | None:
    """The device that ends there and does as much as it may in so many seconds of a micro-batch, bytes that come in
    counted against it; None if nothing fits."""
    received = line.crossing_bytes[:end]
    room = cap - line.workspace_bytes - (line.static_bytes[end] - line.static_bytes[:end]) - in_flight * received
    plain = in_flight * (line.saved_bytes[end] - line.saved_bytes[:end]) <= room
    shed = shed_bytes(line, in_flight)
    needed = in_flight * line.lean_bytes[end] - line.saved_bytes[:end] - room
    again = np.maximum(np.searchsorted(shed[: end + 1], needed, side="left"), np.arange(end))
    possible = plain | (again <= end)
    again = np.minimum(again, end)
    again_s = line.forward_s[again] - line.forward_s[:end] + line.cheap_s[end] - line.cheap_s[again]
    work_s = line.both_s[end] - line.both_s[:end]
    seconds = work_s + np.where(plain, 0.0, again_s)
    chosen = np.flatnonzero(possible & (seconds <= most_s))
    if not len(chosen):
        return None
    first = 0 if chosen[0] == 0 else int(chosen[(work_s - line.byte_s * received)[chosen].argmax()])
    fits = bool(plain[first])
    return Cut(first, first if fits else int(again[first]), end, not fits, in_flight, float(seconds[first]))
