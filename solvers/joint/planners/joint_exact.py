"""Least time of one pass by constraint programming: device, order and transfers of every operator at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from solvers.joint.exact.clusters import Clusters, uncoarsened
from solvers.joint.exact.cp_grid import payload_of
from solvers.joint.exact.cp_start import in_turn, simulated
from solvers.joint.exact.schedule_coarsening import coarsened
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import taken_apart
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.pass_common import Offers, no_pass, one_by_one_s, proves_for
from solvers.problem.problem import Problem
from solvers.programs.cp_search import CPSearch
from solvers.programs.optional import lacking
from solvers.search.monitor import Monitor

START_EVALUATIONS = 20_000
"""Placements that the local search for a start tries, if there is none."""

END_EVALUATIONS = 100_000
"""Those that the local search tries from the best answer of the program, where that keeps a gap."""


@dataclass(frozen=True)
class JointCP:
    """CP-SAT on single operators, from the best plan known or a short local search.

    operators: the most that are taken one by one; more are joined to ``clusters``, every answer is judged by
    its operators, and nothing is claimed. Its plans state in which order links serve messages. A gap that remains
    when the program is solved is where memory varies with the schedule. workers: threads of the solver; with
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


class PassSearch(CPSearch):
    """CP-SAT at work on the problem, and what its messages mean."""

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
        super().__init__("joint-pass", self.payload, self.monitor)

    def hear(self, message: dict[str, Any]) -> None:
        if "place" in message:
            self._offer(message)
        elif "bound" in message and self.claims:
            self.monitor.raise_bound(message["bound"] * self.unit_s)
        elif message.get("status") == "infeasible" and self.claims and self.monitor.best is None:
            self.infeasible = True

    def _offer(self, found: dict[str, Any]) -> None:
        place = self.clusters.place_of_groups(found["place"])
        start, device = found["start"], [found["place"][unit] for unit in self.clusters.unit_of.tolist()]
        lasts = [self.payload["seconds"][t][d] for t, d in enumerate(device)]
        by_start = sorted(range(len(start)), key=lambda t: (start[t], lasts[t], t))
        sequences: list[list[int]] = [[] for _ in range(self.clusters.devices)]
        for t in by_start:
            sequences[device[t]].extend(self.clusters.members[t])
        starts = np.array(start, float)[self.clusters.cluster_of]
        sent = ((number, src, dst, at * self.unit_s) for number, src, dst, at in found["sent"])
        self.offers.timed(place, sequences, (starts * self.unit_s).tolist(), self.clusters.sent_s(sent))
        self.offers.ordered(place, sequences)
        self.offers.ranked(place, starts)
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
