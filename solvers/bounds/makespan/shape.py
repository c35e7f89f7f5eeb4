"""One unsplit pass of operators as arrays, with the least that any plan must pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.bounds.makespan.arrays import Arcs, Flags, PassArrays
from solvers.bounds.makespan.precedence import channels_of, delays, precedence_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.graph import BACKWARD_PHASES, Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Problem

ROUNDING = 1e-6
"""Relative excess over a memory cap that proves nothing."""
MOST_GROUPS = 6000
"""What is known of every two groups takes a byte."""


@dataclass(frozen=True, eq=False)
class PassShape:
    """A pass whose operators are numbered topologically, mirrors after their forward operator.

    arrays: with the seconds of the fastest device that each group may have. group: [operators]. copyable: [groups],
    1 where operators may be copied to several devices. seconds: [operators, devices]. allowed: [groups, devices], by
    times, pins and static bytes. held: [groups], bytes sure to be held all at one moment. caps: [devices], bytes.
    serial: [devices], whether each runs one operator at a time.
    """

    arrays: PassArrays
    group: Ints
    copyable: Flags
    seconds: Floats
    allowed: Bools
    held: Floats
    caps: Floats
    serial: Bools

    @property
    def least_s(self) -> Floats:
        """Seconds of every operator on the fastest device that its group may have, [operators]."""
        return self.arrays.seconds

    @property
    def operators(self) -> int:
        return len(self.least_s)

    @property
    def groups(self) -> int:
        return len(self.copyable)

    @property
    def one_by_one(self) -> bool:
        return bool(self.serial.all())

    def least_priced(self, per_second: Floats) -> Floats:
        """What every operator costs at least if a second of each device costs ``per_second`` [devices]."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(self.allowed[self.group], self.seconds * per_second, np.inf).min(axis=1))


def pass_shape(problem: Problem) -> PassShape | None:
    """The pass of ``mini_batch`` samples; None where some group has no device, stages may be
    replicated, or there are very many groups."""
    if problem.max_replicas > 1 or len(together(problem.graph)) > MOST_GROUPS:
        return None
    graph, devices = problem.graph, problem.cluster.devices
    waits = precedence_of(graph)
    rank, groups = waits.rank, together(graph)
    by_kind = {d.kind: problem.compute.at(d.kind, problem.mini_batch) for d in devices}
    seconds = np.empty((len(graph), len(devices)))
    seconds[rank] = np.stack([by_kind[d.kind] for d in devices], axis=1)
    group = np.empty(len(graph), np.int64)
    group[rank] = group_of(graph)
    caps = np.array([d.memory_bytes for d in devices])
    static = np.zeros(len(groups))
    np.add.at(static, group_of(graph), problem.static_bytes())
    allowed = np.ones((len(groups), len(devices)), bool)
    np.logical_and.at(allowed, group, np.isfinite(seconds))
    allowed &= static[:, None] <= caps * (1 + ROUNDING)
    for operator, device in problem.pins.items():
        allowed[group_of(graph)[operator], np.arange(len(devices)) != device] = False
    if not allowed.any(axis=1).all():
        return None
    copyable = np.array([all(graph.operators[o].replicable for o in members) for members in groups], np.uint8)
    least = np.where(allowed[group], seconds, np.inf).min(axis=1)
    src, dst, delay, message_s = delays(problem, waits, allowed, group, copyable)
    held = static + _saved_at_once(problem, rank, least, src, dst, group, len(groups))
    last = len(graph) - 1
    arrays = PassArrays(
        least, _arcs(len(graph), src, dst, delay), _arcs(len(graph), last - dst, last - src, delay),
        channels_of(problem, waits, copyable[group] > 0, message_s),
    )  # fmt: skip
    serial = np.array([d.concurrency is not None for d in devices])
    return PassShape(arrays, group, copyable, seconds, allowed, held, caps, serial)


def _arcs(count: int, src: Ints, dst: Ints, delay: Floats) -> Arcs:
    def starts(ends: Ints) -> Ints:
        return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=count))]).astype(np.int64)

    by_target, by_source = np.lexsort((src, dst)), np.lexsort((dst, src))
    return Arcs(starts(dst), src[by_target], delay[by_target], starts(src), dst[by_source], delay[by_source])


def _saved_at_once(
    problem: Problem, rank: Ints, least: Floats, src: Ints, dst: Ints, group: Ints, groups: int
) -> Floats:
    """Bytes of saved activations per group that are all held while one certain operator runs, [groups].

    A forward operator's are held from its start until its last backward ended: while an operator runs that
    comes after the one and before the other. Of the last forward operators, the one that this says most of.
    """
    best = np.zeros(groups)
    if problem.stated_bytes is not None or problem.recompute or not problem.has_backward():
        return best
    operators = problem.graph.operators
    count = len(operators)
    saved, backward_of, forward = np.zeros(count), np.full(count, -1, np.int64), np.zeros(count, bool)
    for position, operator in enumerate(operators):
        if operator.phase is Phase.FORWARD:
            forward[rank[position]] = True
            saved[rank[position]] = operator.saved_bytes.at(problem.mini_batch)
        elif operator.phase in BACKWARD_PHASES and operator.forward_of is not None:
            backward_of[rank[position]] = rank[operator.forward_of]
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for s, t in zip(src.tolist(), dst.tolist(), strict=True):
        sources[t].append(s)
        targets[s].append(t)
    for moment in [i for i in range(count - 1, -1, -1) if forward[i] and targets[i] and least[i] > 0][:4]:
        before, after = _reached(sources, moment), _reached(targets, moment)
        held_later = np.zeros(count, bool)
        ended_later = backward_of[after & (backward_of >= 0)]
        held_later[ended_later] = True
        amount = np.zeros(groups)
        np.add.at(amount, group, np.where(held_later & forward & before, saved, 0.0))
        if amount.sum() > best.sum():
            best = amount
    return best


def _reached(neighbours: list[list[int]], start: int) -> Bools:
    seen = np.zeros(len(neighbours), bool)
    seen[start] = True
    todo = [start]
    while todo:
        for other in neighbours[todo.pop()]:
            if not seen[other]:
                seen[other] = True
                todo.append(other)
    return seen
