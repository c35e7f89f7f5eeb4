"""What a file or a traced model brings along: a graph, and the costs and cluster it states."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.errors import printable
from solvers.problem.cluster import Cluster
from solvers.problem.displayed import Displayed
from solvers.problem.graph import OpGraph
from solvers.problem.names import clean_names
from solvers.problem.problem import ComputeTable, Execution, Objective, Transfers


@dataclass(frozen=True, eq=False, repr=False)
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

    def __post_init__(self) -> None:
        clean_names(self, "reference", "costs_from")
        object.__setattr__(self, "notes", tuple(map(printable, self.notes)))

    def __repr__(self) -> str:
        phase = "training" if self.training else "inference"
        return f"Workload({self.reference!r}, {phase}, costs {self.costs_from}, {self.graph!r})"
