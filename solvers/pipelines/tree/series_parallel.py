"""The series-parallel structure of a graph: where it branches, and where the branches join again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import topological_order


@dataclass(frozen=True, slots=True)
class Series:
    """Parts of which every one comes before the next."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches between which nothing is ordered."""

    parts: tuple[Tree, ...]


Tree = int | Series | Parallel
"""A node, or a composition. A series has no series among its parts, a parallel no parallel."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """tree: every node once. forced: how many times order had to be added to get it: 0 if and only if
    the graph (its order of nodes) is series-parallel."""

    tree: Tree
    forced: int


def decompose(after: Sequence[Sequence[int]], weight: Sequence[float], least_s: float = 0.0) -> Decomposition:
    """The series-parallel tree of an acyclic graph.

    after: successors of every node; weight: seconds of every node, >= 0. A set of nodes is a parallel
    composition if its comparability graph is disconnected, a series if its incomparability graph is;
    if it is neither (it has an N), the downset of one node is put before all the rest, the one that
    lengthens the path of most weight least. What weighs less than ``least_s`` and is neither becomes a
    series. Every tree is a strengthening of the order, so stages that
    are cut from it never wait for each other. Valdes, Tarjan and Lawler (1982); modular decomposition.
    """
    if not after:
        return Decomposition(Series(()), 0)
    splitter = _Splitter(after, weight, least_s)
    return Decomposition(splitter.tree((1 << len(after)) - 1), splitter.forced)


class _Splitter:
    """Sets of nodes are bit masks."""

    def __init__(self, after: Sequence[Sequence[int]], weight: Sequence[float], least_s: float) -> None:
        order = topological_order([list(targets) for targets in after])
        self.rank = [0] * len(after)
        for rank, node in enumerate(order):
            self.rank[node] = rank
        self.below = [0] * len(after)  # descendants
        self.above = [0] * len(after)  # ancestors
        for node in reversed(order):
            for target in after[node]:
                self.below[node] |= self.below[target] | 1 << target
        for node in order:
            for target in after[node]:
                self.above[target] |= self.above[node] | 1 << node
        self.after, self.weight, self.least_s = after, weight, least_s
        self.forced = 0

    def tree(self, nodes: int) -> Tree:
        members = self._members(nodes)
        if len(members) == 1:
            return members[0]
        parallel = self._components(nodes, comparable=True)
        if len(parallel) > 1:
            return Parallel(tuple(self.tree(part) for part in parallel))
        series = self._components(nodes, comparable=False)
        if len(series) == 1:
            self.forced += 1
            if sum(self.weight[node] for node in members) < self.least_s:
                ordered: list[int] = sorted(members, key=self.rank.__getitem__)
                return Series(tuple(ordered))
            first = self._cheapest_downset(members, nodes)
            series = [first, nodes & ~first]
        return Series(tuple(flat for part in series for flat in _inside(self.tree(part))))

    def _members(self, nodes: int) -> list[int]:
        members = []
        while nodes:
            low = nodes & -nodes
            members.append(low.bit_length() - 1)
            nodes ^= low
        return members

    def _components(self, nodes: int, *, comparable: bool) -> list[int]:
        """Connected components of the (in)comparability graph of ``nodes``, first in order first."""
        components = []
        left = nodes
        while left:
            start = left & -left
            component = frontier = start
            left ^= start
            while frontier and left:
                node = (frontier & -frontier).bit_length() - 1
                frontier &= frontier - 1
                related = self.below[node] | self.above[node]
                new = left & (related if comparable else ~related)
                component |= new
                frontier |= new
                left &= ~new
            components.append(component)
        return sorted(components, key=lambda part: min(self.rank[node] for node in self._members(part)))

    def _cheapest_downset(self, members: list[int], nodes: int) -> int:
        """Of the downsets of one node, and of the complements of its upsets, the one that may be put before
        the rest at the least cost: the longest path before plus that after. Ties: the most even split."""
        position = {node: i for i, node in enumerate(sorted(members, key=self.rank.__getitem__))}
        ordered = list(position)
        weight = np.array([self.weight[node] for node in ordered])
        head, tail = weight.copy(), weight.copy()
        inner = [[position[t] for t in self.after[node] if t in position] for node in ordered]
        for i in range(len(ordered)):
            for t in inner[i]:
                head[t] = max(head[t], head[i] + weight[t])
        for i in range(len(ordered) - 1, -1, -1):
            for t in inner[i]:
                tail[i] = max(tail[i], tail[t] + weight[i])
        best: tuple[float, float, int] | None = None
        total = float(weight.sum())
        for node in ordered:
            for downset in (self.above[node] & nodes | 1 << node, nodes & ~(self.below[node] | 1 << node)):
                if downset in (0, nodes):
                    continue
                before = np.fromiter((downset >> m & 1 for m in ordered), bool, len(ordered))
                path = float(head[before].max() + tail[~before].max())
                cost = (path, abs(2 * float(weight[before].sum()) - total), downset)
                best = cost if best is None else min(best, cost)
        assert best is not None
        return best[2]


def _inside(tree: Tree) -> tuple[Tree, ...]:
    return tree.parts if isinstance(tree, Series) else (tree,)


def leaves(tree: Tree) -> Iterator[int]:
    """Its nodes, in an order of the graph (branches one after the other)."""
    if isinstance(tree, int):
        yield tree
    else:
        for part in tree.parts:
            yield from leaves(part)


def simplified(tree: Tree, weight: Floats, least_s: float, least_beside_s: float) -> Tree:
    """The tree without branchings that no stage would follow.

    A parallel composition stays if all of it weighs at least ``least_s`` and all but its heaviest branch
    at least ``least_beside_s``; any other becomes a series of its nodes.
    """
    if isinstance(tree, int):
        return tree
    parts = tuple(simplified(part, weight, least_s, least_beside_s) for part in tree.parts)
    if isinstance(tree, Series):
        return Series(tuple(flat for part in parts for flat in _inside(part)))
    heavy = [float(weight[list(leaves(part))].sum()) for part in parts]
    if sum(heavy) >= least_s and sum(heavy) - max(heavy) >= least_beside_s:
        return Parallel(parts)
    return Series(tuple(leaves(Series(parts))))


def joined(tree: Tree, weight: Floats, most_s: float) -> Tree:
    """The tree in which what joins branches, or comes before they part, is at the end, or the start, of the
    heaviest branch, so that one stage may hold both: a stage of its own would waste a device.

    Only runs of nodes that weigh at most ``most_s`` together, between branchings or at an end.
    """
    if isinstance(tree, int):
        return tree
    parts = [joined(part, weight, most_s) for part in tree.parts]
    if isinstance(tree, Parallel):
        return Parallel(tuple(parts))
    runs: list[list[Tree]] = [[]]  # runs of nodes, with a branching between every two
    branchings: list[Parallel] = []
    for part in parts:
        if isinstance(part, Parallel):
            branchings.append(part)
            runs.append([])
        else:
            runs[-1].append(part)
    light = [sum(float(weight[list(leaves(part))].sum()) for part in run) <= most_s for run in runs]
    for number, branching in enumerate(branchings):
        if number == 0 and light[0]:
            branching, runs[0] = _extended(branching, weight, runs[0], []), []
        if light[number + 1]:
            branching, runs[number + 1] = _extended(branching, weight, [], runs[number + 1]), []
        branchings[number] = branching
    series: list[Tree] = list(runs[0])
    for branching, run in zip(branchings, runs[1:], strict=True):
        series += [branching, *run]
    return series[0] if len(series) == 1 else Series(tuple(series))


def _extended(branching: Parallel, weight: Floats, first: list[Tree], last: list[Tree]) -> Parallel:
    """With these parts before and after its heaviest branch."""
    heaviest = max(range(len(branching.parts)), key=lambda i: float(weight[list(leaves(branching.parts[i]))].sum()))
    longer = Series((*first, *_inside(branching.parts[heaviest]), *last))
    return Parallel(tuple(longer if i == heaviest else part for i, part in enumerate(branching.parts)))
