"""Which share of which micro-batch goes from where to where, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.tasks import Bundles, Units
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

LEAST_SAMPLES = 1e-9
"""Less than this is rounding, not a share of a micro-batch."""


class Crossings(NamedTuple):
    """What of one bundle goes where, in the order in which it is made: share by share, place by place."""

    share: Ints
    """[crossings] which of the maker's shares: micro-batch times replicas + replica"""
    low: Ints
    """[crossings] the readers are units bundles.target[low:high], all of one place"""
    high: Ints
    """[crossings]"""
    to_share: Ints
    """[crossings] which share of the readers needs it"""
    device: Ints
    """[crossings] of the readers"""
    several: Ints
    """[crossings] how many replicas send as much at the same time, of which one stands for all; else 1"""
    samples: Floats
    """[crossings] how many each of them sends"""


@njit(cache=True)
def crossings_bound(units: Units, unit: int, other: int) -> int:
    """The most shares of micro-batches of a unit that meet those of another.

    Both cut a mini-batch into intervals: a and b of them meet less than a + b times, unless all are the same.
    """
    here, there = units.group[unit], units.group[other]
    width, others = units.group_start[here + 1] - units.group_start[here], units.group_start[there + 1]
    others -= units.group_start[there]
    a, b = units.micro_batches[unit] * width, units.micro_batches[other] * others
    alike = width == others and units.micro_batches[unit] == units.micro_batches[other]
    return int(a if alike else a + b)


@njit(cache=True)
def same_place(units: Units, bundles: Bundles, target: int, high: int) -> int:
    """Where the run of targets of the place of bundles.target[target] ends, at most ``high``."""
    place = units.place[bundles.target[target]]
    end = target + 1
    while end < high and units.place[bundles.target[end]] == place:
        end += 1
    return end


@njit(cache=True, error_model="numpy")
def crossings_of(units: Units, bundles: Bundles, b: int) -> Crossings:
    """The crossings of bundle ``b``, also those that stay on a device.

    Where one device stands for all replicas of its group, on both sides, the micro-batches of both sides are of one
    size and one number of replicas divides the other: then each of the more replicas has its own partner. Where the
    first few of a group stand for all, what they share is what as many of those of the other side share.
    """
    origin = bundles.source[bundles.source_start[b]]
    begins, ends = bundles.target_start[b], bundles.target_start[b + 1]
    room, t = 0, begins
    while t < ends:
        room += crossings_bound(units, origin, bundles.target[t])
        t = same_place(units, bundles, t, ends)
    whole, samples = np.empty((6, room), np.int64), np.empty(room)
    target, place, group_of, samples_of = bundles.target, units.place, units.group, units.samples
    group_start, group_device, replicas = units.group_start, units.group_device, units.replicas
    group, size = group_of[origin], samples_of[origin]
    width, sharers = group_start[group + 1] - group_start[group], replicas[group]
    part, n = size / sharers, 0
    for i in range(units.micro_batches[origin]):
        for p in range(width):
            since = i * size + p * part
            t = begins
            while t < ends:
                unit, following = target[t], t + 1
                while following < ends and place[target[following]] == place[unit]:
                    following += 1
                reading, other = group_of[unit], samples_of[unit]
                other_width, others = group_start[reading + 1] - group_start[reading], replicas[reading]
                folded = width == other_width == 1 < max(sharers, others)
                piece = other / others
                j_low, j_high = i, i + 1
                if other != size:  # the micro-batches that share samples with this one
                    j_low, j_high = i * size // other, -(-((i + 1) * size) // other)
                for j in range(j_low, j_high):
                    q_low, q_high = 0, 1
                    if other_width > 1:
                        q_low = max(0, int((since - j * other) / piece) - 1)
                        q_high = min(other_width, int((since + part - j * other) / piece) + 2)
                    for q in range(q_low, q_high):
                        start = j * other + q * piece
                        amount, several = min(since + part, start + piece) - max(since, start), 1
                        if folded:
                            amount, several = size / max(sharers, others), max(1, sharers // others)
                        if amount <= LEAST_SAMPLES:
                            continue
                        whole[0, n], whole[1, n], whole[2, n] = i * width + p, t, following
                        whole[3, n], whole[4, n] = j * other_width + q, group_device[group_start[reading] + q]
                        whole[5, n], samples[n] = several, amount
                        n += 1
                t = following
    return Crossings(whole[0, :n], whole[1, :n], whole[2, :n], whole[3, :n], whole[4, :n], whole[5, :n], samples[:n])
