"""The layer split: consecutive layers of equal work on every device, as an expert does it by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.chain_dp import memory_shares, micro_batch_choices
from solvers.errors import InvalidPlan
from solvers.joint.lists.layers import layer_split
from solvers.joint.lists.modules import module_order, split_by_modules
from solvers.joint.lists.within_memory import Timed, within_memory
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import plan_of
from solvers.joint.passes.simulator import Simulator
from solvers.plan.segments import Place
from solvers.problem.problem import Contiguity, Execution, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class LayerSplit:
    """Forward operators in topological order, which is that of a model's layers, cut into one part per accelerator.

    Mirrors and co-located operators follow. The busiest part has the least work, in two readings: without
    transfers, and with those that cross its ends; the judge keeps the better. Memory is counted as what
    operators keep, for as many micro-batches as are in flight, and less of it is planned for where peaks break a
    cap. A single pass of operators is list-scheduled by the longest path to the end; there the layers are also
    taken module by module, since those of an unrolled model run side by side; and, with ``fewer``, fewer
    accelerators are tried too, as an expert would where a pass gains nothing from all of them.
    """

    name: ClassVar[str] = "layer-split"
    source: ClassVar[str] = "baseline: the split of layers by work that experts write by hand"
    guarantee: ClassVar[str] = "heuristic"

    fewer: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it spreads operators over accelerators, and the cluster has none"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        by_operator = problem.objective is Objective.MAKESPAN and problem.execution is Execution.OPERATOR
        if by_operator and problem.contiguity is Contiguity.NONE:
            self._offer_pass(problem, monitor)
        else:
            self._offer_stages(problem, monitor)
        return False

    def _offer_pass(self, problem: Problem, monitor: Monitor) -> None:
        model = pass_model(problem)
        simulator = Simulator(model)
        devices = problem.cluster.accelerators
        order = module_order(model)
        found: list[Timed] = []
        for count in range(len(devices), 0 if self.fewer else len(devices) - 1, -1):
            chosen = _fastest(model.seconds, devices, count)
            for transfers in (False, True) if count > 1 else (False,):
                in_time = partial(layer_split, model, model.groups, devices=chosen, transfers=transfers)
                by_module = partial(split_by_modules, model, order, devices=chosen, transfers=transfers)
                for split in (in_time, by_module) if count > 1 else (in_time,):
                    timed = within_memory(simulator, split, "rank", monitor.check)
                    if timed is not None and timed.fits:
                        found.append(timed)
        for timed in sorted(found, key=lambda t: t.makespan_s):  # simulated as they are judged: the first is the best
            monitor.check()
            if monitor.offer(plan_of(model, timed.place, timed.sequences)) < math.inf:
                break

    def _offer_stages(self, problem: Problem, monitor: Monitor) -> None:
        members = Condensed(problem, ordered=True).at(problem.mini_batch, merge_trivial=False).shape.members
        devices = problem.cluster.accelerators
        caps = pass_model(problem).arrays.memory_bytes
        for count in micro_batch_choices(problem):
            monitor.check()
            model = pass_model(replace(problem, mini_batch=problem.mini_batch // count, micro_batches=1))
            flights = [_in_flight(problem, count, len(devices) - stage) for stage in range(len(devices))]
            for transfers in (False, True):
                for share in memory_shares(problem):
                    monitor.check()
                    place = layer_split(model, members, caps * share, devices, transfers=transfers, flights=flights)
                    if place is None or self._offer(problem, monitor, members, place.tolist(), count) < math.inf:
                        break

    @staticmethod
    def _offer(
        problem: Problem, monitor: Monitor, members: Sequence[Sequence[int]], place: Sequence[int], count: int
    ) -> float:
        placement: list[Place] = [()] * len(problem.graph)
        for operators, device in zip(members, place, strict=True):
            for operator in operators:
                placement[operator] = (device,)
        try:
            return monitor.offer(assemble(problem, placement, count))
        except InvalidPlan:  # pinned or set apart, some layers make tensors flow round the devices
            return math.inf


def _fastest(seconds: NDArray[np.float64], devices: Sequence[int], count: int) -> list[int]:
    """The ``count`` devices that take the least time for all operators, in their order."""
    total = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=0)
    return sorted(sorted(devices, key=lambda d: (total[d], d))[:count])


def _in_flight(problem: Problem, count: int, following: int) -> int:
    """Micro-batches that a stage with so many from it to the end holds at once."""
    if problem.objective is Objective.MAKESPAN or not problem.has_backward():
        return 1
    return count if problem.pipeline is Pipeline.GPIPE else min(count, following)
