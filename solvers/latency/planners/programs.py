"""Least latency of one sample: by the published integer program, q subgraphs per accelerator, and with one piece per
accelerator by constraint programming.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.latency.bounds import paths
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.planners.latency_common import blocks_of, offer_places, on_cpus, places_of, raise_path_bounds
from solvers.latency.planners.latency_search import LatencySearch
from solvers.latency.plans import plan_of_calls
from solvers.latency.program import LatencyProgram
from solvers.plan.plan import Plan
from solvers.problem.graph import edges_of, labels_after, topological_order
from solvers.problem.problem import Problem
from solvers.programs.cp_search import cp_search
from solvers.programs.mip_search import Solver, no_solver, solve_model
from solvers.programs.optional import lacking
from solvers.programs.scaled_model import TOLERANCE
from solvers.search.monitor import Monitor

START_MOVES = 100_000
"""Moves of the search for a start: about half a second on graphs of hundreds of operators."""


@dataclass(frozen=True)
class LatencyIP:
    """Least latency of one sample, and a proved bound: branch and bound by ``solver``.

    At most ``subgraphs_per_device`` pieces per accelerator; where the problem leaves that open, one
    and then two are tried and nothing is claimed. Starts from the best plan known, or else from
    short searches by `LatencySearch`. "Optimal" is up to 1e-6, what a solver's tolerances leave. Memory
    that is counted from the schedule is known to the program as static bytes only.
    """

    name: ClassVar[str] = "latency-ip"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "exact"

    solver: Solver = "highs"
    start: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        return no_solver(self.solver) or unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if self.start and monitor.best is None:
            _offer_starts(problem, monitor)
        subgraphs = problem.subgraphs_per_device
        if subgraphs is None:
            for pieces in (1, 2):
                self._search(problem, monitor, pieces, claim=False)
            return False
        pieces = min(subgraphs, len(problem.graph))
        return self._search(problem, monitor, pieces, claim=problem.max_replicas == 1)

    def _search(self, problem: Problem, monitor: Monitor, pieces: int, *, claim: bool) -> bool:
        """Search plans of at most so many pieces; whether the best plan is proved best. claim: bounds are
        for the problem asked."""
        monitor.check()
        if monitor.is_proved():
            return False
        latency = LatencyModel.of(problem)
        call = None if monitor.best is None else calls_of_plan(latency, monitor.best, pieces)
        most_s = monitor.objective_s if monitor.best is not None else latency.serial_s
        program = LatencyProgram(latency, pieces, most_s * (1 + TOLERANCE), monitor.check)
        times = None if call is None else program.times_of(program.renamed(call))
        if times is not None:
            program.start_from(times)
        program.at_least(monitor.bound_s * (1 - TOLERANCE))

        def on_incumbent(values: Sequence[float]) -> None:
            calls = program.calls_of(values)
            times = program.times_of(calls)
            turns = None if times is None else np.array(times.turn, np.int64)
            with suppress(InvalidPlan):  # calls without any duration may wait for each other
                monitor.offer(plan_of_calls(latency, calls, pieces, turns))

        def on_bound(bound: float) -> None:
            if claim:
                monitor.raise_bound(bound * program.unit_s)

        outcome = solve_model(program.model, monitor, on_incumbent, on_bound, solver=self.solver)
        bound_s = most_s if outcome.infeasible else outcome.bound * program.unit_s
        if claim and outcome.infeasible and monitor.best is not None:
            monitor.raise_bound(bound_s)
        return claim and (monitor.objective_s <= bound_s * (1 + 3 * TOLERANCE) or outcome.infeasible)


def _offer_starts(problem: Problem, monitor: Monitor) -> None:
    """Short searches, first with one piece per accelerator, which is soon found and hard to beat."""
    search = LatencySearch(moves=START_MOVES)
    if problem.subgraphs_per_device != 1:
        single = replace(problem, subgraphs_per_device=1)
        search(single, monitor.for_question(single, lambda plan: plan))
    search(problem, monitor)


def calls_of_plan(latency: LatencyModel, plan: Plan, pieces: int) -> Ints | None:
    """The calls of a plan, its accelerators' stages in the plan's order; None if there are too many."""
    call = np.full(len(latency.group_of), -1, np.int64)
    for place, device in enumerate(latency.problem.cluster.accelerators):
        stages = list(dict.fromkeys(action.stage for action in plan.order[device]))
        if len(stages) > pieces:
            return None
        for piece, stage in enumerate(stages):
            call[list(plan.stages[stage].operators)] = place * pieces + piece
    return call


PATHS = 3
"""Paths for redundant constraints."""


@dataclass(frozen=True)
class LatencyCP:
    """CP-SAT on the model over positions (see `solvers.latency.positions`), from the best plan known.

    Where a problem allows more than one piece per accelerator nothing is claimed. work: most of the solver's
    deterministic time (about seconds); with it, one worker and no time limit the plan hangs on the seed alone.
    """

    name: ClassVar[str] = "latency-cp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6 (latency), as a constraint program"
    guarantee: ClassVar[str] = "exact"

    workers: int = 2
    work: float | None = None

    def unsupported(self, problem: Problem) -> str | None:
        return lacking("ortools") or cannot_order(problem) or unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if monitor.best is None:
            LatencySearch(moves=START_MOVES)(problem, monitor)
        raise_path_bounds(problem, monitor)
        if monitor.is_proved():
            return True
        model, unit_of = LatencyModel.of(problem), blocks_of(problem)
        claims = problem.subgraphs_per_device == 1 and problem.max_replicas == 1
        most_s = monitor.objective_s if monitor.best is not None else model.serial_s

        def offer(message: dict[str, Any]) -> None:
            offer_places(model, monitor, _places(model, unit_of, message["position"]))

        payload = payload_of(
            model,
            unit_of,
            most_s=most_s,
            least_s=monitor.bound_s if claims else 0.0,
            start=None if monitor.best is None else _positions(model, unit_of, monitor.best),
        ) | {"workers": self.workers, "seed": monitor.rng.randrange(2**31), "work": self.work}
        status = cp_search("latency-positions", payload, monitor, offer, most_s=most_s, claims=claims)
        if status == "infeasible" and claims:  # below the best plan known
            monitor.raise_bound(most_s)
        return monitor.is_proved()


def cannot_order(problem: Problem) -> str | None:
    """Why the accelerators of a problem are not interchangeable, or None."""
    devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
    if len({(device.kind, device.memory_bytes) for device in devices}) > 1:
        return "accelerators must be equal; use latency-search"
    if any(not problem.cluster.devices[d].is_cpu for d in problem.pins.values()):
        return "operators pinned to an accelerator; use latency-search, or remove the pins"
    return None


def _places(model: LatencyModel, unit_of: Ints, position: Sequence[int]) -> Ints:
    """The place of every operator, from the position of every unit: the odd ones are accelerators."""
    of_operator = np.asarray(position)[unit_of]
    return np.where(of_operator % 2, of_operator // 2, on_cpus(model))


def _positions(model: LatencyModel, unit_of: Ints, plan: Plan) -> list[int] | None:
    """The position of every unit in a plan; None if it is not of this form."""
    place, none = places_of(model, plan), model.accelerators
    units = int(unit_of.max()) + 1
    where = np.full(units, none)
    where[unit_of] = place
    if (where[unit_of] != place).any():
        return None
    node = [w if w < none else none + u for u, w in enumerate(where.tolist())]  # accelerators, then units on CPUs
    node_of = [node[unit] for unit in unit_of.tolist()]
    after = labels_after(edges_of(model.problem.graph.successors), node_of, none + units)
    order = topological_order(after)
    if len(order) < len(after):
        return None
    position, taken = [0] * len(after), 0
    used = set(node)
    for n in order:
        is_call = n < none and n in used
        position[n] = 2 * taken + is_call
        taken += is_call
    return [position[n] for n in node]


def payload_of(
    model: LatencyModel, unit_of: Ints, *, most_s: float, least_s: float, start: list[int] | None
) -> dict[str, Any]:
    """What `solvers.latency.positions.run` takes, but for how to search; times are those of any accelerator."""
    graph, calls = model.problem.graph, model.calls
    units = int(unit_of.max()) + 1
    unit_of_group = np.zeros(model.groups, np.int64)
    unit_of_group[model.group_of] = unit_of
    can_run = np.ones(units, bool)
    np.logical_and.at(can_run, unit_of_group, model.allowed[:, :-1].any(axis=1))
    cpu_s = np.where(model.allowed[model.group_of, -1], model.cpu_s, np.inf)
    cap = float(model.caps[:-1].max(initial=0.0))
    return {
        "slots": model.accelerators,
        "unit_of": unit_of.tolist(),
        "edges": list(edges_of(graph.successors)),
        "messages": [
            (graph.tensors[m[0]].producer, graph.tensors[m[0]].consumers, float(calls.message_s[number]))
            for number, m in enumerate(graph.messages)
        ],
        "acc_s": calls.seconds[0].tolist(),
        "cpu_s": [s if math.isfinite(s) else None for s in cpu_s.tolist()],
        "can_run": can_run.tolist(),
        "nbytes": np.bincount(unit_of_group, model.group_bytes, units).tolist(),
        "acc_bytes": cap if math.isfinite(cap) and cap > 0 else None,
        "least_s": least_s,
        "most_s": most_s,
        "start": start,
        "paths": [path.tolist() for path in islice(paths(model), PATHS)],
    }
