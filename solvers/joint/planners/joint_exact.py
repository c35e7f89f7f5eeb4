"""Least time of one pass by constraint programming: device, order and transfers of every operator at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from solvers.joint.exact.cluster_schedule import simulated, timed
from solvers.joint.exact.cp_grid import in_units, payload_of
from solvers.joint.exact.schedule_coarsening import coarsened
from solvers.joint.passes.clusters import Clusters, uncoarsened
from solvers.joint.passes.model import pass_model
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.pass_common import Offers, no_pass, one_by_one_s, proves_for
from solvers.problem.problem import Problem
from solvers.programs.cp_search import cp_search
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
        infeasible = self._search(clusters, Offers(model, monitor))
        if not infeasible and not monitor.is_proved():
            Joint(evaluations=END_EVALUATIONS)(problem, monitor)
        return infeasible or monitor.is_proved()

    def _search(self, clusters: Clusters, offers: Offers) -> bool:
        """Offer what the program finds; whether it proves that there is no plan."""
        monitor, model, claims = offers.monitor, clusters.model, proves_for(clusters)
        longest_s = one_by_one_s(model)
        most_s = monitor.objective_s if monitor.best is not None else longest_s
        payload = payload_of(clusters, least_s=monitor.bound_s if claims else 0.0, most_s=most_s or 1.0)
        unit_s = payload["unit_s"]
        payload["start"] = start = _start(clusters, offers, payload)
        if not clusters.is_fine:  # the best plan known may last longer, or shorter, in clusters
            payload["most"] = start["makespan"] if start else math.ceil(longest_s / unit_s)
        payload |= {"workers": self.workers, "work": self.work, "seed": monitor.rng.randrange(2**31)}

        def offer(found: dict[str, Any]) -> None:
            start_s = [units * unit_s for units in found["start"]]
            sent = ((number, src, dst, at * unit_s) for number, src, dst, at in found["sent"])
            offers.clusters(clusters, found["place"], start_s, sent)

        status = cp_search("joint-pass", payload, monitor, offer, most_s=most_s, unit_s=unit_s, claims=claims)
        return status == "infeasible" and claims and monitor.best is None


def _start(clusters: Clusters, offers: Offers, payload: dict[str, Any]) -> dict[str, Any] | None:
    """The best plan known as a solution of the program; None if it is not of this form."""
    groups = offers.best_place()
    place = None if groups is None else clusters.place_of_units(groups)
    if place is None:
        return None
    if clusters.is_fine:
        return in_units(clusters, payload, simulated(clusters, offers.simulator, place))
    return in_units(clusters, payload, timed(clusters, place, range(len(clusters))))
