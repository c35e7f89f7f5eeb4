"""A plan on many devices with one device for all that do the same: what a view, a picture or a report has rows for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from explorer.costs.devices import device_name
from solvers.evaluation.evaluate import Metrics
from solvers.formats.number_runs import runs
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Problem

_NUMBERED = re.compile(r"^(?:(device|lane|in|out) (\d+)|(\d+)->(\d+))$")


class Folded(NamedTuple):
    """every: of each device that is left the devices for which it stands, itself first; the others are as without them,
    but for the samples, of which a stage still has all."""

    problem: Problem
    plan: Plan
    schedule: Schedule
    every: tuple[tuple[int, ...], ...]


def folded(problem: Problem, plan: Plan, schedule: Schedule) -> Folded:
    """The first of devices that do the same, as the schedule says, and of those that do nothing."""
    count = len(problem.cluster)
    if not schedule.alike:
        return Folded(problem, plan, schedule, tuple((device,) for device in range(count)))
    used = {device for same in schedule.alike for device in same}
    idle = tuple(device for device in range(count) if device not in used)
    every = (*schedule.alike, *([idle] if idle else []))
    number = np.full(count, -1, np.int64)
    for at, same in enumerate(every):
        number[list(same)] = at
    first, columns = [same[0] for same in every], schedule.columns
    resources = tuple(_renumbered(name, number.tolist()) for name in schedule.resources)
    shown = replace(
        schedule,
        columns=columns._replace(
            device=number[columns.device], to_device=np.where(columns.to_device < 0, -1, number[columns.to_device])
        ),
        resources=resources,
        shared=frozenset(new for old, new in zip(schedule.resources, resources, strict=True) if old in schedule.shared),
        memory=tuple(schedule.memory[device] for device in first),
        alike=(),
    )
    stages = (replace(s, devices=tuple(dict.fromkeys(number[list(s.devices)].tolist()))) for s in plan.stages)
    return Folded(
        replace(problem, cluster=problem.cluster.part(first)),
        replace(plan, stages=tuple(stages), order=tuple(plan.order[device] for device in first)),
        shown,
        every,
    )


def of_devices(metrics: Metrics, devices: Sequence[int]) -> Metrics:
    """The metrics of a plan, where what is said of devices is said of some."""
    load_s, busy_s, peak_bytes, static_bytes = (
        tuple(each[device] for device in devices)
        for each in (metrics.load_s, metrics.busy_s, metrics.peak_memory_bytes, metrics.static_bytes)
    )
    return replace(metrics, load_s=load_s, busy_s=busy_s, peak_memory_bytes=peak_bytes, static_bytes=static_bytes)


def _renumbered(resource: str, number: Sequence[int]) -> str:
    """The name of a resource of devices, or of a pair of them, by their new numbers."""
    match = _NUMBERED.match(resource)
    if match is None:
        return resource
    if match[1]:
        return f"{match[1]} {number[int(match[2])]}"
    return f"{number[int(match[3])]}->{number[int(match[4])]}"


def class_name(kind: str, same: Sequence[int], gpus: int) -> str:
    """What people read of devices that do the same: "GPU 3", "GPU 0-127", or "GPU 0 ×128" where others are between.
    gpus: how many accelerators come before the first CPU."""
    first = device_name(kind, same[0] - gpus if same[0] >= gpus else same[0])
    if len(same) == 1:
        return first
    return f"{first}-{same[-1]}" if same[-1] - same[0] == len(same) - 1 else f"{first} ×{len(same):,}"


def numbers_words(numbers: Sequence[int], limit: int = 3) -> str:
    """ "0-7, 64-71, 128-135, … (2,048 in all)" of ascending numbers."""
    words = [str(run) for run in runs(numbers)]
    if len(words) <= limit:
        return ", ".join(words)
    return f"{', '.join(words[:limit])}, … ({len(numbers):,} in all)"
