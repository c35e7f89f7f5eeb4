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

from solvers.bounds.paths import heads_and_tails_s, whole_backwards
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.contiguity import forward_edges
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem

PRECISION = 1e-3
"""How closely the least time is found that is not ruled out; what is told is ruled out."""
MOST_GROUPS = 2000
"""Of more groups of operators nothing is told: it would take seconds."""
MOST_CUTS = 400
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
        furthest = -float(cuts.ways_s[0])  # of all cuts that few enough devices reach: its position, less its ways
        for _ in range(self.devices - 1):
            reach = time_s + furthest + spare
            met = cuts.enter_s <= reach
            values = np.minimum(cuts.leave_s[met], reach) - cuts.ways_s[met]
            furthest = max(furthest, float(values.max(initial=-np.inf)))
        return whole > time_s + furthest + spare

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
        ways_in, ways_out = np.full(count, np.inf), np.full(count, np.inf)
        np.minimum.at(ways_in, number, self.in_s)
        np.minimum.at(ways_out, number, self.out_s)
        return _stretches(earliest_end, latest_start, ways_in, ways_out, float(work.sum()))


def _stretches(earliest_end: Floats, latest_start: Floats, ways_in: Floats, ways_out: Floats, whole: float) -> _Cuts:
    """Positions that are inside of no operator, where those beyond are the same."""
    spare = whole * ROUNDING
    order = np.argsort(latest_start, kind="stable")
    starts = latest_start[order]
    shortest_in = np.minimum.accumulate(ways_in[order][::-1])[::-1]
    shortest_out = np.minimum.accumulate(ways_out[order][::-1])[::-1]
    ways = np.append(shortest_in + shortest_out, np.inf)  # with nothing beyond it is no cut
    inside = np.flatnonzero(latest_start + 2 * spare < earliest_end)
    inside = inside[np.argsort(latest_start[inside], kind="stable")]
    enter, leave, at = [], [], -spare
    for begin, end in zip(
        (latest_start[inside] + spare).tolist(), (earliest_end[inside] - spare).tolist(), strict=True
    ):
        if begin >= at:
            enter.append(at)
            leave.append(begin)
        at = max(at, end)
    enter.append(at)
    leave.append(max(at, whole + spare))
    found: list[tuple[float, float, float]] = []
    for begin, end in zip(enter, leave, strict=True):
        first, last = np.searchsorted(starts, [begin, end], side="left").tolist()
        marks = [begin, *starts[first:last].tolist(), end]
        found += [(marks[i], marks[i + 1], float(ways[first + i])) for i in range(len(marks) - 1)]
    rows = np.array(found)
    firsts = np.unique(np.linspace(0, len(rows), MOST_CUTS, endpoint=False).astype(np.int64))
    lasts = np.append(firsts[1:], len(rows)) - 1
    return _Cuts(rows[firsts, 0], rows[lasts, 1], np.minimum.reduceat(rows[:, 2], firsts))


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
    head, tail = heads_and_tails_s(graph, seconds, whole=whole_backwards(problem))
    work: Floats = np.bincount(number, np.where(update, 0.0, in_all), count).astype(np.float64)
    copied = np.array([operator.replicable for operator in operators])
    pairs = {(number[u], number[v]) for u, v in forward_edges(graph) if not copied[u] and not copied[v]}
    edges = np.array(sorted((u, v) for u, v in pairs if u != v), np.int64).reshape(-1, 2)
    left = _left_out(work, edges, number[copied])
    if not (work[~left] > 0).any():
        return None
    first_s, last_s, sent = head.copy(), tail.copy(), []
    hop_s, all_s = _hops_s(problem, sizes)
    for position, tensor in enumerate(graph.tensors):
        u = tensor.producer
        if copied[u] or update[u] or left[number[u]]:
            continue
        for v in tensor.consumers:
            if number[u] == number[v] or copied[v] or update[v] or left[number[v]]:
                continue
            first_s[v] = max(first_s[v], head[u] + seconds[u] + hop_s[position])
            last_s[u] = max(last_s[u], hop_s[position] + seconds[v] + tail[v])
            apart_s = head[u] + seconds[u] + all_s[position] + seconds[v] + tail[v]
            sent.append((apart_s, number[u], number[v]))
    ways_in, ways_out = np.full(count, np.inf), np.full(count, np.inf)
    np.minimum.at(ways_in, number[~update], first_s[~update])
    np.minimum.at(ways_out, number[~update], last_s[~update])
    kept = ~left & np.isfinite(ways_in)
    place = np.cumsum(kept) - 1
    edges = edges[kept[edges].all(axis=1)]
    sent.sort(key=lambda row: -row[0])
    tensors = [row for row in sent if kept[row[1]] and kept[row[2]]]
    return _Chain(
        work[kept],
        ways_in[kept],
        ways_out[kept],
        place[edges],
        np.array([row[0] for row in tensors]),
        place[np.array([row[1:] for row in tensors], np.int64).reshape(-1, 2)],
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
    tensors, links = problem.graph.tensors, problem.cluster.links
    if problem.transfer_s is not None:
        stated = np.array(problem.transfer_s, np.float64)
        return stated * min(size for _, size in sizes), stated * problem.mini_batch
    bandwidth = max((link.bandwidth_bytes_per_s for link in links), default=np.inf)
    latency = min((link.latency_s for link in links), default=0.0)
    fixed = np.array([tensor.nbytes.fixed for tensor in tensors])
    per_sample = np.array([tensor.nbytes.per_sample for tensor in tensors])
    hops = []
    for _, size in sizes:
        nbytes = fixed + per_sample * size
        hops.append(np.where(nbytes > 0, latency + nbytes / bandwidth, 0.0))
    return np.min(hops, axis=0), np.min([many * hop for (many, _), hop in zip(sizes, hops, strict=True)], axis=0)
