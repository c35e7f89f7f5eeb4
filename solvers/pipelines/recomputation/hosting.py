"""How much of what a stage saves may be on its host, as a schedule has it: windows for copies, and what stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from solvers.evaluation.evaluate import IN_PARTS
from solvers.evaluation.simulation import Simulation, run
from solvers.kernels.arrays import Bools, Floats
from solvers.pipelines.recomputation.choices import Hosting
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

AT_ONCE = 1e30
"""Bytes per second of links to hosts that take next to no time."""
MOST_WINDOWS = 8
"""Of different length that are distinguished, and numbers of micro-batches that are on a device at once."""
HALVINGS = 24
"""In which the longest copy is found with which that many are there."""


class _Turns(NamedTuple):
    """The micro-batches of a stage on its first device: columns."""

    begin_s: Floats
    """of the forward"""
    end_s: Floats
    """of the backward"""
    backward_s: Floats
    """when it starts"""
    copied: Bools
    made_s: Floats
    """when the forward has ended"""
    fetched_s: Floats
    """when the copy back starts"""


def hostings(problem: Problem, plan: Plan) -> Mapping[int, Hosting]:
    """Of every stage that may offload, what its devices can copy while they compute as the plan has it.

    It is read off a simulation in which all that may be offloaded is, over links that take no time.
    """
    may = _may_offload(problem, plan)
    if not may:
        return {}
    forward = {o for o, operator in enumerate(problem.graph.operators) if operator.phase is Phase.FORWARD}
    stages = tuple(
        replace(stage, offload=tuple(o for o in stage.operators if o in forward) if index in may else ())
        for index, stage in enumerate(plan.stages)
    )
    free = replace(problem, host_links=dict.fromkeys(problem.host_links, AT_ONCE))
    simulation = run(free, replace(plan, stages=stages), fold=False)
    by_stage = {}
    for index in sorted(may):
        turns = _turns(simulation, index)
        if turns is not None and turns.copied.any():
            windows = (turns.backward_s - turns.fetched_s)[turns.copied]
            speed = min(problem.host_links[problem.cluster.devices[d].kind] for d in plan.stages[index].devices)
            by_stage[index] = Hosting(
                speed, _resident(turns, plan.stages[index].in_flight), _distinct_windows(windows, len(turns.copied))
            )
    return by_stage


def _may_offload(problem: Problem, plan: Plan) -> frozenset[int]:
    if not problem.host_links:
        return frozenset()
    split = {action.stage for row in plan.order for action in row if action.kind in IN_PARTS}
    return frozenset(
        index for index, stage in enumerate(plan.stages)
        if index not in split and not stage.recompute and not problem.no_offload(stage.devices)
    )  # fmt: skip


def _turns(simulation: Simulation, index: int) -> _Turns | None:
    copies, rows = simulation.lowered.copies, simulation.lowered.rows
    if copies is None:
        return None
    of_stage = simulation.lowered.units.stage[rows.unit[copies.forward]] == index
    own = np.flatnonzero(of_stage & (rows.device[copies.forward] == simulation.plan.stages[index].devices[0]))
    forward, backward, copied = copies.forward[own], copies.backward[own], copies.out[own] >= 0
    return _Turns(
        simulation.start_s[forward], simulation.end_s[backward], simulation.start_s[backward], copied,
        simulation.end_s[forward],
        np.where(copied, simulation.start_s[copies.back[own]], simulation.end_s[forward]),
    )  # fmt: skip


def _resident(turns: _Turns, in_flight: int) -> tuple[tuple[float, int], ...]:
    """(s, micro-batches), see `Hosting`, for as long as something is gained by it."""
    resident: list[tuple[float, int]] = []
    longest = float(turns.end_s.max())
    least = _most_at_once(turns, 0.0)
    for count in range(least, min(in_flight, least + MOST_WINDOWS)):
        low, high = resident[-1][0] if resident else 0.0, longest
        if _most_at_once(turns, high) <= count:
            return (*resident, (high, count))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _most_at_once(turns, middle) <= count else (low, middle)
        resident.append((low, count))
    return tuple(resident)


def _most_at_once(turns: _Turns, copy_s: float) -> int:
    """Micro-batches of which what goes to the host is on the device at once, if a copy takes so long: to the host one
    after the other, and back in time."""
    made, number = turns.made_s[turns.copied], np.arange(turns.copied.sum())
    stored = turns.end_s.copy()
    stored[turns.copied] = np.maximum.accumulate(made - copy_s * number) + copy_s * (number + 1)
    begin = np.concatenate([turns.begin_s, turns.fetched_s[turns.copied]])
    end = np.concatenate([stored, turns.end_s[turns.copied]])
    at = np.concatenate([end, begin])
    step = np.repeat((-1, 1), len(begin))
    return int(np.cumsum(step[np.lexsort((step, at))]).max(initial=0))


def _distinct_windows(windows: Floats, micro_batches: int) -> tuple[tuple[float, float], ...]:
    """(s, share of the micro-batches), at most `MOST_WINDOWS`, none longer than they are."""
    ordered = np.sort(windows)
    cuts = np.unique(np.linspace(0, len(ordered), min(len(ordered), MOST_WINDOWS) + 1).astype(np.int64))
    shares: dict[float, float] = {}
    for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        seconds = float(ordered[begin])
        shares[seconds] = shares.get(seconds, 0.0) + (end - begin) / micro_batches
    return tuple(shares.items())
