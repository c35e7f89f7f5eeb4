"""HEFT: by falling upward rank, each operator where it ends first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from solvers.joint.lists.grouping import apart, heavy
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.schedulers import Channel, heft
from solvers.joint.lists.seeds import PARTS_PER_DEVICE
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.list_common import offer_scheduled
from solvers.joint.planners.pass_common import no_pass
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor


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
        units = apart(model)
        if self.grouped:
            units = heavy(model, model.memory_bytes, PARTS_PER_DEVICE * model.devices)
        jobs = jobs_of(model, units, contract=self.grouped)
        scheduler = partial(heft, jobs, channel=self.channel, check=monitor.check)
        offer_scheduled(monitor, Simulator(model), [scheduler], own_order=self.own_order)
        return False
