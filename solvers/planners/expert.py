"""A placement that somebody gives, judged like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.problem.problem import Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class Expert:
    """The plan of a given placement, in the number of micro-batches that suits it best.

    placement: the device of every operator of the graph. Where it breaks a rule (memory, co-location,
    a cycle between devices) there is no plan, and a note says which.
    """

    name: ClassVar[str] = "expert"
    source: ClassVar[str] = "baseline: a placement made by hand"
    guarantee: ClassVar[str] = "heuristic"

    placement: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.placement, tuple) or not all(isinstance(device, int) for device in self.placement):
            raise ValueError("option placement: a placement is read from a file, not from an option")

    def unsupported(self, problem: Problem) -> str | None:
        if not self.placement:
            return "it judges a placement made by hand; give the file that holds one"
        if len(self.placement) != len(problem.graph):
            return f"the placement is of {len(self.placement):,} operators, the graph has {len(problem.graph):,}"
        beyond = [device for device in self.placement if not 0 <= device < len(problem.cluster)]
        if beyond:
            return f"the placement uses device {beyond[0]}, and there are {len(problem.cluster)} devices"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        broken = ""
        for count in micro_batch_choices(problem):
            monitor.check()
            try:
                plan = assemble(problem, [(device,) for device in self.placement], count)
            except InvalidPlan as error:
                broken = str(error)
                break
            if monitor.offer(plan) == float("inf"):
                broken = broken or judge(problem, plan).violation
        if broken and monitor.best is None:
            monitor.note(f"the placement is no plan: {broken}")
        return False
