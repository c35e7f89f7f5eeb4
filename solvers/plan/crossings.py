"""Which messages leave their stage: of thousands of tensors only these cost anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Ints, starts
from solvers.plan.plan import Stage
from solvers.problem.graph import OpGraph, per_graph


@per_graph
def _ends(graph: OpGraph) -> tuple[Ints, Ints]:
    """Producers and consumers of every message: all in one row, and where each message begins."""
    rows = []
    for group in graph.messages:
        makers = [graph.tensors[t].producer for t in group]
        rows.append(np.array([*makers, *graph.tensors[group[0]].consumers], np.int64))
    return (np.concatenate(rows) if rows else np.zeros(0, np.int64)), starts(map(len, rows))[:-1]


def messages_between_stages(graph: OpGraph, stages: Sequence[Stage]) -> list[tuple[int, ...]]:
    """The messages of ``graph`` whose operators are not all in one of ``stages``."""
    if not graph.messages:
        return []
    stage_of = np.full(len(graph), -1, np.int64)
    repeated = []
    for number, stage in enumerate(stages):
        members = list(stage.operators)
        repeated += [o for o in members if stage_of[o] >= 0 and graph.operators[o].replicable]
        stage_of[members] = number
    flat, begins = _ends(graph)
    where = stage_of[flat]
    crosses = np.minimum.reduceat(where, begins) != np.maximum.reduceat(where, begins)
    if repeated:  # a copy elsewhere may be read too
        crosses |= np.maximum.reduceat(np.isin(flat, repeated), begins)
    return [graph.messages[m] for m in np.flatnonzero(crosses)]
