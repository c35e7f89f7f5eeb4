"""A problem as arrays over super-operators, for kernels that tell what drafts cost."""

from __future__ import annotations

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.evaluation.columns import rows_of
from solvers.evaluation.tasks_kernel import LINKS, Wires
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.seating import kinds_by_speed
from solvers.pipelines.timing.lowering_kernel import Messages
from solvers.pipelines.timing.stages_kernel import Operators
from solvers.plan.contiguity import forward_edges
from solvers.problem.cluster import Cluster
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem
from solvers.problem.training import ZERO_PARAMETERS

PHASES = (Phase.FORWARD, Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT, Phase.UPDATE)
KIND_OF_PHASE = (0, 1, 1, 2)
"""F, B or U as `solvers.pipelines.timing.stages_kernel.waits_of` numbers them."""


def node_of_operator(condensed: Condensed) -> Ints:
    """The super-operator of every operator, as `Condensed.at` numbers them if nothing trivial is merged."""
    members = condensed.at(1, merge_trivial=False).shape.members
    node = np.zeros(len(condensed.problem.graph), np.int64)
    for number, operators in enumerate(members):
        node[list(operators)] = number
    return node


class Costs:
    """Costs of the operators in topological order, a row for every micro-batch size, number of replicas and kind of
    device asked for: seconds of a device, and bytes saved and of workspace on it."""

    def __init__(self, problem: Problem, node: Ints) -> None:
        self.problem = problem
        operators = problem.graph.operators
        self.order: Ints = np.array(problem.graph.topological_order, np.int64)
        self.phase: Ints = np.array([PHASES.index(operators[o].phase) for o in self.order], np.int64)
        self.node: Ints = node[self.order]
        amounts = [(operators[o].saved_bytes, operators[o].workspace_bytes) for o in self.order]
        self._saved: Floats = np.array([(s.fixed, s.per_sample) for s, _ in amounts]).T
        self._workspace: Floats = np.array([(w.fixed, w.per_sample) for _, w in amounts]).T
        self._rows: dict[tuple[int, int, str], int] = {}
        self._kind = kinds_by_speed(problem)[0]
        empty = np.zeros((0, len(self.order)))
        self.operators = Operators(
            self.node, self.phase, empty, empty, empty, empty, empty, empty, params=self._params()
        )  # fmt: skip

    def _params(self) -> Floats:
        """Bytes of parameters of forward operators that replicas gather, [operators]: 0 without ZeRO-3."""
        if self.problem.copies.zero < ZERO_PARAMETERS:
            return np.zeros(len(self.order))
        owned = np.array([o.param_bytes for o in self.problem.graph.operators], np.float64)
        return np.where(self.phase == 0, owned[self.order], 0.0)

    def row(self, size: int, replicas: int, kind: str = "") -> int:
        """The row of ``operators`` for micro-batches of ``size`` samples shared by ``replicas`` devices of ``kind``,
        the fastest if it is not said."""
        key = (size, replicas, kind or self._kind)
        if key not in self._rows:
            self._add(*key)
            self._rows[key] = len(self._rows)
        return self._rows[key]

    def _add(self, size: int, replicas: int, kind: str) -> None:
        problem, now = self.problem, self.operators
        each = problem.compute.at(kind, size / replicas)[self.order]
        once = problem.compute.at(kind, problem.mini_batch / replicas)[self.order]
        samples = np.where(self.phase == 3, problem.mini_batch, size) / replicas
        backward = problem.has_backward()
        saved = (self._saved[0] + self._saved[1] * samples) * (backward and problem.stated_bytes is None)
        workspace = (self._workspace[0] + self._workspace[1] * samples) * backward
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
    graph = problem.graph
    kind = [KIND_OF_PHASE[PHASES.index(o.phase)] for o in graph.operators]
    rows = [
        (node[t.producer], node[reader], 3 * kind[t.producer] + kind[reader])
        for t in graph.tensors
        for reader in t.consumers
    ]
    return _distinct(np.array(rows, np.int64).reshape(-1, 3))


def _distinct(rows: Ints) -> Ints:
    """Rows whose ends differ, once each."""
    return np.unique(rows[rows[:, 0] != rows[:, 1]], axis=0)


def messages_of(problem: Problem, node: Ints) -> Messages:
    """The messages that may leave a stage; those with the same ends are added up, in the graph's order."""
    graph = problem.graph
    phase = [PHASES.index(o.phase) for o in graph.operators]
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
    ends = len(PHASES) * (int(node.max(initial=-1)) + 1)
    return Messages(
        *rows_of([[len(PHASES) * n + phase for n, phase in makers] for makers, _ in rows]),
        *rows_of([[len(PHASES) * n + phase for n, phase in readers] for _, readers in rows]),
        nbytes=values[:, :2].copy(),
        stated_s=values[:, 2].copy(),
        tensors=values[:, 3].astype(np.int64),
        home_start=np.arange(ends + 1),
    )


def wires_of(problem: Problem) -> Wires:
    """The links between accelerators; one row and column if all are alike, devices too, and have wires of their own."""
    cluster = problem.cluster
    count = len(cluster.accelerators)
    numbers: dict[str, int] = {}
    wire = np.zeros((count, count), np.int64)
    latency, bandwidth = np.zeros((count, count)), np.zeros((count, count))
    kinds: set[tuple[float, float]] = set()
    own = True
    for src in range(count):
        for dst in range(count):
            if src == dst:
                continue
            link = cluster.link(src, dst)
            name = link.resource if link is not None and link.resource else f"{src}->{dst}"
            own &= name not in numbers
            wire[src, dst] = numbers.setdefault(name, len(numbers))
            if link is not None:
                latency[src, dst], bandwidth[src, dst] = link.latency_s, link.bandwidth_bytes_per_s
            kinds.add((float(latency[src, dst]), float(bandwidth[src, dst])))
    specs = {(cluster.devices[d].kind, cluster.devices[d].memory_bytes) for d in cluster.accelerators}
    if own and len(kinds) <= 1 and len(specs) == 1:
        latency_s, bytes_per_s = min(kinds, default=(0.0, 0.0))
        wire, latency, bandwidth = np.zeros((1, 1), np.int64), np.full((1, 1), latency_s), np.full((1, 1), bytes_per_s)
    alike = own and len(kinds) <= 1 and len(specs) == 1
    return Wires(LINKS, problem.transfer_s is not None, alike, wire, latency, bandwidth, np.zeros(0, np.bool_))


def symmetric(cluster: Cluster, wires: Wires) -> bool:
    """Whether it is all one for transfers which accelerator is which: links are as fast as each other, and each has a
    wire of its own, or all have one."""
    count = len(cluster.accelerators)
    apart = ~np.eye(len(wires.wire), dtype=bool)
    speeds = {(latency, speed) for latency, speed in zip(wires.latency_s[apart], wires.bandwidth[apart], strict=True)}
    return len(speeds) <= 1 and len(np.unique(wires.wire[apart])) in (0, 1, count * (count - 1))
