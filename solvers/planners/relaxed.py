"""Questions beside a question: without what tells equal devices apart, and on the devices of some kinds alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solvers.pipelines.seating import caps_differ, kinds_by_speed
from solvers.pipelines.simpler import Simpler, on_devices
from solvers.problem.problem import Problem

FEW_KINDS = 3
"""With more kinds of accelerators they are left out one by one, the slowest first."""


def relaxed(problem: Problem) -> Problem | None:
    """The question without pins, with every accelerator as large as the largest of its kind: bounds on it hold for the
    question, and its plans answer that where exchanging equal devices meets pins and caps. None if it is the same."""
    cluster, devices = problem.cluster, problem.cluster.devices
    if not problem.pins and not caps_differ(cluster):
        return None
    most = {
        kind: max(devices[d].memory_bytes for d in cluster.accelerators if devices[d].kind == kind)
        for kind in {devices[d].kind for d in cluster.accelerators}
    }
    levelled = tuple(replace(d, memory_bytes=most.get(d.kind, d.memory_bytes)) for d in devices)
    return replace(problem, pins={}, cluster=replace(cluster, devices=levelled))


def on_some_kinds(problem: Problem) -> Iterator[Simpler]:
    """The question on the accelerators of all kinds but one, which may lead on to fewer: without the slowest, then
    without the fastest; with all devices where something is pinned. A plan may leave devices empty."""
    kinds = kinds_by_speed(problem)
    if len(kinds) < 2:
        return
    for left_out in dict.fromkeys((kinds[-1], kinds[0]) if len(kinds) <= FEW_KINDS else (kinds[-1],)):
        left = [i for i, device in enumerate(problem.cluster.devices) if device.kind != left_out]
        if set(problem.pins.values()) <= set(left):
            yield on_devices(problem, left)
