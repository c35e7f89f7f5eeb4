"""m-TOPO: fill one device after the other in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from solvers.joint.lists.grouping import apart, co_placed
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.topological import m_topo
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.list_common import offer_scheduled, orders_of
from solvers.joint.planners.pass_common import no_pass
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor


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
        model = pass_model(problem)
        monitor.check()
        joined = [co_placed(model, model.arrays.memory_bytes)] if self.co_placement else []
        jobs = (jobs_of(model, units, contract=self.fusion) for units in (*joined, apart(model)))
        schedulers = (partial(m_topo, each) for each in jobs)
        offer_scheduled(monitor, Simulator(model), schedulers, orders_of(self.own_order))
        return False
