"""Values worth asking along one axis of a question, where nobody named any."""

from __future__ import annotations

import math

from explorer.question.settings import Settings
from explorer.sweeps.points import Axes
from solvers.errors import InvalidProblem
from solvers.problem.problem import Objective, Problem

MIB = 2**20
SWEPT = ("devices", "memory_bytes", "micro_batches", "bandwidth_bytes_per_s")
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""Of a device's own memory."""
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST_DEVICES = 16


def worth_asking(axis: str, problem: Problem, settings: Settings, own_memory_bytes: float | None) -> Axes:
    """The values of one of SWEPT, the one that is asked now among them where it fits, ascending. own_memory_bytes: what
    a device really has, None if that is not known. Raises InvalidProblem where the axis means nothing here."""
    devices = len(problem.cluster.accelerators)
    own = settings.cluster is not None or settings.profile is not None
    if axis == "devices" and not own and not isinstance(settings.device_kind, tuple):
        most = min(MOST_DEVICES, max(4, 2 * devices))
        return Axes(devices=tuple(sorted({count for count in COUNTS if count <= most} | {devices})))
    if axis == "memory_bytes":
        top = own_memory_bytes or max(problem.cluster.devices[i].memory_bytes for i in problem.cluster.accelerators)
        if math.isfinite(top):
            return Axes(memory_bytes=tuple(math.ceil(top * share / MIB) * MIB for share in SHARES))
    if axis == "micro_batches" and problem.objective is not Objective.MAKESPAN:
        counts = {count for count in MICRO_BATCHES if problem.mini_batch % count == 0}
        return Axes(micro_batches=tuple(sorted(counts | ({problem.micro_batches} if problem.micro_batches else set()))))
    speed = max((link.bandwidth_bytes_per_s for link in problem.cluster.speeds), default=math.inf)
    if axis == "bandwidth_bytes_per_s" and not own and math.isfinite(speed) and settings.devices_per_node is None:
        return Axes(bandwidth_bytes_per_s=tuple(speed * factor for factor in FACTORS))
    raise InvalidProblem("this cannot be swept here: the question's cluster or objective settles it")
