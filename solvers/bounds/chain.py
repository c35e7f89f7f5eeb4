"""Seconds that no chain of devices can beat, whose sets of operators are the differences of growing downsets.

The first devices together hold a downset; the work in it is the *position* of the cut after them. An operator whose
predecessors and followers leave it one place alone takes that part of the way, and no cut is inside it. Whoever works
beyond a cut waits until a first micro-batch has come that far and over the cut, and the last one has as far to go back.
A tensor that would take too long to send keeps its ends, and all that is between them, on one device.

No device runs a backward before a first micro-batch has been to the end of the way and come back to it: all of its
backwards, and not only all of its work, have to fit between a way to the first of them and one from the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from solvers.bounds.chain_cuts import IN, OUT, ROUNDING, Cuts, Groups, cuts_of
from solvers.bounds.reach import downstream_s, upstream_s
from solvers.bounds.sent import sent_s
from solvers.bounds.series import series_heads_and_tails_s
from solvers.bounds.times import Times, greatest_ruled_out_s, times_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.contiguity import forward_edges
from solvers.plan.successors import components
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Objective, Problem

MOST_GROUPS = 6000
"""Of more groups of operators nothing is proved: it would take seconds."""
SLIGHT = 1e-3
"""Part of all work that an operator without predecessors may be to be left out."""
LOWEST_SHARES = 0.1
"""Part of all work in groups whose share of backwards may be below that which is counted on."""


def chain_bound_s(problem: Problem, choices: Sequence[int], at_least_s: float, at_most_s: float = np.inf) -> float:
    """A bound, seconds, for plans in which every operator has one of these numbers of micro-batches: ``at_least_s``
    where nothing more is proved, and no more than ``at_most_s``.

    For equal accelerators without replicas whose sets are acyclic, and for graphs of at most `MOST_GROUPS` groups of
    operators; otherwise nothing is proved.
    """
    if at_least_s >= at_most_s or not _applies(problem):
        return min(at_least_s, at_most_s)
    model = _modelled(problem, choices)
    if model is None:
        return at_least_s
    bound_s = greatest_ruled_out_s(model.ruled_out, at_least_s, at_most_s)
    turning = model.turning()
    return bound_s if turning is None else greatest_ruled_out_s(turning.ruled_out, bound_s, at_most_s)


def _applies(problem: Problem) -> bool:
    cluster = problem.cluster
    return (
        problem.objective is Objective.ITERATION
        and problem.contiguity is Contiguity.ACYCLIC
        and not problem.by_stage
        and problem.max_replicas == 1
        and len({device.kind for device in cluster.devices}) == 1
        and not cluster.cpus
        and len(together(problem.graph)) <= MOST_GROUPS
    )


@dataclass(frozen=True, slots=True)
class _Chain:
    """Groups of operators, those left out that may be anywhere."""

    groups: Groups
    edges: Ints
    """[edges, 2] forward tensors between groups"""
    apart_s: Floats
    """[pairs] no plan is shorter that has the ends of a tensor on two devices, descending"""
    ends: Ints
    """[pairs, 2]"""
    devices: int
    backward_share: float = 0.0
    """of the work of every group, as it is counted, backwards are so much or more; 0: they are not looked at"""
    _cuts: dict[int, Cuts] = field(default_factory=dict)

    def ruled_out(self, time_s: float) -> bool:
        """Whether no plan takes so long or less."""
        pairs = int(np.searchsorted(-self.apart_s, -time_s * (1 + ROUNDING), side="left"))
        if pairs not in self._cuts:
            self._cuts[pairs] = self._between(pairs)
        cuts, spare = self._cuts[pairs], float(self.groups.work_s.sum()) * ROUNDING
        count = len(cuts.enter_s)
        # How far the cut after so many devices may be, and how long its ways are at least, [stretches]; -inf where
        # there is no such cut. Before the first device there is one cut alone.
        furthest, ways = np.full(count, -np.inf), np.zeros(count)
        furthest[0] = 0.0
        for _ in range(self.devices):
            to = (time_s + furthest - ways)[:, None]  # how far the next cut may be, [stretches, of the next]
            if self.backward_share:
                most_s = np.clip((time_s - cuts.turn_s) / self.backward_share, 0.0, cuts.leave_s[-1])
                to = np.minimum(to, furthest[:, None] + most_s)
            met = cuts.enter_s[None, :] <= to + spare
            if met[:, -1].any():
                return False
            reach = np.where(met, to, -np.inf).max(axis=0) + spare
            ways = np.maximum(cuts.ways_s, np.where(met, ways[:, None] + cuts.more_s, np.inf).min(axis=0))
            furthest = np.where(met.any(axis=0), np.minimum(cuts.leave_s, reach), -np.inf)
            ways = np.where(np.isfinite(furthest), ways, 0.0)
        return True

    def turning(self) -> _Chain | None:
        """The same with the time for backwards looked at, where some may be too long for that.

        A group counts as no more work than its backwards over a share that nearly all groups have: devices do no less
        than what is counted, and their backwards are no less than that share of it.
        """
        work, backward = self.groups.work_s, self.groups.backward_s
        shares = backward / np.where(work > 0, work, 1.0)
        order = np.argsort(shares, kind="stable")
        known = np.cumsum(work[order])
        share = float(shares[order][min(int(np.searchsorted(known, LOWEST_SHARES * known[-1])), len(work) - 1)])
        if share <= 0:
            return None
        groups = self.groups._replace(work_s=np.minimum(work, backward / share))
        return replace(self, groups=groups, backward_share=share, _cuts={})

    def _between(self, pairs: int) -> Cuts:
        """Where cuts may be when the ends of the first so many ``pairs`` are on one device each."""
        groups = len(self.groups.work_s)
        ends = self.ends[:pairs]
        edges = np.concatenate([self.edges, ends, ends[:, ::-1]])
        number = components(groups, map(tuple, edges.tolist()))
        count = int(number.max(initial=-1)) + 1
        work: Floats = np.bincount(number, self.groups.work_s, count).astype(np.float64)
        before = np.eye(count, dtype=np.bool_)  # itself included
        joined = np.unique(number[edges], axis=0)  # by the first: all that comes before it is known by then
        for source, target in joined[np.argsort(joined[:, 1], kind="stable")].tolist():
            before[target] |= before[source]
        earliest_end = before @ work
        latest_start = work.sum() - before.T @ work
        return cuts_of(self.groups, earliest_end[number], latest_start[number])


class _Timed(NamedTuple):
    """What is known of operators, [operators], and of the groups that they are of, [groups]."""

    times: Times
    number: Ints
    """of the group of each operator"""
    outside: Bools
    """of operators: whether a copy, or of a group that is left out"""
    head_s: Floats
    tail_s: Floats
    work_s: Floats
    """of groups: all micro-batches"""
    backward_s: Floats
    """of groups: all micro-batches of backwards alone"""
    edges: Ints
    """[edges, 2] forward tensors between groups, not through copies"""

    @property
    def groups(self) -> int:
        return len(self.work_s)

    def least(self, values: Floats, chosen: Bools) -> Floats:
        """Of the chosen operators of every group, [groups, ...]; inf where there are none."""
        least = np.full((self.groups, *values.shape[1:]), np.inf)
        np.minimum.at(least, self.number[chosen], values[chosen])
        return least


class _Sent(NamedTuple):
    """What transfers between groups add. [operators] unless stated otherwise."""

    first_s: Floats
    """head, with the transfer of what it reads of other groups"""
    last_s: Floats
    """tail, with the transfer of what it makes"""
    hop_s: Floats
    """[groups, 2] the shortest transfer in, and out; 0 where there is none"""
    separate_s: dict[tuple[int, int], float]
    """groups -> seconds below which no plan has the two on different devices"""


def _modelled(problem: Problem, choices: Sequence[int]) -> _Chain | None:
    """None where nothing is left that takes any time."""
    timed = _timed(problem, choices)
    if timed is None:
        return None
    sent, moves = _sent(problem, choices, timed), ~timed.times.update
    ways_in, ways_out = timed.least(sent.first_s, moves), timed.least(sent.last_s, moves)
    left = np.zeros(timed.groups, np.bool_)
    left[timed.number[timed.outside]] = True
    inside = ~left & np.isfinite(ways_in)
    run, first_run = _runs(problem, timed)
    turn = np.stack([timed.least(way_s, timed.times.backward) for way_s in (timed.head_s, timed.tail_s)], axis=1)
    groups = Groups(
        timed.work_s[inside], ways_in[inside], ways_out[inside],
        run[inside], first_run[inside], sent.hop_s[inside], timed.backward_s[inside], turn[inside],
    )  # fmt: skip
    separate_s = {pair: seconds for pair, seconds in sent.separate_s.items() if inside[list(pair)].all()}
    pairs = sorted(separate_s, key=lambda pair: -separate_s[pair])
    place = np.cumsum(inside) - 1
    return _Chain(
        groups,
        place[timed.edges[inside[timed.edges].all(axis=1)]],
        np.array([separate_s[pair] for pair in pairs]),
        place[np.array(pairs, np.int64).reshape(-1, 2)],
        len(problem.cluster),
    )


def _timed(problem: Problem, choices: Sequence[int]) -> _Timed | None:
    """None where something cannot run, or nothing takes any time."""
    graph, number = problem.graph, group_of(problem.graph)
    times = times_of(problem, choices)
    if not np.isfinite(times.shortest_s).all():
        return None
    head, tail = (
        series_heads_and_tails_s(problem, times.shortest_s, choices[0])
        if len(choices) == 1
        else times.heads_and_tails_s(problem)
    )
    running = np.where(times.update, 0.0, times.all_s[:, 0])
    count = len(together(graph))
    work: Floats = np.bincount(number, running, count).astype(np.float64)
    backward: Floats = np.bincount(number, np.where(times.backward, running, 0.0), count).astype(np.float64)
    copied = np.array([operator.replicable for operator in graph.operators])
    pairs = {(number[u], number[v]) for u, v in forward_edges(graph) if not copied[u] and not copied[v]}
    edges = np.array(sorted((u, v) for u, v in pairs if u != v), np.int64).reshape(-1, 2)
    left = _left_out(work, edges, number[copied])
    if not (work[~left] > 0).any():
        return None
    return _Timed(times, number, copied | left[number], head, tail, work, backward, edges)


def _sent(problem: Problem, choices: Sequence[int], timed: _Timed) -> _Sent:
    number, head, tail, seconds = timed.number, timed.head_s, timed.tail_s, timed.times.shortest_s
    first, last = head.copy(), tail.copy()
    one_s, all_s = sent_s(problem, choices)
    shortest = np.full((timed.groups, 2), np.inf)
    separate_s: dict[tuple[int, int], float] = {}
    skipped = timed.outside | timed.times.update
    for position, tensor in enumerate(problem.graph.tensors):
        u = tensor.producer
        for v in tensor.consumers:
            if skipped[u] or skipped[v] or number[u] == number[v]:
                continue
            first[v] = max(first[v], head[u] + seconds[u] + one_s[position])
            last[u] = max(last[u], one_s[position] + seconds[v] + tail[v])
            shortest[number[v], IN] = min(shortest[number[v], IN], one_s[position])
            shortest[number[u], OUT] = min(shortest[number[u], OUT], one_s[position])
            pair = int(min(number[u], number[v])), int(max(number[u], number[v]))
            pair_s = float(head[u] + seconds[u] + all_s[position] + seconds[v] + tail[v])
            separate_s[pair] = max(separate_s.get(pair, 0.0), pair_s)
    return _Sent(first, last, np.where(np.isfinite(shortest), shortest, 0.0), separate_s)


def _runs(problem: Problem, timed: _Timed) -> tuple[Floats, Floats]:
    """`Groups.run_s` and `Groups.first_run_s`, of all groups."""
    graph, operators = problem.graph, problem.graph.operators
    times, inside = timed.times, ~timed.outside
    in_s, out_s = (np.where(runs & inside, times.each_s[:, 0], 0.0) for runs in (times.forward, times.backward))
    run = np.stack([np.bincount(timed.number, one, timed.groups) for one in (in_s, out_s)], axis=1).astype(np.float64)
    mirrored = np.zeros(len(graph), np.bool_)
    mirrored[[o.forward_of for o in operators if o.forward_of is not None and o.phase is not Phase.UPDATE]] = True
    mirrors = np.array([operator.forward_of is not None for operator in operators])
    begins = timed.least(upstream_s(graph, in_s), ~times.update & ~mirrors)
    after_s = downstream_s(graph, out_s, whole=problem.whole_backwards)
    return run, np.stack([begins, timed.least(after_s, ~times.update & ~(times.forward & mirrored))], axis=1)


def _left_out(work: Floats, edges: Ints, copied: Ints) -> Bools:
    """Groups that do not restrict where others are: copies, and slight ones that may be as late as wanted, [groups]."""
    left = np.zeros(len(work), np.bool_)
    left[copied] = True
    slight = work <= SLIGHT * work.sum()
    has_before = np.zeros(len(work), np.bool_)
    has_before[edges[:, 1]] = True
    return np.asarray(left | (slight & ~has_before))
