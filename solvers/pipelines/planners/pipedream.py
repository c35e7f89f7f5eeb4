"""PipeDream's way round graphs that branch: make them a chain by merging what branches, then cut it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from solvers.bounds.combinatorial import bound_with_s
from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.trivial_merges import TRIVIAL_S
from solvers.contiguous.planners.chain_dp import LinearStarts, micro_batch_choices, unsupported
from solvers.pipelines.boundary_moves import offer_more_in_flight
from solvers.problem.graph import Phase
from solvers.problem.groups import together
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least

Vertex = tuple[int, bool]
"""A co-location group, and whether it is its forward operators that are meant."""


@dataclass(frozen=True)
class PipeDream:
    """Branches merged into blocks, then the linearised program over the chain that is left.

    Two co-location groups are of one block if their outputs are read along edges of one biconnected
    component of the graph (so the operator that joins the branches stays apart). Edges out of
    operators without compute, whose output takes at most ``negligible`` of the median transfer,
    join nothing, as PipeDream ignores masks and initial states; None keeps every edge.
    backward_edges: the published program's variant, which also follows what flows backward; in
    training graphs that are not the mirror image of their forward that merges nearly everything.
    """

    name: ClassVar[str] = "pipedream"
    source: ClassVar[str] = "Narayanan et al., SOSP 2019, as in Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "heuristic"

    backward_edges: bool = False
    negligible: float | None = 0.05
    orders: int = 8

    def __post_init__(self) -> None:
        at_least(self, {"orders": 1} if self.negligible is None else {"orders": 1, "negligible": 0})

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        chain = in_blocks(problem, self.blocks(problem, monitor.check))
        starts = LinearStarts(chain, monitor, Condensed(chain, ordered=True), self.orders)
        for count in micro_batch_choices(problem):
            monitor.check()
            if bound_with_s(problem, count) < monitor.objective_s:
                starts.offer(count)
        offer_more_in_flight(problem, monitor)
        return False

    def blocks(self, problem: Problem, check: Callable[[], None]) -> list[int]:
        """The block of every operator; co-located operators are of one block."""
        import networkx  # slow to import

        groups = together(problem.graph)
        sources = self._edges(problem, groups)
        graph = networkx.Graph(sources.keys())
        joined = networkx.utils.UnionFind(range(len(groups)))
        for component in networkx.biconnected_component_edges(graph):
            check()
            touching = {
                group for u, v in component for group, _ in sources.get((u, v), set()) | sources.get((v, u), set())
            }
            joined.union(*touching)
        block = [0] * len(problem.graph)
        for group, members in enumerate(groups):
            for operator in members:
                block[operator] = joined[group]
        return block

    def _edges(self, problem: Problem, groups: Sequence[Sequence[int]]) -> dict[tuple[Vertex, Vertex], set[Vertex]]:
        """Every pair of neighbours, in one order of the two, and which of them sends to the other."""
        graph = problem.graph
        vertex: dict[int, Vertex] = {
            operator: (group, graph.operators[operator].phase is Phase.FORWARD)
            for group, members in enumerate(groups)
            for operator in members
        }
        ignored = self._ignored(problem)
        sources: dict[tuple[Vertex, Vertex], set[Vertex]] = {}
        for t, tensor in enumerate(graph.tensors):
            if ignored[t]:
                continue
            source = vertex[tensor.producer]
            for consumer in tensor.consumers:
                target = vertex[consumer]
                if source != target and (self.backward_edges or (source[1] and target[1])):
                    sources.setdefault((min(source, target), max(source, target)), set()).add(source)
        return sources

    def _ignored(self, problem: Problem) -> list[bool]:
        """Tensors that join nothing: negligible outputs of operators without compute."""
        tensors = problem.graph.tensors
        if self.negligible is None:
            return [False] * len(tensors)
        kinds = {device.kind for device in problem.cluster.devices if not device.is_cpu}
        kinds = kinds or {device.kind for device in problem.cluster.devices}
        busy_s = np.max([problem.compute.at(kind, 1) for kind in kinds], axis=0)
        size = np.array(problem.transfer_s or [tensor.nbytes.at(1) for tensor in tensors], np.float64)
        # A gradient is as large as its activation, and the median is to be of these.
        moved = size[size > 0]
        most = self.negligible * float(np.median(moved)) if len(moved) else 0.0
        return [bool(busy_s[tensor.producer] < TRIVIAL_S and size[t] <= most) for t, tensor in enumerate(tensors)]


def in_blocks(problem: Problem, block: Sequence[int]) -> Problem:
    """The same problem with every block a co-location group."""
    graph = problem.graph
    operators = tuple(replace(operator, colocation=f"block {block[i]}") for i, operator in enumerate(graph.operators))
    return replace(problem, graph=replace(graph, operators=operators))
