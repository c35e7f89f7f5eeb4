"""Between measured sizes of one class: a line through them, and what they are off it.

The line is seconds = launch + FLOPs / rate + bytes / bandwidth with no part below 0, of least squares of relative
errors. What measured calls are off the line (a product that is narrow, a tensor that fits a cache) is carried over to
calls of like size: the mean of the logarithms, weighted by the inverse square of the distance, where a distance of 1 is
a factor of 2 in one of the sizes. So a call in the midst of measured ones goes by these, and one far from all by the
line. Which of several rules to take was decided by their errors at held-out batch sizes and models (docs/costs.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.costs.least_squares import coefficients
from explorer.costs.times.calls import Size

Floats = NDArray[np.float64]

NEAR = 1.0
"""Distance below which one measured call is as good as another."""
FAR = 4.0
"""Distance from which on what a measured call is off the line says less than that there is a line: factors of 2."""
REACH = 2.0
"""Factors of 2 beyond the smallest and largest measured, in FLOPs and in bytes, up to which a time counts as
interpolated; a time farther off is an estimate."""


@dataclass(frozen=True)
class Curve:
    """Measured calls of one class. sizes: logarithms to base 2, [calls, sizes]; line: launch_s, seconds a FLOP, seconds
    a byte; off: logarithm of seconds over the line's, [calls]."""

    sizes: Floats
    line: Floats
    off: Floats

    def seconds(self, wanted: Sequence[Size]) -> tuple[Floats, NDArray[np.bool_]]:
        """(seconds, whether that is interpolated), [wanted]."""
        points = _logs(wanted)
        distances = ((points[:, None, :] - self.sizes[None, :, :]) ** 2).sum(axis=2)
        weights = 1.0 / (distances + NEAR**2)
        off = (weights * self.off).sum(axis=1) / (weights.sum(axis=1) + 1.0 / FAR**2)
        bounds = self.sizes[:, :2].min(axis=0) - REACH, self.sizes[:, :2].max(axis=0) + REACH
        inside = ((points[:, :2] >= bounds[0]) & (points[:, :2] <= bounds[1])).all(axis=1)
        return _columns(wanted) @ self.line * np.exp(off), inside


def curve(sizes: Sequence[Size], seconds: Sequence[float]) -> Curve:
    """Through at least one measured call."""
    taken = np.array(seconds, dtype=np.float64)
    line = coefficients(_columns(sizes), taken)
    return Curve(_logs(sizes), line, np.log(taken / (_columns(sizes) @ line)))


def _columns(sizes: Sequence[Size]) -> Floats:
    return np.array([(1.0, size.flops, size.moved_bytes) for size in sizes], dtype=np.float64).reshape(-1, 3)


def _logs(sizes: Sequence[Size]) -> Floats:
    return np.log2(1.0 + np.array(sizes, dtype=np.float64).reshape(-1, len(Size._fields)))
