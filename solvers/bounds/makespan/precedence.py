"""What waits for what in one unsplit pass, what a transfer takes at least, and what carries it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.bounds.makespan.arrays import DEVICE, NOTHING, Channels, Flags
from solvers.evaluation.columns import graph_columns, pairs_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.successors import with_mirrors
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem, Transfers


@dataclass(frozen=True, slots=True)
class Precedence:
    """What depends on the graph alone: a numbering, and arcs with the messages they stand for."""

    rank: Ints  # [operators], the topological number of each
    src: Ints  # [arcs], numbers
    dst: Ints
    message: Ints  # [arcs], -1 where a backward operator waits for its forward one
    fixed: Floats  # [messages], bytes
    per_sample: Floats  # [messages], bytes
    first_tensor: Ints  # [messages]


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
    fixed, per_sample = columns.tensor_bytes[columns.message_tensor].T
    return Precedence(
        rank,
        rank[np.array(src, np.int64)],
        rank[np.array(dst, np.int64)],
        np.array(message, np.int64),
        fixed,
        per_sample,
        columns.message_tensor,
    )


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
    nbytes = waits.fixed + waits.per_sample * samples
    sent = (waits.fixed != 0) | (waits.per_sample != 0)
    rows, kind = np.unique(allowed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    a, b = kind[group[waits.src]], kind[group[waits.dst]]
    delay = np.zeros(len(waits.src))
    counts = waits.message >= 0
    serial, links = problem.transfers is Transfers.LINKS, pairs_of(cluster, count)
    for i, j in sorted(set(zip(a[counts].tolist(), b[counts].tolist(), strict=True))):
        here = counts & (a == i) & (b == j)
        messages = waits.message[here]
        pairs = np.argwhere(rows[i][:, None] & rows[j] & ~np.eye(count, dtype=bool)).tolist()
        if problem.transfer_s is not None:
            times = {1.0 if serial else float(not cluster.devices[s].is_cpu) + (not cluster.devices[d].is_cpu)
                     for s, d in pairs}  # fmt: skip
            stated = np.asarray(problem.transfer_s)[waits.first_tensor[messages]] * samples
            delay[here] = np.where(stated > 0, stated * min(times), 0.0) if times else np.inf
            continue
        speeds = set()
        for s, d in pairs:
            if links.bandwidth[s, d] > 0:
                factor = 1.0 if serial else float(not cluster.devices[s].is_cpu) + (not cluster.devices[d].is_cpu)
                speeds.add((factor * links.latency_s[s, d], factor / links.bandwidth[s, d]))
        options = [fixed + nbytes[messages] * per_byte for fixed, per_byte in sorted(speeds)]
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
    starts = [np.concatenate([[0], np.cumsum([len(some) for some in row])]).astype(np.int64) for row in rows]
    flat = [np.array([operator for some in row for operator in some], np.int64) for row in rows]
    return Channels(starts[0], flat[0], starts[1], flat[1], message_s[timed], leaving, reaching)


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
