"""Least time of one pass by constraint programming: device, order and transfers of every operator at once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.background import Background
from solvers.errors import InvalidPlan
from solvers.joint.clusters import Clusters, uncoarsened
from solvers.joint.cp_grid import payload_of
from solvers.joint.cp_start import in_turn, simulated
from solvers.joint.model import PassModel, pass_model
from solvers.joint.plans import plan_of, taken_apart
from solvers.joint.schedule_coarsening import coarsened
from solvers.joint.simulator import Simulator
from solvers.monitor import Monitor
from solvers.optional import lacking
from solvers.planners.joint import Joint
from solvers.problem import Contiguity, Execution, Objective, Problem

Ints = NDArray[np.int64]

START_EVALUATIONS = 20_000
"""Placements that the local search for a start tries, if there is none."""

END_EVALUATIONS = 100_000
"""Those that the local search tries from the best answer of the program, where that keeps a gap."""

LOOK_EVERY_S = 0.03
"""How often the solver's messages are looked at."""


@dataclass(frozen=True)
class JointCP:
    """CP-SAT on single operators, from the best plan known or a short local search.

    operators: the most that are taken one by one; more are joined to ``clusters``, every answer is judged by
    its operators, and nothing is claimed. A gap that remains when the program is solved is where links serve
    in another order than it wants, or memory varies with the schedule. workers: threads of the solver; with
    one, and without a time limit, the plan hangs on the seed alone. work: most of the solver's deterministic
    time, about seconds.
    """

    name: ClassVar[str] = "joint-cp"
    source: ClassVar[str] = "Hafeez et al., Middleware 2021 (Pesto), section 3, as a constraint program"
    guarantee: ClassVar[str] = "exact"

    operators: int = 120
    clusters: int = 60
    workers: int = 1
    work: float | None = None

    def unsupported(self, problem: Problem) -> str | None:
        return lacking("ortools") or no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if monitor.best is None:
            Joint(evaluations=START_EVALUATIONS)(problem, monitor)
        if monitor.is_proved():
            return True
        model = pass_model(problem)
        clusters = uncoarsened(model) if model.operators <= self.operators else coarsened(model, self.clusters)
        with PassSearch(clusters, Offers(model, monitor), self.workers, self.work) as search:
            while not search.done and not monitor.is_proved():
                search.wait()
        if not search.infeasible and not monitor.is_proved():
            Joint(evaluations=END_EVALUATIONS)(problem, monitor)
        return search.infeasible or monitor.is_proved()


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
        """Offer a placement list-scheduled by a rank; its seconds, inf if that is no better."""
        seconds = self.simulator.by_rank_s(place, rank, self.monitor.objective_s)
        return self._offer(place, seconds)

    def ordered(self, place: Ints, sequences: Sequence[Sequence[int]]) -> float:
        """Offer a placement with operators in these sequences; its seconds, inf if that is no better."""
        seconds = self.simulator.in_order_s(place, sequences, self.monitor.objective_s)
        return self._offer(place, seconds)

    def _offer(self, place: Ints, seconds: float) -> float:
        if seconds >= self.monitor.objective_s or not self.simulator.fits():
            return math.inf
        try:
            return self.monitor.offer(plan_of(self.model, place, self.simulator.sequences()))
        except InvalidPlan:  # mirrors of one kind that cannot run together
            return math.inf


class PassSearch:
    """CP-SAT at work in a child process; plans and bounds go to the monitor when looked for."""

    def __init__(self, clusters: Clusters, offers: Offers, workers: int, work: float | None) -> None:
        self.clusters, self.offers, self.monitor = clusters, offers, offers.monitor
        self.claims = proves_for(clusters)
        self.infeasible = False
        most_s = self.monitor.objective_s if self.monitor.best is not None else one_by_one_s(clusters.model)
        least_s = self.monitor.bound_s if self.claims else 0.0
        self.payload = payload_of(clusters, least_s=least_s, most_s=most_s or 1.0)
        self.unit_s = self.payload["unit_s"]
        self.payload["start"] = start = self._start()
        if not clusters.is_fine:  # the best plan known may last longer, or shorter, in clusters
            whole_s = one_by_one_s(clusters.model)
            self.payload["most"] = start["makespan"] if start else math.ceil(whole_s / self.unit_s)
        self.payload |= {"workers": workers, "work": work, "seed": self.monitor.rng.randrange(2**31)}
        self.child = Background("joint-pass", self.payload)

    def __enter__(self) -> PassSearch:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.error is not None:
            self.monitor.note(f"the constraint program ended early: {self.child.error}")
        self.child.close()

    @property
    def done(self) -> bool:
        """Whether the child has ended and its messages are dealt with."""
        return self.child.done

    def look(self) -> None:
        """Deal with what the child has told meanwhile; does not wait."""
        for message in self.child.poll():
            if "place" in message:
                self._offer(message)
            elif "bound" in message and self.claims:
                self.monitor.raise_bound(message["bound"] * self.unit_s)
            elif message.get("status") == "infeasible" and self.claims and self.monitor.best is None:
                self.infeasible = True

    def wait(self) -> None:
        """Wait a moment, and look; raises Stop as ``monitor.check`` does."""
        self.monitor.check()
        time.sleep(LOOK_EVERY_S)
        self.look()

    def _offer(self, found: dict[str, Any]) -> None:
        place = self.clusters.place_of_groups(found["place"])
        start = found["start"]
        by_start = sorted(range(len(start)), key=lambda t: (start[t], t))
        sequences: list[list[int]] = [[] for _ in range(self.clusters.devices)]
        for t in by_start:
            sequences[found["place"][self.clusters.unit_of[t]]].extend(self.clusters.members[t])
        self.offers.ordered(place, sequences)
        self.offers.ranked(place, np.array(start, float)[self.clusters.cluster_of])
        self.offers.ranked(place, self.offers.simulator.placed_rank(place))

    def _start(self) -> dict[str, Any] | None:
        """The best plan known as a solution of the program; None if it is not of this form."""
        clusters, simulator = self.clusters, self.offers.simulator
        apart = None if self.monitor.best is None else taken_apart(clusters.model, self.monitor.best)
        if apart is None or math.isinf(simulator.in_order_s(*apart)):
            return None
        place = clusters.place_of_units(apart[0])
        if place is None:
            return None
        if clusters.is_fine:
            return simulated(clusters, self.payload, simulator, place)
        return in_turn(clusters, self.payload, place, range(len(clusters)))


def proves_for(clusters: Clusters) -> bool:
    """Whether every plan of the problem is one of the program: no clusters, and no operator on two devices."""
    problem = clusters.model.problem
    copies = problem.max_replicas > 1 or any(o.replicable for o in problem.graph.operators)
    return clusters.is_fine and (not copies or len(problem.cluster) == 1)


def one_by_one_s(model: PassModel) -> float:
    """Seconds that no plan exceeds: every operator where it is slowest, every message from and to everywhere."""
    seconds = np.where(np.isfinite(model.seconds), model.seconds, 0.0).max(axis=1).sum()
    pairs = [(a, b) for a in range(model.devices) for b in range(model.devices) if a != b]
    for number in range(len(model.messages)):
        times = [model.transfer_s(number, a, b) for a, b in pairs]
        seconds += 2 * sum(t for t in times if math.isfinite(t))
    return float(seconds)
