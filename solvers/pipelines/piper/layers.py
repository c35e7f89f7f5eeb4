"""Operators put together into layers, as Piper's inputs have them, until the downsets are few enough.

Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 3 plans graphs whose nodes are layers: an
operator graph of the same model has so many downsets that nothing can enumerate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.contiguous.downsets import Check, enumerate_downsets, order_of
from solvers.kernels.arrays import Ints
from solvers.plan.contiguity import forward_edges
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Layers:
    """block: the layer of every operator, [operators]. count: of layers. downsets: of theirs."""

    block: tuple[int, ...]
    count: int
    downsets: int


def layers_of(problem: Problem, limit: int, check: Check) -> Layers | None:
    """The finest layers found that have at most ``limit`` downsets; None if none have.

    Tried are the co-location groups themselves, then the modules that hold them, from the innermost
    out; and for each of these, joining neighbours on its chains (a node with one reader, which reads
    nothing else), in rounds and the least work first, as far as needed. Calls ``check`` often.
    """
    grouping = _Grouping(problem, limit, check)
    best: tuple[int, Ints] | None = None
    for depth in (None, *range(grouping.deepest, 0, -1)):
        label = grouping.by_module(depth)
        count = grouping.downsets(label)
        layers = (count, label) if count is not None else grouping.joined(label)
        if layers is not None and (best is None or layers[0] > best[0]):
            best = layers
        if count is not None:
            break
    if best is None:
        return None
    return Layers(tuple(best[1][grouping.group_of].tolist()), int(best[1].max()) + 1, best[0])


class _Grouping:
    """Labels of co-location groups, and the downsets of the graph they make."""

    def __init__(self, problem: Problem, limit: int, check: Check) -> None:
        graph = problem.graph
        self.limit, self.check = limit, check
        groups = together(graph)
        self.group_of = np.zeros(len(graph), np.int64)
        for number, members in enumerate(groups):
            self.group_of[list(members)] = number
        self.edges = sorted({(int(self.group_of[u]), int(self.group_of[v])) for u, v in forward_edges(graph)})
        self.paths = [_path(graph, members) for members in groups]
        self.deepest = max((len(path) for path in self.paths), default=0)
        kind = min(d.kind for d in problem.cluster.devices if not d.is_cpu)
        seconds = problem.compute.at(kind, 1)
        self.work = np.bincount(self.group_of, np.where(np.isfinite(seconds), seconds, 0.0), len(groups))

    def by_module(self, depth: int | None) -> Ints:
        """Groups of one module of this depth together; None: every group by itself."""
        number: dict[tuple[str, ...] | int, int] = {}
        label = []
        for group, path in enumerate(self.paths):
            key = group if depth is None or len(path) < depth else path[:depth]
            label.append(number.setdefault(key, len(number)))
        return self._ordered(np.array(label, np.int64))

    def downsets(self, label: Ints) -> int | None:
        """How many downsets there are; None if more than the limit."""
        nodes = int(label.max()) + 1
        downsets = enumerate_downsets(
            order_of([(v, u) for u, v in self._quotient(label)], nodes), self.limit, self.check
        )
        return None if downsets is None else len(downsets)

    def joined(self, label: Ints) -> tuple[int, Ints] | None:
        """The labels after joining as few neighbours on chains as make the downsets few enough."""
        while True:
            self.check()
            pairs = self._neighbours(label)
            if not pairs:
                return None
            count = self.downsets(self._join(label, pairs))
            if count is not None:
                break
            label = self._join(label, pairs)
        few, many = 0, len(pairs)  # too many downsets with few, not with many
        while many - few > 1:
            middle = (few + many) // 2
            tried = self.downsets(self._join(label, pairs[:middle]))
            few, many, count = (middle, many, count) if tried is None else (few, middle, tried)
        return count, self._join(label, pairs[:many])

    def _quotient(self, label: Ints) -> tuple[tuple[int, int], ...]:
        pairs = {(int(label[u]), int(label[v])) for u, v in self.edges}
        return tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))

    def _ordered(self, label: Ints) -> Ints:
        """The labels numbered in a topological order; those on a cycle become one."""
        import networkx  # slow to import

        graph = networkx.DiGraph()
        graph.add_nodes_from(range(int(label.max()) + 1))
        graph.add_edges_from(self._quotient(label))
        whole = networkx.condensation(graph)
        number = np.zeros(len(graph), np.int64)
        for rank, component in enumerate(networkx.lexicographical_topological_sort(whole)):
            number[list(whole.nodes[component]["members"])] = rank
        return number[label]

    def _neighbours(self, label: Ints) -> list[tuple[int, int]]:
        """Disjoint pairs on chains, the least work first."""
        edges = self._quotient(label)
        leaves, enters = np.bincount([u for u, _ in edges] or [0]), np.bincount([v for _, v in edges] or [0])
        work = np.bincount(label, self.work)
        used: set[int] = set()
        pairs = []
        for u, v in edges:
            if leaves[u] == 1 and enters[v] == 1 and not {u, v} & used:
                used |= {u, v}
                pairs.append((u, v))
        return sorted(pairs, key=lambda pair: work[list(pair)].sum())

    def _join(self, label: Ints, pairs: Sequence[tuple[int, int]]) -> Ints:
        into = np.arange(int(label.max()) + 1)
        for u, v in pairs:
            into[v] = u
        _, dense = np.unique(into[label], return_inverse=True)
        return self._ordered(np.asarray(dense, np.int64))


def _path(graph: OpGraph, members: Sequence[int]) -> tuple[str, ...]:
    """The modules that hold a group's forward operators, outermost first; empty if they differ."""
    operators = [graph.operators[o] for o in members]
    paths = {o.module_path for o in operators if o.phase is Phase.FORWARD} or {o.module_path for o in operators}
    return tuple(paths.pop().split(".")) if len(paths) == 1 and paths != {""} else ()
