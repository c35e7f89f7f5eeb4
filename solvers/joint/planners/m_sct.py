"""m-SCT: earliest start first, where a device may wait for the favourite child of its last operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from solvers.joint.lists.earliest_first import Channel, earliest_first
from solvers.joint.lists.favourites import FavouriteProgram
from solvers.joint.lists.grouping import apart, co_placed
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.within_memory import Scheduler
from solvers.joint.passes.model import PassModel, pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.list_common import offer_scheduled, orders_of
from solvers.joint.planners.pass_common import no_pass
from solvers.kernels.arrays import Ints
from solvers.problem.problem import Problem
from solvers.programs.mip_search import SOLVERS, Solver, solve_model
from solvers.programs.optional import lacking
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class MSCT:
    """m-ETF with favourite children, which a linear program chooses: at most one child of an operator, and one parent.

    A device whose last operator has a favourite child that is ready, and starts nowhere earlier, waits for it and
    meanwhile runs only urgent operators, which could start on any device by now. threshold: children whose
    relaxed variable is below it are favourites. solver: of the linear program, "highs" or "cbc"; if it fails
    there are no favourites, which is noted. channel, co_placement, fusion, own_order: as in m-etf.
    """

    name: ClassVar[str] = "m-sct"
    source: ClassVar[str] = "Jeon et al. (Baechi), SoCC 2020, section 3 (m-SCT); Hanen and Munier 1995"
    guarantee: ClassVar[str] = "heuristic"

    threshold: float = 0.1
    solver: Solver = "highs"
    channel: Channel = "device"
    co_placement: bool = True
    fusion: bool = True
    own_order: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, found {self.threshold}")

    def unsupported(self, problem: Problem) -> str | None:
        if missing := lacking("pulp"):
            return missing
        if self.solver not in SOLVERS:
            return f"there is no solver {self.solver!r}; there are: {', '.join(SOLVERS)}"
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        model = pass_model(problem)
        monitor.check()
        joined = [co_placed(model, model.arrays.memory_bytes)] if self.co_placement else []
        schedulers = (self._scheduler(model, units, monitor) for units in (*joined, apart(model)))
        offer_scheduled(monitor, Simulator(model), schedulers, orders_of(self.own_order))
        return False

    def _scheduler(self, model: PassModel, units: Ints, monitor: Monitor) -> Scheduler:
        """m-ETF with the favourites of these units; solves the linear program."""
        jobs = jobs_of(model, units, contract=self.fusion)
        program = FavouriteProgram(jobs.arrays)
        found: list[Sequence[float]] = []
        monitor.begin(f"choosing favourite children of {len(jobs):,} operators")
        solve_model(program.model, monitor, found.append, solver=self.solver)
        favourite = None
        if found:
            favourite = program.favourites(found[-1], self.threshold)
        else:
            monitor.note("the linear program gave no favourite children; operators start as in m-etf")
        return partial(earliest_first, jobs, channel=self.channel, check=monitor.check, favourite=favourite)
