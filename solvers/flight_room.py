"""How many micro-batches memory lets stages keep in flight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.memory import saved_bytes, workspace_bytes
from solvers.plan import Stage
from solvers.problem import Problem

Floats = NDArray[np.float64]


def held_bytes(problem: Problem, stages: Sequence[Stage], received_bytes: Floats) -> Floats:
    """Bytes a stage holds for every micro-batch in flight, on each of its devices, [stages].

    received_bytes: of a micro-batch, from other devices, [stages]. A stage that recomputes keeps only those.
    """
    if problem.stated_bytes is not None or not problem.has_backward():
        return np.zeros(len(stages))
    saved = [
        0.0 if stage.recompute else saved_bytes(problem, stage.operators, stage.micro_batch_size / len(stage.devices))
        for stage in stages
    ]
    return np.asarray(np.array(saved) + received_bytes)


def room_bytes(problem: Problem, stages: Sequence[Stage], received_bytes: Floats) -> Floats:
    """Bytes every device has left for micro-batches in flight, [devices]; may be negative.

    Static bytes, the largest workspace, one micro-batch that arrives early at each stage and what a
    recomputing stage saves while its backward runs are taken off.
    """
    left = np.array([device.memory_bytes for device in problem.cluster.devices], np.float64)
    static = problem.static_bytes()
    working = np.zeros(len(left))
    for stage, received in zip(stages, received_bytes.tolist(), strict=True):
        samples = stage.micro_batch_size / len(stage.devices)
        operators = list(stage.operators)
        temporary = 0.0
        if problem.stated_bytes is None:
            temporary = workspace_bytes(problem, operators, samples)
            if stage.recompute:
                temporary += saved_bytes(problem, operators, samples)
            left[list(stage.devices)] -= received
        left[list(stage.devices)] -= float(static[operators].sum())
        for device in stage.devices:
            working[device] = max(working[device], temporary)
    return np.asarray(left - working)


def within_room(
    stages: Sequence[Stage], least: Sequence[int], wanted: Sequence[int], held: Floats, room: Floats
) -> list[int]:
    """Micro-batches in flight between ``least`` and ``wanted``, [stages], that memory allows.

    held: see `held_bytes`; room: see `room_bytes`. The stages of a device give up the same share of what
    they want beyond the least; where even that has no room the least stands, for the judge to refuse.
    """
    share = np.ones(len(stages))
    for device, left in enumerate(room.tolist()):
        mine = [index for index, stage in enumerate(stages) if device in stage.devices]
        needed = sum(least[index] * held[index] for index in mine)
        extra = sum((wanted[index] - least[index]) * held[index] for index in mine)
        if needed + extra > left:
            fits = max(0.0, (left - needed) / extra) if extra > 0 else 0.0
            share[mine] = np.minimum(share[mine], fits)
    return [
        low + int((high - low) * part + 1e-9) for low, high, part in zip(least, wanted, share.tolist(), strict=True)
    ]
