"""What waits for what in one unsplit pass, what a transfer takes at least, and what carries it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.makespan.anchored_paths_kernel import DEVICE, NOTHING, Wires
from solvers.evaluation.columns import pairs_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.graph import OpGraph, per_graph, topological_order
from solvers.problem.problem import Problem, Transfers


@dataclass(frozen=True, slots=True)
class Ways:
    """What depends on the graph alone: a numbering, and arcs with the messages they stand for."""

    rank: Ints
    src: Ints
    dst: Ints
    message: Ints
    fixed: Floats
    per_sample: Floats
    first_tensor: Ints


@per_graph
def ways_of(graph: OpGraph) -> Ways:
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
    return Ways(
        rank,
        rank[src] if src else np.empty(0, np.int64),
        rank[dst] if dst else np.empty(0, np.int64),
        np.array(message, np.int64),
        np.array([t.nbytes.fixed for t in first], np.float64),
        np.array([t.nbytes.per_sample for t in first], np.float64),
        np.array([tensors[0] for tensors in graph.messages], np.int64),
    )


def delays(
    problem: Problem, ways: Ways, allowed: Bools, group: Ints, loose: NDArray[np.uint8]
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
    serial, links = problem.transfers is Transfers.LINKS, pairs_of(cluster, count)
    for i, j in sorted(set(zip(a[counts].tolist(), b[counts].tolist(), strict=True))):
        here = counts & (a == i) & (b == j)
        messages = ways.message[here]
        pairs = np.argwhere(rows[i][:, None] & rows[j] & ~np.eye(count, dtype=bool)).tolist()
        if problem.transfer_s is not None:
            times = {1.0 if serial else float(not cluster.devices[s].is_cpu) + (not cluster.devices[d].is_cpu)
                     for s, d in pairs}  # fmt: skip
            stated = np.asarray(problem.transfer_s)[ways.first_tensor[messages]] * samples
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
    np.minimum.at(message_s, ways.message[counts], delay[counts] if serial else delay[counts] / 2)
    delay[(loose[group[ways.src]] | loose[group[ways.dst]]) > 0] = 0.0
    pair, position = np.unique(ways.src * len(group) + ways.dst, return_inverse=True)
    joined = np.zeros(len(pair))
    (np.add if serial else np.maximum).at(joined, position.reshape(-1), delay)
    return pair // len(group), pair % len(group), joined, message_s


def wires(problem: Problem, ways: Ways, copied: Bools, message_s: Floats) -> Wires:
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
        links = pairs_of(cluster, len(cluster))
        used = (links.bandwidth > 0) | (problem.transfer_s is not None)  # stated times need no link
        np.fill_diagonal(used, False)
        if len(np.unique(links.wire[used])) == 1:
            return 0, 0
        return (0, 1) if len(cluster) == 2 else (NOTHING, NOTHING)
    if cluster.cpus:  # which pay nothing
        return NOTHING, NOTHING
    return {Transfers.LANE: (0, 0), Transfers.DUPLEX: (0, 1), Transfers.BLOCKING: (DEVICE, DEVICE)}[problem.transfers]
