"""The layer split: consecutive layers of equal work on every device, as an expert does it by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.combinatorial import bound_with_s
from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.chain_dp import memory_shares, micro_batch_choices
from solvers.errors import InvalidPlan
from solvers.joint.lists.layers import LayerCosts, Layers, cut_layers, layer_split, module_order, split_by_modules
from solvers.joint.lists.within_memory import Timed, within_memory
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import plan_of
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
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
    cap; where nothing fits and the problem allows it, as few stages recompute as memory asks for. A single pass of
    operators is list-scheduled by the longest path to the end; there the layers are also taken module by module,
    since those of an unrolled model run side by side; and, with ``fewer``, fewer accelerators are tried too, as an
    expert would where a pass gains nothing from all of them.
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
        passes: list[Timed] = []
        for count in range(len(devices), 0 if self.fewer else len(devices) - 1, -1):
            chosen = _fastest(model.seconds, devices, count)
            for transfers in (False, True) if count > 1 else (False,):
                in_time = partial(layer_split, model, model.groups, devices=chosen, transfers=transfers)
                by_module = partial(split_by_modules, model, order, devices=chosen, transfers=transfers)
                for split in (in_time, by_module) if count > 1 else (in_time,):
                    timed = within_memory(simulator, split, "rank", monitor.check)
                    if timed is not None and timed.fits:
                        passes.append(timed)
        for timed in sorted(passes, key=lambda t: t.makespan_s):  # simulated as they are judged: the first is the best
            monitor.check()
            if monitor.offer(plan_of(model, timed.place, timed.sequences)) < math.inf:
                break

    def _offer_stages(self, problem: Problem, monitor: Monitor) -> None:
        members = Condensed(problem, ordered=True).at(problem.mini_batch, merge_trivial=False).shape.members
        split = _Split(problem, monitor, members, Layers(problem, members))
        bounds = {count: bound_with_s(problem, count) for count in micro_batch_choices(problem)}
        spread = len(problem.cluster.accelerators) - 1
        for count in sorted(bounds, key=lambda c: bounds[c] * (c + spread) / c):  # with the time to fill and drain
            if bounds[count] < monitor.objective_s:
                split.offer(count)


@dataclass(frozen=True)
class _Split:
    """Layers cut for one number of micro-batches after another."""

    problem: Problem
    monitor: Monitor
    members: Sequence[Sequence[int]]
    layers: Layers

    def offer(self, count: int) -> None:
        """The best cuts for ``count`` micro-batches, with stages that recompute where nothing fits without."""
        problem, devices = self.problem, self.problem.cluster.accelerators
        samples = problem.mini_batch // count
        costs = self.layers.at(samples)
        flights = [_in_flight(problem, count, len(devices) - stage) for stage in range(len(devices))]
        again = problem.recompute and problem.has_backward() and max(flights) > 1
        for crossing in (None, partial(self.layers.crossing_s, samples)):
            few, enough, shares = 0, len(devices), memory_shares(problem)
            if self._fitting(costs, crossing, flights, count, few, shares) is not None or not again:
                continue
            share = self._fitting(costs, crossing, flights, count, enough, shares)
            while share is not None and enough - few > 1:
                middle = (few + enough) // 2
                if self._fitting(costs, crossing, flights, count, middle, (share,)) is not None:
                    enough = middle
                else:
                    few = middle

    def _fitting(
        self,
        costs: LayerCosts,
        crossing: Callable[[Ints], Floats] | None,
        flights: Sequence[int],
        count: int,
        first: int,
        shares: Sequence[float],
    ) -> float | None:
        """The first of ``shares`` of the memory for which a plan is made that fits, None for none. The ``first``
        devices, which hold most micro-batches, run forwards again; what a stage then keeps of each, its inputs, is
        little beside what one saves, and is counted when the plan is judged."""
        devices = self.problem.cluster.devices
        chosen = self.problem.cluster.accelerators
        work_s = costs.work_s.copy()
        work_s[:, list(chosen[:first])] += costs.forward_s[:, list(chosen[:first])]
        costs = costs._replace(work_s=work_s)
        held = [1 if stage < first else flight for stage, flight in enumerate(flights)]
        caps = np.array([device.memory_bytes for device in devices])
        for share in shares:
            self.monitor.check()
            place = cut_layers(costs, caps * share, chosen, crossing, held)
            if place is None:
                return None
            plan = self._plan(place.tolist(), count)
            if plan is not None and self.monitor.offer(_recomputing(plan, set(chosen[:first]))) < math.inf:
                return share
        return None

    def _plan(self, place: Sequence[int], count: int) -> Plan | None:
        """None where, with operators pinned or set apart, some layers make the devices form a cycle."""
        placement: list[Place] = [()] * len(self.problem.graph)
        for operators, device in zip(self.members, place, strict=True):
            for operator in operators:
                placement[operator] = (device,)
        try:
            return assemble(self.problem, placement, count)
        except InvalidPlan:
            return None


def _recomputing(plan: Plan, devices: set[int]) -> Plan:
    """The plan with the stages on ``devices`` running their forward again."""
    if not devices:
        return plan
    stages = tuple(replace(stage, recompute=not devices.isdisjoint(stage.devices)) for stage in plan.stages)
    return replace(plan, stages=stages)


def _fastest(seconds: NDArray[np.float64], devices: Sequence[int], count: int) -> list[int]:
    """The ``count`` devices that take the least time for all operators, in their order."""
    total = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=0)
    return sorted(sorted(devices, key=lambda d: (total[d], d))[:count])


def _in_flight(problem: Problem, count: int, following: int) -> int:
    """Micro-batches that a stage with so many from it to the end holds at once."""
    if problem.objective is Objective.MAKESPAN or not problem.has_backward():
        return 1
    return count if problem.pipeline is Pipeline.GPIPE else min(count, following)
