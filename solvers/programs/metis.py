"""METIS in a process of its own: it prints complaints to standard output, and cannot be interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.kernels.arrays import Floats, Ints, starts
from solvers.programs.background import Receive, Send

TOTAL = 10**8
"""The weights' sum after scaling: METIS counts in 32 bits."""
MAX_SEED = 2**31
QUICK = 20_000
"""Vertices up to which recursive bisection is tried too; above, only the faster k-way partitioning."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightedGraph:
    """An undirected graph in compressed rows: the neighbours of v are ``ends[start[v]:start[v + 1]]``.

    weights: of the vertices, [vertices]; edge_weights: of the edge to each neighbour, the same in
    both directions, [ends]. Both are whole numbers that METIS can add up.
    """

    start: Ints
    ends: Ints
    weights: Ints
    edge_weights: Ints

    @staticmethod
    def of(weights: Floats, between: Mapping[tuple[int, int], float]) -> WeightedGraph:
        """The graph with the edges ``between``: (u, v), u < v -> weight; edges of weight 0 are left out."""
        pairs = np.array([pair for pair, weight in between.items() if weight > 0], np.int64).reshape(-1, 2)
        values = _whole(np.array([weight for weight in between.values() if weight > 0], np.float64), least=1)
        pairs, values = np.vstack([pairs, pairs[:, ::-1]]), np.concatenate([values, values])
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        start = starts(np.bincount(pairs[:, 0], minlength=len(weights)))
        return WeightedGraph(start, pairs[order, 1], _whole(weights, least=0), values[order])

    def payload(self) -> dict[str, Ints]:
        return {
            "start": self.start,
            "ends": self.ends,
            "weights": self.weights,
            "edge_weights": self.edge_weights,
        }


def _whole(values: Floats, least: int) -> Ints:
    """Whole numbers in proportion, at least ``least`` each, that add up to about TOTAL."""
    total = float(values.sum())
    if total <= 0:
        return np.ones(len(values), np.int64)
    return np.maximum(np.rint(values * (TOTAL / total)), least).astype(np.int64)


def run(payload: Mapping[str, Any], send: Send, _: Receive) -> None:
    """The task "partition" of `solvers.programs.background`.

    payload: graphs (`WeightedGraph.payload` of each), parts, tolerances (allowed excess of a part
    over the average, in thousandths) and seeds. Sends {"graph": number, "parts": [vertices]} for
    every graph, method, tolerance and seed.
    """
    import pymetis

    for number, graph in enumerate(payload["graphs"]):
        start, ends, weights, edge_weights = (
            np.array(graph[key], np.int32) for key in ("start", "ends", "weights", "edge_weights")
        )
        adjacency = pymetis.CSRAdjacency(start, ends)
        for recursive in (True, False) if len(weights) <= QUICK else (False,):
            for tolerance in payload["tolerances"]:
                for seed in payload["seeds"]:
                    partition = pymetis.part_graph(
                        payload["parts"],
                        adjacency,
                        vweights=weights,
                        eweights=edge_weights,
                        recursive=recursive,
                        options=pymetis.Options(ufactor=tolerance, seed=seed % MAX_SEED),
                    )
                    send({"graph": number, "parts": np.asarray(partition[1])})
