"""What the planners of one pass of single operators share: what they can represent, offers, and what is proved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidPlan
from solvers.joint.passes.clusters import Clusters
from solvers.joint.passes.model import PassModel
from solvers.joint.passes.plans import Sent, in_time, in_turn, plan_of, stating, taken_apart
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Ints
from solvers.problem.problem import Contiguity, Execution, Objective, Problem
from solvers.search.monitor import Monitor


def no_pass(problem: Problem) -> str | None:
    """Why a problem is not one unsplit pass of freely placed operators, or None."""
    if problem.objective is not Objective.MAKESPAN:
        return f"it minimises the makespan, and the objective is {problem.objective}; use auto"
    if problem.execution is not Execution.OPERATOR:
        return "it times operators one by one, and calls of whole stages are asked for; use latency"
    if problem.contiguity is not Contiguity.NONE:
        return f"its placements are not contiguous, and {problem.contiguity} is asked for; use auto"
    return None


class Offers:
    """Plans of one pass on their way to the monitor: simulated first, judged only if they are better."""

    def __init__(self, model: PassModel, monitor: Monitor) -> None:
        self.model, self.monitor, self.simulator = model, monitor, Simulator(model)

    def ranked(self, place: Ints, rank: NDArray[np.float64]) -> float:
        """Offer a placement list-scheduled by a rank, then the sequences that this gives with links by their own
        rule; its seconds, inf if that is no better."""
        seconds = self._offer(place, self.simulator.by_rank_s(place, rank, self.monitor.objective_s))
        return seconds if math.isinf(seconds) else min(seconds, self.ordered(place, self.simulator.sequences()))

    def ordered(self, place: Ints, sequences: Sequence[Sequence[int]]) -> float:
        """Offer a placement with operators in these sequences; its seconds, inf if that is no better."""
        seconds = self.simulator.in_order_s(place, sequences, self.monitor.objective_s)
        return self._offer(place, seconds)

    def timed(
        self, place: Ints, sequences: Sequence[Sequence[int]], start_s: Sequence[float], sent_s: Mapping[Sent, float]
    ) -> float:
        """Offer a placement with operators in these sequences, and messages on links in the order in which they
        start, see `in_time`; its seconds, inf if it does not fit."""
        served = in_time(self.model, place, sequences, start_s, sent_s)
        try:
            return self.monitor.offer(stating(self.model, plan_of(self.model, place, sequences), served))
        except InvalidPlan:  # mirrors of one kind run together, and then this order deadlocks
            return math.inf

    def clusters(
        self,
        clusters: Clusters,
        place: Sequence[int],
        start_s: Sequence[float],
        sent: Iterable[tuple[int, int, int, float]] = (),
    ) -> None:
        """Offer what a program found with operators in the order of its clusters, with messages in the order of
        ``sent`` and without, list-scheduled in that order, and list-scheduled by the longest path to the end.

        place: the device of every unit. start_s: of every cluster. sent: (transfer, source, destination, s).
        """
        device = np.asarray(place)[clusters.unit_of]
        takes_s = clusters.seconds[np.arange(len(clusters)), device].tolist()
        order = in_turn(clusters.successors, list(zip(start_s, takes_s, strict=True)))
        groups, in_order = clusters.place_of_groups(place), clusters.sequences(place, order)
        self.monitor.check()
        of = clusters.cluster_of
        self.timed(groups, in_order, np.asarray(start_s)[of].tolist(), clusters.sent_s(sent))
        self.monitor.check()
        self.ordered(groups, in_order)
        self.monitor.check()
        self.ranked(groups, np.argsort(order).astype(np.float64)[of])
        self.monitor.check()
        self.ranked(groups, self.simulator.placed_rank(groups))

    def best_place(self) -> Ints | None:
        """The device of every group in the best plan, which is simulated; None if there is none, or not one of a
        device an operator."""
        best = self.monitor.best
        parts = None if best is None else taken_apart(self.model, best)
        if parts is None or math.isinf(self.simulator.in_order_s(*parts)):
            return None
        return parts[0]

    def _offer(self, place: Ints, seconds: float) -> float:
        if seconds >= self.monitor.objective_s or not self.simulator.fits():
            return math.inf
        try:
            return self.monitor.offer(self.simulator.planned(place))
        except InvalidPlan:  # mirrors of one kind that cannot run together
            return math.inf


def proves_for(clusters: Clusters) -> bool:
    """Whether every plan of the problem is one of the program: no clusters, and no operator on two devices."""
    problem = clusters.model.problem
    copies = problem.max_replicas > 1 or any(o.replicable for o in problem.graph.operators)
    return clusters.is_fine and (not copies or len(problem.cluster) == 1)


def one_by_one_s(model: PassModel) -> float:
    """Seconds that no plan exceeds: every operator where it is slowest, every message from and to everywhere."""
    seconds = np.where(np.isfinite(model.seconds), model.seconds, 0.0).max(axis=1).sum()
    for number in range(len(model.messages)):
        times = model.transfer_s(number)
        seconds += 2 * times[np.isfinite(times)].sum()
    return float(seconds)
