"""The covering bound beside a search: a child process proves, and every check of the search takes in what it found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.noncontiguous.sets import where_of
from solvers.noncontiguous.slots import speeds
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Problem, Transfers
from solvers.programs.background import Background
from solvers.search.monitor import PROVED, Monitor, also_checking


class Covering:
    """A covering bound of a monitor's problem, for any contiguity: sets that are contiguous are sets.

    It knows links of one speed. Where those between hosts are slower all links are as fast as those inside, where no
    placement takes longer: what is proved of that holds. contracted: its super-operators, with messages at that speed.
    after_s: seconds before `update` starts the child, which many a search does not need.
    """

    def __init__(self, problem: Problem, contracted: Contracted, monitor: Monitor, after_s: float = 0.0) -> None:
        self.problem, self.contracted, self.monitor = problem, contracted, monitor
        self._from_s, self._known_s = monitor.elapsed_s + after_s, math.inf
        self._child: Background | None = None
        self._bound_s = 0.0
        self._ended = False

    def start(self) -> bool:
        """Start the child with the best plan so far; False if there is none yet."""
        plan = self.monitor.best
        if self._child is not None:
            return True
        if self._ended or plan is None or not self._covers(plan):
            return False
        from solvers.bounds.cover.bound import first_bound_s  # what it needs is not light
        from solvers.bounds.cover.model import model_of

        problem, cluster = self.problem, self.problem.cluster
        caps = [
            max((cluster.devices[d].memory_bytes for d in devices), default=0.0) * (1 + PROVED)
            if problem.stated_bytes is not None
            else math.inf
            for devices in (cluster.accelerators, cluster.cpus)
        ]
        self._known_s = self.monitor.objective_s
        lane = problem.transfers is Transfers.LANE
        model = model_of(self.contracted, len(cluster.accelerators), len(cluster.cpus), caps[0], caps[1], lane)
        self._bound_s = first_bound_s(model)
        placements = [where_of(self.contracted, plan)]
        payload = {"model": model.payload(), "upper_s": self._known_s, "placements": placements}
        self._child = Background("cover-bound", payload)
        return True

    @property
    def done(self) -> bool:
        """Whether the child has ended: the bound stays as it is."""
        return self._ended or (self._child is not None and self._child.done)

    def close(self) -> None:
        """End the child, and note what went wrong in it."""
        if self._child is not None:
            if self._child.error is not None:
                self.monitor.note(f"the search for a bound ended early: {self._child.error}")
            self._child.close()
        self._child, self._ended = None, True

    def update(self) -> None:
        """Start the child once it is time to, and take in what it found. Does not wait."""
        if self._child is None and self.monitor.elapsed_s < self._from_s:
            return
        if not self.start() or self._child is None:
            return
        monitor = self.monitor
        self._bound_s = max([self._bound_s, *(message["bound_s"] for message in self._child.poll())])
        if self._bound_s > monitor.bound_s:
            monitor.raise_bound(self._bound_s)
        if monitor.objective_s < self._known_s and monitor.best is not None and self._covers(monitor.best):
            self._known_s = monitor.objective_s
            self._child.send({"upper_s": self._known_s, "placement": where_of(self.contracted, monitor.best)})

    def _covers(self, plan: Plan) -> bool:
        """Whether the plan is one that the bound is for, by its micro-batches."""
        return plan.stages[0].micro_batch_size == self.contracted.samples


def covering(problem: Problem, condensed: Condensed, monitor: Monitor, after_s: float = 0.0) -> Covering | None:
    """The covering bound of a problem, not started, or None where it does not hold. condensed: of the problem."""
    cluster = problem.cluster
    kinds = [{cluster.devices[d].kind for d in devices} for devices in (cluster.accelerators, cluster.cpus)]
    counts, near = micro_batch_choices(problem), speeds(problem)
    if problem.objective is not Objective.MAX_LOAD or problem.transfers is Transfers.DUPLEX or problem.max_replicas > 1:
        return None
    if len(counts) > 1 or max(map(len, kinds)) > 1 or not (problem.transfers_alike or near):
        return None
    samples = problem.mini_batch // counts[0]
    contracted = condensed.at(samples, merge_trivial=False, speed=near[0] if near else None)
    return Covering(problem, contracted, monitor, after_s)


@contextmanager
def beside(monitor: Monitor, bound: Covering | None, limit_s: float = math.inf, near: float = 0.0) -> Iterator[None]:
    """While this lasts (at most ``limit_s`` seconds), every check takes in what the bound's child found. near: the
    relative gap at which it ends too."""
    ends_s = monitor.elapsed_s + limit_s

    def look() -> None:
        if bound is not None:
            bound.update()
        if monitor.elapsed_s > ends_s or (near > 0 and monitor.objective_s <= monitor.bound_s * (1 + near)):
            raise _Enough

    with suppress(_Enough), also_checking(monitor, look):
        yield


class _Enough(Exception):
    """The time set aside for a part of the search is over, or nothing is left to prove."""
