"""Seconds that no chain of devices can beat, whose sets of operators are the differences of growing downsets.

The first devices together hold a downset; the work in it is the *position* of the cut after them. An operator whose
predecessors and followers leave it one place alone takes that part of the way, and no cut is inside it. Whoever works
beyond a cut waits until a first micro-batch has come that far and over the cut, and the last one has as far to go back.
A tensor that would take too long to send keeps its ends, and all that is between them, on one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np

from solvers.bounds.paths import heads_and_tails_s
from solvers.bounds.reach import downstream_s, upstream_s
from solvers.evaluation.columns import best_of_links
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.contiguity import forward_edges
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem

PRECISION = 1e-3
"""How closely the least time is found that is not ruled out; what is told is ruled out."""
MOST_GROUPS = 6000
"""Of more groups of operators nothing is told: it would take seconds."""
MOST_CUTS = 250
"""Stretches of positions that are told apart."""
SLIGHT = 1e-3
"""Part of all work that an operator without predecessors may be to be left out."""
ROUNDING = 1e-9
"""Of all work: positions that differ by less are one."""


def chain_bound_s(problem: Problem, choices: Sequence[int], at_least_s: float, at_most_s: float = np.inf) -> float:
    """A bound, seconds, for plans in which every operator has one of these numbers of micro-batches: ``at_least_s``
    where nothing more is proved, and no more than ``at_most_s``.

    For equal accelerators without replicas whose sets are acyclic, and for graphs of at most `MOST_GROUPS` groups of
    operators; otherwise nothing is proved.
    """
    if at_least_s >= at_most_s or not _applies(problem):
        return min(at_least_s, at_most_s)
    model = _modelled(problem, choices)
    if model is None or not model.ruled_out(at_least_s):
        return at_least_s
    low, high = at_least_s, min(at_least_s * 2.0, at_most_s)
    while high < at_most_s and model.ruled_out(high):
        low, high = high, min(high * 2.0, at_most_s)
    if high == at_most_s and model.ruled_out(high):
        return at_most_s
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        if model.ruled_out(middle):
            low = middle
        else:
            high = middle
    return low


def _applies(problem: Problem) -> bool:
    cluster = problem.cluster
    return (
        problem.objective is Objective.ITERATION
        and problem.contiguity is Contiguity.ACYCLIC
        and problem.pipeline is not Pipeline.INTERLEAVED
        and problem.max_replicas == 1
        and len({device.kind for device in cluster.devices}) == 1
        and not cluster.cpus
        and len(together(problem.graph)) <= MOST_GROUPS
    )


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Stretches of positions at which a cut may be, ascending."""

    enter_s: Floats
    leave_s: Floats
    ways_s: Floats
    """Of whoever works beyond it: the way in and the way out at least."""
    more_s: Floats
    """[stretches + 1, stretches] by how much these are longer than those of the cut before. The last row is of no cut
    before."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Groups of operators, those left out that may be anywhere."""

    work_s: Floats
    """[groups] of all micro-batches, without updates"""
    in_s: Floats
    """[groups] until whatever of it is first on its device can begin, transfers to that device included"""
    out_s: Floats
    """[groups] from the end of whatever of it is last on its device"""
    edges: Ints
    """[edges, 2] forward tensors between groups"""
    apart_s: Floats
    """[pairs] no plan is shorter that has the ends of a tensor on two devices, descending"""
    ends: Ints
    """[pairs, 2]"""
    run_s: Floats
    """[groups, 2] one micro-batch's forward, and backward"""
    first_run_s: Floats
    """[groups, 2] what of these runs, on devices before its own, before the first of it begins and after the last of it
    ends; 0 where that is not known"""
    hop_s: Floats
    """[groups, 2] the shortest transfer in, and out"""
    devices: int
    _cuts: dict[int, _Cuts] = field(default_factory=dict)

    def ruled_out(self, time_s: float) -> bool:
        """Whether no plan takes so long or less."""
        kept = int(np.searchsorted(-self.apart_s, -time_s * (1 + ROUNDING), side="left"))
        if kept not in self._cuts:
            self._cuts[kept] = self._between(kept)
        cuts = self._cuts[kept]
        whole = float(self.work_s.sum())
        spare = whole * ROUNDING
        furthest = time_s  # how far as many devices get
        reach = np.full(len(cuts.ways_s), time_s + spare)  # how far every cut may be at most
        ways = np.maximum(cuts.ways_s, cuts.more_s[-1])
        values = np.where(cuts.enter_s <= reach, np.minimum(cuts.leave_s, reach) - ways, -np.inf)
        for left in range(self.devices - 1, 0, -1):
            furthest = max(furthest, time_s + float(values.max(initial=-np.inf)))
            if left == 1 or whole <= furthest + spare:
                break
            met = cuts.enter_s[None, :] <= time_s + values[:, None] + spare
            reach = time_s + spare + np.where(met, values[:, None], -np.inf).max(axis=0)
            ways = np.maximum(cuts.ways_s, np.where(met, ways[:, None] + cuts.more_s[:-1], np.inf).min(axis=0))
            values = np.where(met.any(axis=0), np.minimum(cuts.leave_s, reach) - ways, -np.inf)
        return whole > furthest + spare

    def _between(self, kept: int) -> _Cuts:
        """Where cuts may be when the ends of the first ``kept`` pairs are on one device each."""
        groups = len(self.work_s)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(groups))
        graph.add_edges_from(self.edges.tolist())
        graph.add_edges_from(self.ends[:kept].tolist())
        graph.add_edges_from(self.ends[:kept, ::-1].tolist())
        merged = nx.condensation(graph)
        number = np.array([merged.graph["mapping"][group] for group in range(groups)], np.int64)
        count = len(merged)
        work: Floats = np.bincount(number, self.work_s, count).astype(np.float64)
        before = np.zeros((count, count), np.bool_)  # itself included
        for node in nx.topological_sort(merged):
            for source in merged.predecessors(node):
                before[node] |= before[source]
            before[node, node] = True
        earliest_end = before @ work
        latest_start = work.sum() - before.T @ work
        return self._stretches(earliest_end[number], latest_start[number])

    def _stretches(self, earliest_end: Floats, latest_start: Floats) -> _Cuts:
        """Positions that are inside of no operator, where those that may be beyond are the same. Both: [groups]"""
        whole = float(self.work_s.sum())
        spare = whole * ROUNDING
        by_start = np.argsort(latest_start, kind="stable")
        starts = latest_start[by_start]
        by_end = np.argsort(earliest_end, kind="stable")

        def beyond(values: Floats) -> Floats:
            """The least of whoever may be beyond, [groups + 1, ...]; inf where nobody is: that is no cut."""
            least = np.minimum.accumulate(values[by_start][::-1], axis=0)[::-1]
            return np.concatenate([least, np.full((1, *least.shape[1:]), np.inf)])

        found: list[tuple[float, float, int]] = []
        for begin, end in _outside(earliest_end, latest_start, whole):
            first, last = np.searchsorted(starts, [begin, end], side="left").tolist()
            marks = [begin, *starts[first:last].tolist(), end]
            for i in range(len(marks) - 1):
                if i == 0 or marks[i + 1] - marks[i] > 2 * spare:
                    found.append((marks[i], marks[i + 1], first + i))
                else:
                    found[-1] = (found[-1][0], marks[i + 1], found[-1][2])
        firsts = np.unique(np.linspace(0, len(found), MOST_CUTS, endpoint=False).astype(np.int64))
        lasts = np.append(firsts[1:], len(found)) - 1
        enter = np.array([row[0] for row in found])[firsts]
        leave = np.array([row[1] for row in found])[lasts]
        at = np.array([row[2] for row in found])[firsts]
        ran = np.concatenate([np.zeros((1, 2)), np.cumsum(self.run_s[by_end], axis=0)])
        most_run = ran[np.searchsorted(earliest_end[by_end], leave + 2 * spare, side="right")]
        before = np.concatenate([most_run, np.zeros((1, 2))])[:, None, :]
        least, with_hop = beyond(self.first_run_s)[at], beyond(self.first_run_s + self.hop_s)[at]
        surely = least[None, :, :] > before * (1 + ROUNDING)
        more = np.where(surely, with_hop[None, :, :] - before, 0.0).sum(axis=2)
        return _Cuts(enter, leave, (beyond(self.in_s) + beyond(self.out_s))[at], more)


def _outside(earliest_end: Floats, latest_start: Floats, whole: float) -> list[tuple[float, float]]:
    """Positions that are inside of no operator, ascending."""
    spare = whole * ROUNDING
    inside = np.flatnonzero(latest_start + 2 * spare < earliest_end)
    inside = inside[np.argsort(latest_start[inside], kind="stable")]
    found, at = [], -spare
    for begin, end in zip(
        (latest_start[inside] + spare).tolist(), (earliest_end[inside] - spare).tolist(), strict=True
    ):
        if begin >= at:
            found.append((at, begin))
        at = max(at, end)
    return [*found, (at, max(at, whole + spare))]


def _modelled(problem: Problem, choices: Sequence[int]) -> _Chain | None:
    """None where nothing is left that takes any time."""
    graph, kind = problem.graph, problem.cluster.devices[0].kind
    operators, number, count = graph.operators, group_of(graph), len(together(graph))
    update = np.array([operator.phase is Phase.UPDATE for operator in operators])
    sizes = [(micro_batches, problem.mini_batch // micro_batches) for micro_batches in choices]
    each = np.min([problem.compute.at(kind, size) for _, size in sizes], axis=0)
    once = problem.compute.at(kind, problem.mini_batch)
    in_all = np.min([many * problem.compute.at(kind, size) for many, size in sizes], axis=0)
    seconds = np.where(update, once, each)
    if not np.isfinite(seconds).all():
        return None
    head, tail = heads_and_tails_s(graph, seconds, whole=problem.whole_backwards)
    work: Floats = np.bincount(number, np.where(update, 0.0, in_all), count).astype(np.float64)
    copied = np.array([operator.replicable for operator in operators])
    pairs = {(number[u], number[v]) for u, v in forward_edges(graph) if not copied[u] and not copied[v]}
    edges = np.array(sorted((u, v) for u, v in pairs if u != v), np.int64).reshape(-1, 2)
    left = _left_out(work, edges, number[copied])
    if not (work[~left] > 0).any():
        return None
    first_s, last_s, sent = head.copy(), tail.copy(), []
    hop_s, all_s = _hops_s(problem, sizes)
    shortest = np.full((count, 2), np.inf)
    for position, tensor in enumerate(graph.tensors):
        u = tensor.producer
        if copied[u] or update[u] or left[number[u]]:
            continue
        for v in tensor.consumers:
            if number[u] == number[v] or copied[v] or update[v] or left[number[v]]:
                continue
            first_s[v] = max(first_s[v], head[u] + seconds[u] + hop_s[position])
            last_s[u] = max(last_s[u], hop_s[position] + seconds[v] + tail[v])
            shortest[number[v], 0] = min(shortest[number[v], 0], hop_s[position])
            shortest[number[u], 1] = min(shortest[number[u], 1], hop_s[position])
            apart_s = head[u] + seconds[u] + all_s[position] + seconds[v] + tail[v]
            sent.append((apart_s, number[u], number[v]))
    ways_in, ways_out = np.full(count, np.inf), np.full(count, np.inf)
    np.minimum.at(ways_in, number[~update], first_s[~update])
    np.minimum.at(ways_out, number[~update], last_s[~update])
    forward = np.array([operator.phase is Phase.FORWARD for operator in operators])
    runs = np.stack([forward, ~forward & ~update], axis=1) & ~copied[:, None] & ~left[number][:, None]
    run_s = np.stack([np.bincount(number, np.where(runs[:, i], each, 0.0), count) for i in range(2)], axis=1)
    first_run = np.full((count, 2), np.inf)
    before_s = upstream_s(graph, np.where(runs[:, 0], each, 0.0))
    behind_s = downstream_s(graph, np.where(runs[:, 1], each, 0.0), whole=problem.whole_backwards)
    mirrored = np.zeros(len(graph), np.bool_)
    mirrored[[o.forward_of for o in operators if o.forward_of is not None and o.phase is not Phase.UPDATE]] = True
    mirrors = np.array([operator.forward_of is not None for operator in operators])
    may_begin, may_end = ~update & ~mirrors, ~update & ~(forward & mirrored)
    np.minimum.at(first_run[:, 0], number[may_begin], before_s[may_begin])
    np.minimum.at(first_run[:, 1], number[may_end], behind_s[may_end])
    kept = ~left & np.isfinite(ways_in)
    place = np.cumsum(kept) - 1
    edges = edges[kept[edges].all(axis=1)]
    apart: dict[tuple[int, int], float] = {}
    for seconds_apart, u, v in sent:
        if kept[u] and kept[v]:
            pair = (min(u, v), max(u, v))
            apart[pair] = max(apart.get(pair, 0.0), seconds_apart)
    tensors = sorted(apart, key=lambda pair: -apart[pair])
    return _Chain(
        work[kept],
        ways_in[kept],
        ways_out[kept],
        place[edges],
        np.array([apart[pair] for pair in tensors]),
        place[np.array(tensors, np.int64).reshape(-1, 2)],
        run_s[kept],
        first_run[kept],
        np.where(np.isfinite(shortest), shortest, 0.0)[kept],
        len(problem.cluster),
    )


def _left_out(work: Floats, edges: Ints, copied: Ints) -> Bools:
    """Groups that say nothing of where others are: copies, and slight ones that may be as late as wanted, [groups]."""
    left = np.zeros(len(work), np.bool_)
    left[copied] = True
    slight = work <= SLIGHT * work.sum()
    has_before = np.zeros(len(work), np.bool_)
    has_before[edges[:, 1]] = True
    return np.asarray(left | (slight & ~has_before))


def _hops_s(problem: Problem, sizes: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Seconds for which every tensor is on its way from one device to another at best: of one micro-batch, and of all
    of them, [tensors] each. sizes: (micro-batches, samples of one)."""
    tensors = problem.graph.tensors
    if problem.transfer_s is not None:
        stated = np.array(problem.transfer_s, np.float64)
        return stated * min(size for _, size in sizes), stated * problem.mini_batch
    latency, bandwidth = best_of_links(problem.cluster)
    fixed = np.array([tensor.nbytes.fixed for tensor in tensors])
    per_sample = np.array([tensor.nbytes.per_sample for tensor in tensors])
    hops = []
    for _, size in sizes:
        nbytes = fixed + per_sample * size
        hops.append(np.where(nbytes > 0, latency + nbytes / bandwidth, 0.0))
    return np.min(hops, axis=0), np.min([many * hop for (many, _), hop in zip(sizes, hops, strict=True)], axis=0)
