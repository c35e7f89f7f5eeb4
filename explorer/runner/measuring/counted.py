"""What is measured of a graph at one number of samples: on all ranks at once, in several rounds, block by block."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import torch.distributed as dist

from explorer.runner.measuring.attribution import calm
from explorer.runner.measuring.operator_times import Measured, Subject, as_in_a_run, measure
from explorer.runner.measuring.place import Place

ALONE_SHARE = 0.15
"""Of the time for one number of samples, in which rank 0 works alone."""
LEAST_ALONE = 3


@dataclass(frozen=True)
class Counted:
    """What was measured at one number of samples, means over ranks."""

    samples: int
    measured: Measured
    alone_s: float | None


def measure_count(subject: Subject, place: Place, slot_s: float, now: Callable[[], float]) -> Counted:
    alone_s = None
    if place.ranks > 1:
        dist.barrier()
        alone_s = _alone(subject, ALONE_SHARE * slot_s, now) if place.rank == 0 else 0.0
        alone_s = place.largest(alone_s)  # the others wait here
    dist.barrier()
    alone = measure(subject, slot_s * (1 - ALONE_SHARE), now)
    count = len(subject.graph)
    wholes = [alone.forward_s, alone.backward_s, alone.unclaimed_s, alone.split_ratio, alone.added_s]
    means = place.mean([*alone.seconds, *alone.spread, *wholes])
    forward_s, backward_s, unclaimed_s, split_ratio, added_s = means[2 * count :]
    measured = Measured(
        means[:count],
        means[count : 2 * count],
        forward_s,
        backward_s,
        alone.repetitions,
        unclaimed_s,
        split_ratio,
        added_s,
    )
    return Counted(subject.samples, measured, alone_s)


def _alone(subject: Subject, budget_s: float, now: Callable[[], float]) -> float:
    """The lower quartile of repetitions of the whole graph."""
    seconds: list[float] = []
    until = time.perf_counter() + budget_s
    while len(seconds) < LEAST_ALONE or time.perf_counter() < until:
        once = as_in_a_run(subject, now)
        seconds.append(once.forward_s + once.backward_s)
    return calm(seconds)


def mean(rounds: list[Counted]) -> Counted:
    """One number of samples as it was measured at several times."""
    measured = [each.measured for each in rounds]
    alone = [each.alone_s for each in rounds if each.alone_s is not None]
    return Counted(
        rounds[0].samples,
        Measured(
            [fmean(column) for column in zip(*(m.seconds for m in measured), strict=True)],
            [fmean(column) for column in zip(*(m.spread for m in measured), strict=True)],
            fmean(m.forward_s for m in measured),
            fmean(m.backward_s for m in measured),
            sum(m.repetitions for m in measured),
            fmean(m.unclaimed_s for m in measured),
            fmean(m.split_ratio for m in measured),
            fmean(m.added_s for m in measured),
        ),
        fmean(alone) if alone else None,
    )


def added(blocks: list[Counted]) -> Counted:
    """One number of samples over all blocks."""
    if len(blocks) == 1:
        return blocks[0]
    measured, alone = [each.measured for each in blocks], [each.alone_s for each in blocks]
    backward_s = sum(m.backward_s for m in measured)
    return Counted(
        blocks[0].samples,
        Measured(
            [sum(column) for column in zip(*(m.seconds for m in measured), strict=True)],
            [max(column) for column in zip(*(m.spread for m in measured), strict=True)],
            sum(m.forward_s for m in measured),
            backward_s,
            min(m.repetitions for m in measured),
            sum(m.unclaimed_s for m in measured),
            sum(m.split_ratio * m.backward_s for m in measured) / backward_s if backward_s > 0 else 1.0,
            sum(m.added_s for m in measured),
        ),
        None if None in alone else sum(one for one in alone if one is not None),
    )
