"""A problem as arrays over super-operators, for kernels that tell what drafts cost."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.columns import FORWARD, PHASES, cluster_columns, graph_columns, pairs_of, rows_of
from solvers.evaluation.tasks import Messages
from solvers.evaluation.tasks_kernel import LINKS, Wires
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.links_kernel import table_of_one
from solvers.pipelines.recomputation.levels import levels_of
from solvers.pipelines.seating import kinds_by_speed
from solvers.pipelines.timing.stages_kernel import Operators
from solvers.plan.contiguity import forward_edges
from solvers.plan.drafts import FIRST_LEVEL, NOTHING
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem
from solvers.problem.training import ZERO_PARAMETERS
from solvers.schedules.ordering.orders import reads_by_kind


class Costs:
    """Costs of the operators in topological order, a row for every micro-batch size, number of replicas, kind of
    device and level of what runs again asked for: seconds of a device, and bytes saved and of workspace on it."""

    def __init__(self, problem: Problem, node: Ints) -> None:
        self.problem = problem
        columns = graph_columns(problem.graph)
        self.order: Ints = np.array(problem.graph.topological_order, np.int64)
        self.phase: Ints = columns.phase[self.order]
        self.node: Ints = node[self.order]
        self._levels = (problem, *(level.problem for level in levels_of(problem)))
        self._rows: dict[tuple[int, int, str, int], int] = {}
        self._kind = kinds_by_speed(problem)[0]
        empty = np.zeros((0, len(self.order)))
        self.operators = Operators(
            self.node, self.phase, empty, empty, empty, empty, empty, empty, params=self._params()
        )  # fmt: skip

    def _params(self) -> Floats:
        """Bytes of parameters of forward operators that replicas gather, [operators]: 0 without ZeRO-3."""
        if self.problem.copies.zero < ZERO_PARAMETERS:
            return np.zeros(len(self.order))
        columns = graph_columns(self.problem.graph)
        return np.where(self.phase == FORWARD, (columns.trained_bytes + columns.frozen_bytes)[self.order], 0.0)

    def row(self, size: int, replicas: int, kind: str = "", again: int = NOTHING) -> int:
        """The row of ``operators`` for micro-batches of ``size`` samples shared by ``replicas`` devices of ``kind``,
        the fastest if it is not said. again: what runs again, as drafts number it; a whole stage is counted by
        others."""
        key = (size, replicas, kind or self._kind, max(0, again - FIRST_LEVEL + 1))
        if key not in self._rows:
            self._add(*key)
            self._rows[key] = len(self._rows)
        return self._rows[key]

    def _add(self, size: int, replicas: int, kind: str, level: int) -> None:
        problem, now = self._levels[level], self.operators
        columns = graph_columns(problem.graph)
        saved_bytes, workspace_bytes = columns.saved_bytes[self.order].T, columns.workspace_bytes[self.order].T
        each = problem.compute.at(kind, size / replicas)[self.order]
        once = problem.compute.at(kind, problem.mini_batch / replicas)[self.order]
        samples = np.where(self.phase == 3, problem.mini_batch, size) / replicas
        backward = problem.has_backward()
        saved = (saved_bytes[0] + saved_bytes[1] * samples) * (backward and problem.stated_bytes is None)
        workspace = (workspace_bytes[0] + workspace_bytes[1] * samples) * backward
        gradient = problem.exchanged_bytes(size)[self.order] * (self.phase == 0)
        self.operators = now._replace(
            static=np.vstack((now.static, problem.static_bytes(replicas)[self.order])),
            gathered=np.vstack((now.gathered, problem.gathered_bytes(replicas)[self.order])),
            gradient=np.vstack((now.gradient, gradient)),
            seconds=np.vstack((now.seconds, np.where(self.phase == 3, once, each))),
            saved=np.vstack((now.saved, saved)),
            workspace=np.vstack((now.workspace, workspace)),
        )


def edges_of(problem: Problem, node: Ints) -> Ints:
    """The forward edges between super-operators, [edges, 2]."""
    return _distinct(node[np.array(forward_edges(problem.graph), np.int64).reshape(-1, 2)])


def reads_of(problem: Problem, node: Ints) -> Ints:
    """Who reads whose tensors: see `solvers.pipelines.timing.stages_kernel.waits_of`."""
    producer, reader, kinds = reads_by_kind(problem.graph)
    return _distinct(np.stack([node[producer], node[reader], kinds], axis=1))


def _distinct(rows: Ints) -> Ints:
    """Rows whose ends differ, once each."""
    return np.unique(rows[rows[:, 0] != rows[:, 1]], axis=0)


def messages_of(problem: Problem, node: Ints) -> Messages:
    """The messages that may leave a stage; those with the same ends are added up, in the graph's order."""
    graph = problem.graph
    phase = graph_columns(graph).phase.tolist()
    rows: dict[tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]], list[float]] = {}
    for group in graph.messages:
        first = graph.tensors[group[0]]
        makers = tuple(dict.fromkeys((int(node[o]), phase[o]) for o in (graph.tensors[t].producer for t in group)))
        readers = tuple(dict.fromkeys((int(node[o]), phase[o]) for o in first.consumers))
        if len({end for end, _ in (*makers, *readers)}) == 1:
            continue
        row = rows.setdefault((makers, readers), [0.0, 0.0, 0.0, 0])
        row[0] += first.nbytes.fixed
        row[1] += first.nbytes.per_sample
        if problem.transfer_s is not None:
            row[2] += problem.transfer_s[group[0]]
            row[3] += 1
        elif first.nbytes.fixed or first.nbytes.per_sample:
            row[3] += 1
    values = np.array(list(rows.values()), np.float64).reshape(-1, 4)
    return Messages(
        *rows_of([[len(PHASES) * n + phase for n, phase in makers] for makers, _ in rows]),
        *rows_of([[len(PHASES) * n + phase for n, phase in readers] for _, readers in rows]),
        ends=np.zeros(len(values), np.int64),
        nbytes=values[:, :2].copy(),
        stated_s=values[:, 2].copy() if problem.transfer_s is not None else np.zeros(0),
        latencies=values[:, 3].astype(np.int64),
    )


def wires_of(problem: Problem) -> Wires:
    """The links between accelerators; of one class if all are alike, devices too, and have wires of their own."""
    cluster, stated = problem.cluster, problem.transfer_s is not None
    count = len(cluster.accelerators)
    kinds, wires = _between_accelerators(cluster)
    specs = {(cluster.devices[d].kind, cluster.devices[d].memory_bytes) for d in cluster.accelerators}
    none = np.zeros(0, np.bool_)
    if wires == count * (count - 1) and len(kinds) <= 1 and len(specs) == 1:
        return Wires(LINKS, stated, True, table_of_one(*min(kinds, default=(0.0, 0.0))), none)
    return Wires(LINKS, stated, False, cluster_columns(cluster).links, none)


def _between_accelerators(cluster: Cluster) -> tuple[set[tuple[float, float]], int]:
    """((latency, bandwidth) of the links between accelerators, 0 where there is none; how many wires they use)."""
    count = len(cluster.accelerators)
    pairs, off_diagonal = pairs_of(cluster, count), ~np.eye(count, dtype=bool)
    latency, bandwidth = (
        np.where(pairs.bandwidth > 0, pairs.latency_s, 0.0)[off_diagonal],
        pairs.bandwidth[off_diagonal],
    )
    return set(zip(latency.tolist(), bandwidth.tolist(), strict=True)), len(np.unique(pairs.wire[off_diagonal]))


def symmetric(cluster: Cluster) -> bool:
    """Whether it is all one for transfers which accelerator is which: links are as fast as each other, and each has a
    wire of its own, or all have one."""
    count = len(cluster.accelerators)
    kinds, wires = _between_accelerators(cluster)
    return len(kinds) <= 1 and wires in (0, 1, count * (count - 1))
