"""Planners that are list schedulers: Baechi's m-TOPO, m-ETF and m-SCT, with the program that finds favourite children
(Hanen and Munier 1995), and HEFT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from solvers.joint.lists.grouping import co_placed, heavy, singletons
from solvers.joint.lists.jobs import Jobs, jobs_of
from solvers.joint.lists.jobs_kernel import NONE, JobArrays
from solvers.joint.lists.schedulers import Channel, earliest_first, heft, m_topo
from solvers.joint.lists.seeds import PARTS_PER_DEVICE
from solvers.joint.lists.within_memory import Scheduler, offer_scheduled
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.pass_common import no_pass
from solvers.kernels.arrays import Ints
from solvers.problem.problem import Problem
from solvers.programs.integer_program import Model
from solvers.programs.mip_search import Solver, no_solver, solve_model
from solvers.search.monitor import Monitor


class FavouriteProgram:
    """The relaxed linear program of small communication times, on any number of devices.

    Minimise the end of the last job; a job starts after each predecessor and, unless it is its favourite, the
    transfer from it: s_i + p_i + c_ij x_ij <= s_j with x_ij in [0, 1], 0 for a favourite. Every job has at most one
    favourite child and is that of at most one. p, c: mean seconds. Jeon et al., SoCC 2020, section 3 (m-SCT).
    """

    def __init__(self, jobs: JobArrays) -> None:
        able = np.isfinite(jobs.seconds)
        seconds = np.where(able, jobs.seconds, 0.0).sum(axis=1) / np.maximum(1, able.sum(axis=1))
        count = len(seconds)
        unit = float(seconds.mean()) or 1.0
        self.jobs = jobs
        self.model = model = Model()
        self.variable = np.full(len(jobs.after), NONE)
        """The variable x of every entry of ``jobs.after``, NONE where a transfer takes no time."""
        end = model.variable(upper=np.inf, cost=1.0)
        starts = [model.variable(upper=np.inf) for _ in range(count)]
        out: list[list[int]] = [[] for _ in range(count)]
        into: list[list[int]] = [[] for _ in range(count)]
        for job in range(count):
            took = float(seconds[job]) / unit
            low, high = int(jobs.after_start[job]), int(jobs.after_start[job + 1])
            if low == high:
                model.row([(end, 1.0), (starts[job], -1.0)], least=took)
            for e in range(low, high):
                target = int(jobs.after[e])
                terms = [(starts[target], 1.0), (starts[job], -1.0)]
                moving = float(jobs.after_s[e]) / unit
                if moving > 0:
                    x = model.variable()
                    self.variable[e] = x
                    terms.append((x, -moving))
                    out[job].append(x)
                    into[target].append(x)
                model.row(terms, least=took)
        for variables in (*out, *into):
            if len(variables) > 1:
                model.row([(x, 1.0) for x in variables], least=len(variables) - 1.0)

    def favourites(self, values: Sequence[float], threshold: float) -> Ints:
        """The favourite child of every job or NONE, [jobs]: edges whose x is below ``threshold``.

        Where several of one job are, the last in the order of edges stands, for parents as for children.
        """
        count = len(self.jobs.unit_of)
        child, parent = np.full(count, NONE), np.full(count, NONE)
        for job in range(count):
            for e in range(int(self.jobs.after_start[job]), int(self.jobs.after_start[job + 1])):
                x = int(self.variable[e])
                if x == NONE or values[x] >= threshold:
                    continue
                target = int(self.jobs.after[e])
                if child[job] != NONE:
                    parent[child[job]] = NONE
                if parent[target] != NONE:
                    child[parent[target]] = NONE
                child[job], parent[target] = target, job
        return child


@dataclass(frozen=True)
class MTopo:
    """Operators in topological order on the first device until that has its share of the memory, then the next.

    A device takes the bytes of all operators over the number of devices, plus those of the largest group. co_placement:
    an operator whose only consumer is another joins that one's group first; fusion: then what is joined inside a
    group runs as one operator. Where co-placed operators find no place that fits, they are tried apart. The
    placement is offered in its own topological order, and, unless ``own_order``, list-scheduled by the longest
    path to the end as well: a placement is not to lose by an order that nobody would run.
    """

    name: ClassVar[str] = "m-topo"
    source: ClassVar[str] = "Jeon et al. (Baechi), SoCC 2020, section 3 (m-TOPO)"
    guarantee: ClassVar[str] = "heuristic"

    co_placement: bool = True
    fusion: bool = True
    own_order: bool = False

    def unsupported(self, problem: Problem) -> str | None:
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        return _offer_grouped(self, problem, monitor, lambda jobs: partial(m_topo, jobs))


@dataclass(frozen=True)
class METF:
    """At each time the ready operator runs that can start first, on the device where it can, if it fits there.

    Of equal starts the first in topological order goes first; the first operator of a group that shares a device
    takes the group there. channel: what transfers wait for while planning: one channel a device for all it
    sends and receives ("device", as published), the problem's own links or lanes ("link"), or nothing ("free").
    co_placement: an operator whose only consumer is another joins that one's group first; fusion: then what is
    joined inside a group runs as one operator, unless that could close a cycle. Where co-placed operators find no
    place that fits, they are tried apart. The placement is offered in the order of the planned starts, and,
    unless ``own_order``, list-scheduled by the longest path to the end as well: a placement is not to lose by
    an order that nobody would run.
    """

    name: ClassVar[str] = "m-etf"
    source: ClassVar[str] = "Jeon et al. (Baechi), SoCC 2020, section 3 (m-ETF); Hwang et al., SIAM J. Comput. 1989"
    guarantee: ClassVar[str] = "heuristic"

    channel: Channel = "device"
    co_placement: bool = True
    fusion: bool = True
    own_order: bool = False

    def unsupported(self, problem: Problem) -> str | None:
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        return _offer_grouped(
            self,
            problem,
            monitor,
            lambda jobs: partial(earliest_first, jobs, channel=self.channel, check=monitor.check),
        )


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
        return no_solver(self.solver) or no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        return _offer_grouped(self, problem, monitor, partial(self._scheduler, monitor))

    def _scheduler(self, monitor: Monitor, jobs: Jobs) -> Scheduler:
        """m-ETF with the favourites of these jobs; solves the linear program."""
        program = FavouriteProgram(jobs.arrays)
        solutions: list[Sequence[float]] = []
        monitor.begin(f"choosing favourite children of {len(jobs):,} operators")
        solve_model(program.model, monitor, solutions.append, solver=self.solver)
        favourite = None
        if solutions:
            favourite = program.favourites(solutions[-1], self.threshold)
        else:
            monitor.note("the linear program gave no favourite children; operators start as in m-etf")
        return partial(earliest_first, jobs, channel=self.channel, check=monitor.check, favourite=favourite)


def _offer_grouped(
    planner: MTopo | METF | MSCT, problem: Problem, monitor: Monitor, scheduler: Callable[[Jobs], Scheduler]
) -> bool:
    """Offer what a scheduler plans for co-placed operators, then for single ones unless that fitted."""
    model = pass_model(problem)
    monitor.check()
    groupings = [singletons(model)]
    if planner.co_placement:
        groupings.insert(0, co_placed(model, model.memory_bytes))
    schedulers = (scheduler(jobs_of(model, units, contract=planner.fusion)) for units in groupings)
    offer_scheduled(monitor, Simulator(model), schedulers, own_order=planner.own_order)
    return False


@dataclass(frozen=True)
class HEFT:
    """Operators by falling mean time to the end of the pass, each on the device where it ends first.

    Gaps are filled. Ours: groups that share a device go where their first operator ends first, if they fit there;
    transfers fill gaps too, of what ``channel`` says that they wait for: the problem's own links or lanes ("link"),
    one channel a device ("device"), or nothing ("free", as published). grouped: neighbours with heavy transfers are
    joined first, to at most an eighth of a device's share of the work, and run as one where that closes no cycle.
    The placement is offered in the order of the planned starts, and, unless ``own_order``,
    list-scheduled by the longest path to the end as well.
    """

    name: ClassVar[str] = "heft"
    source: ClassVar[str] = "Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4"
    guarantee: ClassVar[str] = "heuristic"

    channel: Channel = "link"
    grouped: bool = False
    own_order: bool = False

    def unsupported(self, problem: Problem) -> str | None:
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        model = pass_model(problem)
        monitor.check()
        units = singletons(model)
        if self.grouped:
            units = heavy(model, model.memory_bytes, PARTS_PER_DEVICE * model.devices)
        jobs = jobs_of(model, units, contract=self.grouped)
        scheduler = partial(heft, jobs, channel=self.channel, check=monitor.check)
        offer_scheduled(monitor, Simulator(model), [scheduler], own_order=self.own_order)
        return False
