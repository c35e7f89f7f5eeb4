"""m-ETF: the operator and device with the earliest start, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from solvers.joint.lists.earliest_first import Channel, earliest_first
from solvers.joint.lists.grouping import apart, co_placed
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.list_common import offer_scheduled, orders_of
from solvers.joint.planners.pass_common import no_pass
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor


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
        model = pass_model(problem)
        monitor.check()
        joined = [co_placed(model, model.arrays.memory_bytes)] if self.co_placement else []
        jobs = (jobs_of(model, units, contract=self.fusion) for units in (*joined, apart(model)))
        schedulers = (partial(earliest_first, each, channel=self.channel, check=monitor.check) for each in jobs)
        offer_scheduled(monitor, Simulator(model), schedulers, orders_of(self.own_order))
        return False
