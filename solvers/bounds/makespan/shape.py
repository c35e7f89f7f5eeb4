"""One unsplit pass of operators as arrays, with the least that any plan must pay: what waits for what, what a transfer
takes at least, and what carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.bounds.makespan.arrays import DEVICE, NOTHING, Arcs, Channels, Flags, PassArrays
from solvers.evaluation.columns import graph_columns, pairs_of, rows_of
from solvers.kernels.arrays import Bools, Floats, Ints, starts
from solvers.plan.successors import with_mirrors
from solvers.problem.graph import BACKWARD_PHASES, OpGraph, Phase, per_graph
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Problem, Transfers


@dataclass(frozen=True, slots=True)
class Precedence:
    """What depends on the graph alone: a numbering, and arcs with the messages they stand for."""

    rank: Ints  # [operators], the topological number of each
    src: Ints  # [arcs], numbers
    dst: Ints
    message: Ints  # [arcs], -1 where a backward operator waits for its forward one


@per_graph
def precedence_of(graph: OpGraph) -> Precedence:
    columns, (_, order) = graph_columns(graph), with_mirrors(graph)
    rank = np.empty(len(graph), np.int64)
    rank[list(order)] = np.arange(len(graph))
    src: list[int] = []
    dst: list[int] = []
    message: list[int] = []
    for number in range(len(columns.message_tensor)):
        readers = columns.reader[columns.reader_start[number] : columns.reader_start[number + 1]].tolist()
        makers = columns.maker[columns.maker_start[number] : columns.maker_start[number + 1]].tolist()
        for producer in sorted(set(makers)):
            src += [producer] * len(readers)
            dst += readers
            message += [number] * len(readers)
    for mirror in np.flatnonzero(columns.forward_of >= 0).tolist():
        src.append(int(columns.forward_of[mirror]))
        dst.append(mirror)
        message.append(-1)
    ends = rank[np.array(src, np.int64)], rank[np.array(dst, np.int64)]
    return Precedence(rank, *ends, np.array(message, np.int64))


def delays(
    problem: Problem, waits: Precedence, allowed: Bools, group: Ints, copyable: Flags
) -> tuple[Ints, Ints, Floats, Floats]:
    """(sources, targets, least seconds to wait for a transfer) of all arcs, each pair of operators once, and
    the least seconds of one transfer of every message.

    Messages from one operator to another cross the same link one after the other; under the other transfer
    models they are sent and received in turn, which may overlap, so there only the longest counts. A CPU pays
    for neither. An arc from or to an operator that may be copied need not cost anything.
    """
    samples, cluster = float(problem.mini_batch), problem.cluster
    count = len(cluster)
    columns = graph_columns(problem.graph)
    first_tensor = columns.message_tensor
    fixed, per_sample = columns.tensor_bytes[first_tensor].T
    nbytes, sent = fixed + per_sample * samples, (fixed != 0) | (per_sample != 0)
    rows, kind = np.unique(allowed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    a, b = kind[group[waits.src]], kind[group[waits.dst]]
    delay = np.zeros(len(waits.src))
    counts = waits.message >= 0
    serial, links = problem.transfers is Transfers.LINKS, pairs_of(cluster, count)

    def factor(src: int, dst: int) -> float:
        return 1.0 if serial else float(not cluster.devices[src].is_cpu) + (not cluster.devices[dst].is_cpu)

    for i, j in sorted(set(zip(a[counts].tolist(), b[counts].tolist(), strict=True))):
        here = counts & (a == i) & (b == j)
        messages = waits.message[here]
        pairs = np.argwhere(rows[i][:, None] & rows[j] & ~np.eye(count, dtype=bool)).tolist()
        if problem.transfer_s is not None:
            times = {factor(s, d) for s, d in pairs}
            stated = np.asarray(problem.transfer_s)[first_tensor[messages]] * samples
            delay[here] = np.where(stated > 0, stated * min(times), 0.0) if times else np.inf
            continue
        speeds = set()
        for s, d in pairs:
            if links.bandwidth[s, d] > 0:
                speeds.add((factor(s, d) * links.latency_s[s, d], factor(s, d) / links.bandwidth[s, d]))
        options = [latency_s + nbytes[messages] * per_byte for latency_s, per_byte in sorted(speeds)]
        cheapest = np.min(options, axis=0) if options else np.full(len(messages), np.inf)
        delay[here] = np.where(sent[messages], cheapest, 0.0)
    message_s = np.full(len(nbytes), np.inf)
    np.minimum.at(message_s, waits.message[counts], delay[counts] if serial else delay[counts] / 2)
    delay[(copyable[group[waits.src]] | copyable[group[waits.dst]]) > 0] = 0.0
    pair, position = np.unique(waits.src * len(group) + waits.dst, return_inverse=True)
    joined = np.zeros(len(pair))
    (np.add if serial else np.maximum).at(joined, position.reshape(-1), delay)
    return pair // len(group), pair % len(group), joined, message_s


def channels_of(problem: Problem, waits: Precedence, copied: Bools, message_s: Floats) -> Channels:
    """Messages that take time, with what carries them: see `Channels`."""
    timed = np.flatnonzero((message_s > 0) & np.isfinite(message_s))
    rows: tuple[list[list[int]], list[list[int]]] = [], []
    ends: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in message_s]
    for src, dst, message in zip(waits.src.tolist(), waits.dst.tolist(), waits.message.tolist(), strict=True):
        if message >= 0:
            ends[message][0].add(src)
            ends[message][1].add(dst)
    for message in timed.tolist():
        for row, some in zip(rows, ends[message], strict=True):
            row.append(sorted(operator for operator in some if not copied[operator]))
    leaving, reaching = _carriers(problem)
    return Channels(*rows_of(rows[0]), *rows_of(rows[1]), message_s[timed], leaving, reaching)


def _carriers(problem: Problem) -> tuple[int, int]:
    """(what carries all messages that leave a device, and what those that reach it), as in `Channels`."""
    cluster = problem.cluster
    if problem.transfers is Transfers.LINKS:
        links = pairs_of(cluster, len(cluster))
        used = (links.bandwidth > 0) | (problem.transfer_s is not None)  # stated times need no link
        np.fill_diagonal(used, False)
        if len(np.unique(links.wire[used])) == 1:
            return 0, 0
        return (0, 1) if len(cluster) == 2 else (NOTHING, NOTHING)
    if cluster.cpus:  # which pay nothing
        return NOTHING, NOTHING
    return {Transfers.LANE: (0, 0), Transfers.DUPLEX: (0, 1), Transfers.BLOCKING: (DEVICE, DEVICE)}[problem.transfers]


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
    into, out = (starts(np.bincount(ends, minlength=count)) for ends in (dst, src))
    by_target, by_source = np.lexsort((src, dst)), np.lexsort((dst, src))
    return Arcs(into, src[by_target], delay[by_target], out, dst[by_source], delay[by_source])


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
