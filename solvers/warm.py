"""Compile the kernels once per installation, away from people who wait: ``python -m solvers.warm``."""

from __future__ import annotations

import numpy as np

from solvers.cluster import Device, uniform_cluster
from solvers.graph import Operator, OpGraph, Tensor
from solvers.problem import ComputeTable, Objective, Problem, Transfers
from solvers.solve import solve


def warm() -> None:
    """Solve problems of three operators, of which no bound tells the answer. Fast once they are in numba's cache."""
    for objective in (Objective.ITERATION, Objective.MAX_LOAD):
        solve(_tiny(objective))
    solve(_tiny(Objective.MAX_LOAD), "downset-dp")


def _tiny(objective: Objective) -> Problem:
    graph = OpGraph((Operator("a"), Operator("b"), Operator("c")), (Tensor(0, (1,)), Tensor(0, (2,))))
    cluster = uniform_cluster((Device("0", "gpu"), Device("1", "gpu")), 1e9)
    seconds = {"gpu": np.array([[2.0], [2.0], [2.0]])}
    transfers = Transfers.BLOCKING if objective is Objective.MAX_LOAD else Transfers.LINKS
    return Problem(graph, cluster, ComputeTable((1,), seconds), objective, transfers=transfers, training=False)


if __name__ == "__main__":
    warm()
