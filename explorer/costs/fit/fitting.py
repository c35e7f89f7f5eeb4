"""Curves from kernels: medians by size, made monotone, judged on kernels that were held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.costs.curves import AttentionCurve, Curve, HeldOut
from explorer.costs.efficiency import WorkClass
from explorer.costs.fit.kernels import Kernels
from explorer.costs.least_squares import coefficients
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Bools, Floats

LEAST_ROWS = 4
"""A point of a curve stands on that many kernels at the least."""
LEAST_ATTENTION_S = 20e-6
"""Ideal seconds from which on attention is judged: below, a start is all there is."""

EXACT = HeldOut(0, 1.0, 1.0, 1.0)
"""Of a curve that was not judged yet."""


def fit(kernels: Kernels) -> Curve | AttentionCurve:
    """The curve of a device's class. Raises InvalidProblem if there are too few kernels for one point."""
    return _attention(kernels) if kernels.work is WorkClass.ATTENTION else _by_size(kernels)


def estimated(curve: Curve | AttentionCurve, kernels: Kernels) -> Floats:
    """Seconds that a curve gives each of the kernels, [kernels]."""
    if isinstance(curve, Curve):
        return curve.seconds(kernels.ideal_s)
    return curve.seconds(kernels.ideal_s[:, None], kernels.sequence, kernels.width)[:, 0]


def judged(kernels: Kernels, seconds: Floats, at: Bools) -> HeldOut:
    """Estimated over measured seconds of the kernels at ``at``. Raises InvalidProblem if there are none."""
    if not at.any():
        raise InvalidProblem(f"{kernels.device}, {kernels.work}: no kernel is left to judge the curve by; measure more")
    low, median, high = np.percentile(seconds[at] / kernels.measured_s[at], (10, 50, 90))
    return HeldOut(int(at.sum()), float(low), float(median), float(high))


def _by_size(kernels: Kernels) -> Curve:
    """A point for each doubling of the ideal seconds: medians of what was fitted in it."""
    ideal_s, measured_s = kernels.ideal_s[kernels.fitted], kernels.measured_s[kernels.fitted]
    doubling = np.floor(np.log2(ideal_s))
    points = [doubling == each for each in np.unique(doubling)]
    points = [at for at in points if at.sum() >= LEAST_ROWS]
    if not points:
        raise InvalidProblem(f"{kernels.device}, {kernels.work}: fewer than {LEAST_ROWS} kernels of one size")
    x = np.array([np.median(ideal_s[at]) for at in points])
    slowdown = np.array([np.median(measured_s[at] / ideal_s[at]) for at in points])
    weights = np.array([at.sum() for at in points], dtype=np.float64)
    # A larger kernel is never less efficient, and never faster: what is a few percent off that is pooled.
    slowdown = np.maximum(never_more(slowdown, weights), 1.0)
    slowdown = np.maximum.accumulate(slowdown * x) / x
    rows, at = int(kernels.fitted.sum()), held_out(kernels)
    curve = Curve(kernels.device, kernels.work, x, slowdown, rows, EXACT, judged(kernels, kernels.by_shares_s, at))
    return replace(curve, held_out=judged(kernels, estimated(curve, kernels), at))


def _attention(kernels: Kernels) -> AttentionCurve:
    """For each width of a head and doubling of the sequence the start and share with the least relative errors."""
    widths, octave = np.unique(kernels.width), np.floor(np.log2(kernels.sequence))
    octaves = np.unique(octave)
    share, start_s = np.full((len(widths), len(octaves)), np.nan), np.full((len(widths), len(octaves)), np.nan)
    for i, width in enumerate(widths):
        for j, each in enumerate(octaves):
            at = kernels.fitted & (kernels.width == width) & (octave == each)
            if at.sum() >= LEAST_ROWS:
                ideal, measured = kernels.ideal_s[at], kernels.measured_s[at]
                start_s[i, j], slowdown = coefficients(np.column_stack([np.ones(len(ideal)), ideal]), measured)
                share[i, j] = 1 / max(slowdown, 1.0)
    complete = ~np.isnan(share).any(axis=0)
    if not complete.any():
        raise InvalidProblem(f"{kernels.device}, attention: fewer than {LEAST_ROWS} kernels of one length and width")
    share, start_s = share[:, complete], start_s[:, complete]
    lengths = np.array([np.median(kernels.sequence[kernels.fitted & (octave == each)]) for each in octaves[complete]])
    rows, by_shares = int(kernels.fitted.sum()), judged(kernels, kernels.by_shares_s, held_out(kernels))
    curve = AttentionCurve(kernels.device, widths, lengths, share, start_s, rows, EXACT, by_shares)
    return replace(curve, held_out=judged(kernels, estimated(curve, kernels), held_out(kernels)))


def never_more(values: Floats, weights: Floats) -> Floats:
    """The sequence that never rises with least weighted squares from ``values`` (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for value, weight in zip(values, weights, strict=True):
        mean, total, members = float(value), float(weight), 1
        while pools and pools[-1][0] < mean:
            before, of, count = pools.pop()
            mean, total, members = (before * of + mean * total) / (of + total), of + total, members + count
        pools.append((mean, total, members))
    return np.repeat([mean for mean, _, _ in pools], [members for _, _, members in pools])


def held_out(kernels: Kernels) -> Bools:
    """The kernels that judge a curve, [kernels]."""
    judges = kernels.work is not WorkClass.ATTENTION or kernels.ideal_s >= LEAST_ATTENTION_S
    return ~kernels.fitted & judges
