"""One unsplit pass of operators as arrays, with the least that any plan must pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.graph import BACKWARD_PHASES, OpGraph, Phase, per_graph, topological_order
from solvers.groups import group_of, together
from solvers.kernels.anchored_paths import DEVICE, NOTHING, Wires
from solvers.problem import Problem, Transfers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-6
"""Relative excess over a memory cap that proves nothing."""


@dataclass(frozen=True, slots=True)
class Arcs:
    """Arcs by target (in) and by source (out), with the seconds the target waits at least when its source is
    on another device; inf where no two devices that may hold the ends are linked."""

    in_start: Ints
    in_from: Ints
    in_delay: Floats
    out_start: Ints
    out_to: Ints
    out_delay: Floats

    @property
    def count(self) -> int:
        return len(self.in_from)


@dataclass(frozen=True, eq=False)
class PassShape:
    """A pass whose operators are numbered topologically, mirrors after their forward operator.

    least_s: [operators], on the fastest device that its group may have. group: [operators]. loose: [groups],
    1 where operators may be copied to several devices. forth: arcs; back: arcs of the reversed pass, in which
    operator i is number ``operators - 1 - i``. seconds: [operators, devices]. allowed: [groups, devices], by
    times, pins and static bytes. held: [groups], bytes sure to be held all at one moment. caps: [devices].
    one_by_one: whether every device runs one operator at a time.
    """

    least_s: Floats
    group: Ints
    loose: NDArray[np.uint8]
    forth: Arcs
    back: Arcs
    seconds: Floats
    allowed: Bools
    held: Floats
    caps: Floats
    serial: Bools
    wires: Wires

    @property
    def operators(self) -> int:
        return len(self.least_s)

    @property
    def groups(self) -> int:
        return len(self.loose)

    @property
    def one_by_one(self) -> bool:
        return bool(self.serial.all())


@dataclass(frozen=True, slots=True)
class _Ways:
    """What depends on the graph alone: a numbering, and arcs with the messages they stand for."""

    rank: Ints
    src: Ints
    dst: Ints
    message: Ints
    fixed: Floats
    per_sample: Floats
    first_tensor: Ints


def pass_shape(problem: Problem) -> PassShape | None:
    """The pass of ``mini_batch`` samples; None where some group has no device, or stages may be replicated."""
    if problem.max_replicas > 1:
        return None
    graph, devices = problem.graph, problem.cluster.devices
    ways = _ways(graph)
    rank, groups = ways.rank, together(graph)
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
    loose = np.array([all(graph.operators[o].replicable for o in members) for members in groups], np.uint8)
    least = np.where(allowed[group], seconds, np.inf).min(axis=1)
    src, dst, delay, message_s = _delays(problem, ways, allowed, group, loose)
    held = static + _saved_at_once(problem, rank, least, src, dst, group, len(groups))
    last = len(graph) - 1
    return PassShape(
        least, group, loose, _arcs(len(graph), src, dst, delay), _arcs(len(graph), last - dst, last - src, delay),
        seconds, allowed, held, caps, np.array([d.concurrency is not None for d in devices]),
        _wires(problem, ways, loose[group] > 0, message_s),
    )  # fmt: skip


@per_graph
def _ways(graph: OpGraph) -> _Ways:
    after = [list(targets) for targets in graph.successors]
    mirrors = [(o.forward_of, i) for i, o in enumerate(graph.operators) if o.forward_of is not None]
    for forward, mirror in mirrors:
        after[forward].append(mirror)
    rank = np.empty(len(graph), np.int64)
    rank[list(topological_order(after))] = np.arange(len(graph))
    src: list[int] = []
    dst: list[int] = []
    message: list[int] = []
    for number, tensors in enumerate(graph.messages):
        readers = graph.tensors[tensors[0]].consumers
        for producer in sorted({graph.tensors[t].producer for t in tensors}):
            src += [producer] * len(readers)
            dst += readers
            message += [number] * len(readers)
    for forward, mirror in mirrors:
        src.append(forward)
        dst.append(mirror)
        message.append(-1)
    first = [graph.tensors[tensors[0]] for tensors in graph.messages]
    return _Ways(
        rank,
        rank[src] if src else np.empty(0, np.int64),
        rank[dst] if dst else np.empty(0, np.int64),
        np.array(message, np.int64),
        np.array([t.nbytes.fixed for t in first], np.float64),
        np.array([t.nbytes.per_sample for t in first], np.float64),
        np.array([tensors[0] for tensors in graph.messages], np.int64),
    )


def _delays(
    problem: Problem, ways: _Ways, allowed: Bools, group: Ints, loose: NDArray[np.uint8]
) -> tuple[Ints, Ints, Floats, Floats]:
    """(sources, targets, least seconds to wait for a transfer) of all arcs, each pair of operators once, and
    the least seconds of one transfer of every message.

    Messages from one operator to another cross the same link one after the other; under the other transfer
    models they are sent and received in turn, which may overlap, so there only the longest counts. A CPU pays
    for neither. An arc from or to an operator that may be copied need not cost anything.
    """
    samples, cluster = float(problem.mini_batch), problem.cluster
    count = len(cluster)
    nbytes = ways.fixed + ways.per_sample * samples
    sent = (ways.fixed != 0) | (ways.per_sample != 0)
    rows, kind = np.unique(allowed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    a, b = kind[group[ways.src]], kind[group[ways.dst]]
    delay = np.zeros(len(ways.src))
    counts = ways.message >= 0
    serial = problem.transfers is Transfers.LINKS
    for i, j in sorted(set(zip(a[counts].tolist(), b[counts].tolist(), strict=True))):
        here = counts & (a == i) & (b == j)
        messages = ways.message[here]
        pairs = [(s, d) for s in range(count) for d in range(count) if s != d and rows[i, s] and rows[j, d]]
        if problem.transfer_s is not None:
            times = {1.0 if serial else float(not cluster.devices[s].is_cpu) + (not cluster.devices[d].is_cpu)
                     for s, d in pairs}  # fmt: skip
            stated = np.asarray(problem.transfer_s)[ways.first_tensor[messages]] * samples
            delay[here] = np.where(stated > 0, stated * min(times), 0.0) if times else np.inf
            continue
        speeds = set()
        for s, d in pairs:
            link = cluster.link(s, d)
            if link is not None:
                factor = 1.0 if serial else float(not cluster.devices[s].is_cpu) + (not cluster.devices[d].is_cpu)
                speeds.add((factor * link.latency_s, factor / link.bandwidth_bytes_per_s))
        options = [fixed + nbytes[messages] * per_byte for fixed, per_byte in sorted(speeds)]
        cheapest = np.min(options, axis=0) if options else np.full(len(messages), np.inf)
        delay[here] = np.where(sent[messages], cheapest, 0.0)
    message_s = np.full(len(nbytes), np.inf)
    np.minimum.at(message_s, ways.message[counts], delay[counts] if serial else delay[counts] / 2)
    delay[(loose[group[ways.src]] | loose[group[ways.dst]]) > 0] = 0.0
    pair, position = np.unique(ways.src * len(group) + ways.dst, return_inverse=True)
    joined = np.zeros(len(pair))
    (np.add if serial else np.maximum).at(joined, position.reshape(-1), delay)
    return pair // len(group), pair % len(group), joined, message_s


def _wires(problem: Problem, ways: _Ways, copied: Bools, message_s: Floats) -> Wires:
    """Messages that take time, with what carries them: see `Wires`."""
    kept = np.flatnonzero((message_s > 0) & np.isfinite(message_s))
    rows: tuple[list[list[int]], list[list[int]]] = [], []
    ends: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in message_s]
    for src, dst, message in zip(ways.src.tolist(), ways.dst.tolist(), ways.message.tolist(), strict=True):
        if message >= 0:
            ends[message][0].add(src)
            ends[message][1].add(dst)
    for message in kept.tolist():
        for row, some in zip(rows, ends[message], strict=True):
            row.append(sorted(operator for operator in some if not copied[operator]))
    leaving, reaching = _carriers(problem)
    starts = [np.concatenate([[0], np.cumsum([len(some) for some in row])]).astype(np.int64) for row in rows]
    flat = [np.array([operator for some in row for operator in some], np.int64) for row in rows]
    return Wires(starts[0], flat[0], starts[1], flat[1], message_s[kept], leaving, reaching)


def _carriers(problem: Problem) -> tuple[int, int]:
    """(what carries all messages that leave a device, and what those that reach it), as in `Wires`."""
    cluster = problem.cluster
    if problem.transfers is Transfers.LINKS:
        pairs = [(src, dst) for src in range(len(cluster)) for dst in range(len(cluster)) if src != dst]
        links = [(f"{src}->{dst}", cluster.link(src, dst)) for src, dst in pairs]
        stated = problem.transfer_s is not None  # then it needs no link
        if len({link.resource if link and link.resource else pair for pair, link in links if link or stated}) == 1:
            return 0, 0
        return (0, 1) if len(cluster) == 2 else (NOTHING, NOTHING)
    if cluster.cpus:  # which pay nothing
        return NOTHING, NOTHING
    return {Transfers.LANE: (0, 0), Transfers.DUPLEX: (0, 1), Transfers.BLOCKING: (DEVICE, DEVICE)}[problem.transfers]


def _arcs(count: int, src: Ints, dst: Ints, delay: Floats) -> Arcs:
    def starts(ends: Ints) -> Ints:
        return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=count))]).astype(np.int64)

    by_target, by_source = np.lexsort((src, dst)), np.lexsort((dst, src))
    return Arcs(
        starts(dst), src[by_target], delay[by_target], starts(src), dst[by_source], delay[by_source]
    )  # fmt: skip


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
        kept = np.zeros(count, bool)
        ended_later = backward_of[after & (backward_of >= 0)]
        kept[ended_later] = True
        amount = np.zeros(groups)
        np.add.at(amount, group, np.where(kept & forward & before, saved, 0.0))
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
