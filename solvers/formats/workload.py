"""What a file or a traced model brings along: a graph, and the costs and cluster it states."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.problem.cluster import Cluster
from solvers.problem.displayed import Displayed
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Execution, Objective, Transfers


@dataclass(frozen=True, eq=False)
class Workload(Displayed):
    """A model to plan for. What the source does not state is None, and is then estimated or asked.

    compute, transfer_s (seconds per sample of each tensor) and stated_bytes (bytes per operator)
    are as in `Problem`; cluster is the one the file was published with. parameters is the number of
    parameters when known. reference says where the model comes from: a demo name, a path, or
    "package.module:callable".
    """

    graph: OpGraph
    reference: str
    compute: ComputeTable | None = None
    transfer_s: tuple[float, ...] | None = None
    stated_bytes: tuple[float, ...] | None = None
    cluster: Cluster | None = None
    training: bool = True
    objective: Objective = Objective.ITERATION
    transfers: Transfers = Transfers.LINKS
    execution: Execution = Execution.OPERATOR
    costs_from: str = "estimated"
    parameters: int | None = None
    notes: tuple[str, ...] = ()
    """Things a person should know of the trace: tied parameters, assumptions."""
