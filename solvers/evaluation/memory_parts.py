"""What the peak of every device is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.evaluation.simulation import held_by_stage, on_devices
from solvers.kernels.arrays import Floats
from solvers.plan.plan import Plan
from solvers.problem.graph import CACHED_ATTENTION
from solvers.problem.problem import Problem

BUFFERS = "module buffers"
CACHE = "KV cache"
"""Of attention in the decode phase of inference: a part of the buffers that operators hold."""
KINDS = ("parameters", "gradients", "fp32 masters", "optimizer states", BUFFERS, "gathered parameters")
"""As `held_by_stage` has them."""
STATED = "as stated"
REST = "activations, workspace and buffers"


def memory_parts(problem: Problem, plan: Plan, peak_bytes: Sequence[float]) -> tuple[dict[str, float], ...]:
    """Of every device the bytes of what it holds all the time, by kind, and what else is there at its peak; kinds of
    which it holds nothing are left out. peak_bytes: [devices] B; they are what the parts of a device add up to."""
    held = [on_devices(problem, plan, row) for row in held_by_stage(problem, plan)]
    names: tuple[str, ...] = KINDS if problem.stated_bytes is None else (STATED, *KINDS[1:])
    if problem.stated_bytes is None:
        caches = on_devices(problem, plan, _cached_by_stage(problem, plan))
        held[KINDS.index(BUFFERS)] = held[KINDS.index(BUFFERS)] - caches
        held, names = [caches, *held], (CACHE, *names)
    rows, parts_of = [row.tolist() for row in held], []
    for device, peak in enumerate(peak_bytes):
        parts = {name: row[device] for name, row in zip(names, rows, strict=True) if row[device] > 0}
        rest = peak - sum(parts.values())
        parts_of.append({**parts, **({REST: rest} if rest > 1e-9 * max(peak, 1.0) else {})})
    return tuple(parts_of)


def _cached_by_stage(problem: Problem, plan: Plan) -> Floats:
    """What each device of a stage holds of KV caches, [stages] B."""
    operators = problem.graph.operators
    cached = [o.buffer_bytes if o.op_type == CACHED_ATTENTION else 0.0 for o in operators]
    return np.array([sum(cached[o] for o in stage.operators) for stage in plan.stages], np.float64)


def hosted_states_bytes(problem: Problem, plan: Plan) -> tuple[float, ...]:
    """Of every device the bytes of masters and optimizer states that its host holds for it."""
    if not problem.state_links:
        return (0.0,) * len(problem.cluster)
    here, there = (
        on_devices(problem, plan, held_by_stage(one, plan).sum(axis=0))
        for one in (problem, replace(problem, state_links={}))
    )
    return tuple((there - here).tolist())
