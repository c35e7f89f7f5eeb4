"""Least time of one pass: by the integer program of Pesto, place and start of every cluster of operators, and by
constraint programming, device, order and transfers of every operator at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from solvers.joint.exact.cluster_schedule import Timed, simulated, timed
from solvers.joint.exact.cp_grid import in_units, payload_of
from solvers.joint.exact.program import PassProgram, renamed
from solvers.joint.exact.schedule_coarsening import coarsened
from solvers.joint.lists.seeds import seeds
from solvers.joint.passes.clusters import Clusters, longest_before, uncoarsened
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import in_turn
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.pass_common import Offers, no_pass, one_by_one_s, proves_for
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.problem import Problem, Transfers
from solvers.programs.cp_search import cp_search
from solvers.programs.mip_search import Solver, no_solver, solve_model
from solvers.programs.optional import lacking
from solvers.programs.scaled_model import TOLERANCE
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class PestoProgram:
    """Pesto's integer program on clusters of operators, by ``solver``, from the best of quick list schedules.

    operators: the most that are taken one by one, and then bounds are proved; more are joined to about
    ``clusters``, every answer is taken apart and judged by its operators, and nothing is claimed. "Optimal" is up to
    1e-6, what a solver's tolerances leave. Memory is known to the program as what is held throughout, and
    of clusters also as what is saved for the backward pass.
    """

    name: ClassVar[str] = "pesto"
    source: ClassVar[str] = "Hafeez et al., Middleware 2021 (Pesto), section 3"
    guarantee: ClassVar[str] = "exact"

    operators: int = 16
    clusters: int = 40
    solver: Solver = "highs"

    def unsupported(self, problem: Problem) -> str | None:
        if missing := no_solver(self.solver):
            return missing
        if problem.transfers is not Transfers.LINKS:
            return f"its transfers occupy links, and the transfer model is {problem.transfers}; use joint-cp"
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        model = pass_model(problem)
        offers = Offers(model, monitor)
        known = []
        for name, seed in seeds(model, monitor.check):
            monitor.begin(f"list schedules: {name}")
            offers.ranked(seed.place, seed.rank)
            known.append((seed.place, seed.rank))
        if model.operators <= self.operators:
            fine = uncoarsened(model)
            done = self._search(fine, fine.static_bytes, offers, known, claim=proves_for(fine))
            if done or monitor.best is not None:
                return done
            # Nothing fits that the program takes to fit: what is saved for the backward pass is held, too.
            self._search(fine, fine.held_bytes, offers, known, claim=False)
            return False
        joined = coarsened(model, self.clusters, monitor.check)
        for nbytes in (joined.held_bytes, joined.static_bytes):
            self._search(joined, nbytes, offers, known, claim=False)
            if monitor.best is not None:
                break
        return False

    def _search(
        self, clusters: Clusters, nbytes: Floats, offers: Offers, known: Sequence[tuple[Ints, Floats]], *, claim: bool
    ) -> bool:
        """Solve the program with so many bytes in every unit, [units]; whether all plans are covered.

        claim: every plan is a solution. Then a bound of the program is a bound of the problem: in a simulated
        plan every operator starts after what it reads has been made and moved, a message leaves a device once
        for every other one that reads it, once all that make it there are done, and devices that run
        one operator at a time and links never do two things at once. So the simulated times satisfy all
        rows, whichever order links serve; static bytes never exceed a cap if the peak does not; and no better
        plan is cut off by ``most_s``, the length of a known plan (or of doing one thing after the other), nor
        by naming interchangeable devices. A solver's bound is lowered by TOLERANCE, and its tolerances
        on rows and integers relax the program, so they only lower it.
        """
        monitor = offers.monitor
        monitor.check()
        if monitor.is_proved():
            return False
        start = self._start(clusters, nbytes, offers, known)
        most_s = one_by_one_s(clusters.model) if start is None else start.makespan_s
        if most_s == 0.0:
            return claim and monitor.best is not None
        monitor.begin(f"integer program of {len(clusters)} clusters")
        program = PassProgram(clusters, nbytes, most_s * (1 + TOLERANCE), monitor.check)
        if start is not None:
            program.start_from(start)
        if claim:
            program.at_least(monitor.bound_s * (1 - TOLERANCE))

        def on_incumbent(values: Sequence[float]) -> None:
            offers.clusters(clusters, *program.answer(values), program.sent(values))

        def on_bound(bound: float) -> None:
            if claim:
                monitor.raise_bound(bound * program.unit_s)

        outcome = solve_model(program.model, monitor, on_incumbent, on_bound, solver=self.solver)
        if not claim:
            return False
        if outcome.infeasible:
            return monitor.best is None
        return monitor.objective_s <= outcome.bound * program.unit_s * (1 + 3 * TOLERANCE)

    def _start(
        self, clusters: Clusters, nbytes: Floats, offers: Offers, known: Sequence[tuple[Ints, Floats]]
    ) -> Timed | None:
        """The shortest schedule of clusters that follows one of the placements known and fits; None if none does."""
        cap = clusters.model.memory_bytes * (1 + TOLERANCE)
        best: Timed | None = None
        for place, priority in _followed(clusters, offers, known):
            offers.monitor.check()
            held = np.bincount(place, nbytes, clusters.devices)
            if (held > cap).any() or not clusters.allowed[np.arange(clusters.units), place].all():
                continue
            named = renamed(clusters, place.tolist())
            schedule = timed(clusters, named, in_turn(clusters.successors, priority))
            if best is None or schedule.makespan_s < best.makespan_s:
                best = schedule
        exact = self._simulated_best(clusters, offers)
        if exact is not None and (best is None or exact.makespan_s <= best.makespan_s):
            return exact
        return best if best is not None and math.isfinite(best.makespan_s) else None

    def _simulated_best(self, clusters: Clusters, offers: Offers) -> Timed | None:
        """The best plan known as it is simulated; None if operators are joined or a stage has replicas."""
        place = _best_known(clusters, offers) if clusters.is_fine else None
        if place is None:
            return None
        named = renamed(clusters, place.tolist())
        new_of = dict(zip(place.tolist(), named, strict=True))
        best = simulated(clusters, offers.simulator, named)
        sent = {(number, new_of[s], new_of[d]): start for (number, s, d), start in best.sent_s.items()}
        return replace(best, sent_s=sent)


def _best_known(clusters: Clusters, offers: Offers) -> Ints | None:
    """The device of every unit in the best plan known, which is simulated; None if it is not of this form."""
    groups = offers.best_place()
    return None if groups is None else clusters.place_of_units(groups)


def _followed(
    clusters: Clusters, offers: Offers, known: Sequence[tuple[Ints, Floats]]
) -> Iterator[tuple[Ints, Floats]]:
    """(device of every unit, priority of every cluster, the lowest first) as in placements known, and the best plan:
    by when operators start in a simulation, and by the longest path to the end."""
    model, simulator = clusters.model, offers.simulator
    size = np.bincount(clusters.cluster_of)
    mean_s = np.array([model.mean_s[list(operators)].sum() for operators in clusters.members])
    tail_s = mean_s + longest_before(clusters.successors, mean_s.tolist(), back=True)

    def both(place: Ints) -> Iterator[tuple[Ints, Floats]]:
        began = np.bincount(clusters.cluster_of, simulator.state.start_s[: model.operators]) / size
        units = model.gathered(clusters.unit_of_group, place)
        yield units, began
        yield units, -tail_s

    for place, rank in known:
        if math.isfinite(simulator.by_rank_s(place, rank)):
            yield from both(place)
    best = offers.best_place()
    if best is not None:
        yield from both(best)


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

        def offer(solution: dict[str, Any]) -> None:
            start_s = [units * unit_s for units in solution["start"]]
            sent = ((number, src, dst, at * unit_s) for number, src, dst, at in solution["sent"])
            offers.clusters(clusters, solution["place"], start_s, sent)

        status = cp_search("joint-pass", payload, monitor, offer, most_s=most_s, unit_s=unit_s, claims=claims)
        return status == "infeasible" and claims and monitor.best is None


def _start(clusters: Clusters, offers: Offers, payload: dict[str, Any]) -> dict[str, Any] | None:
    """The best plan known as a solution of the program; None if it is not of this form."""
    place = _best_known(clusters, offers)
    if place is None:
        return None
    if clusters.is_fine:
        return in_units(clusters, payload, simulated(clusters, offers.simulator, place))
    return in_units(clusters, payload, timed(clusters, place, range(len(clusters))))
