"""Least latency of one sample with one piece per accelerator, by constraint programming."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.latency.bounds import paths
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.planners.latency_common import (
    blocks_of,
    offer_places,
    on_cpus,
    places_of,
    proves_for,
    raise_path_bounds,
)
from solvers.latency.planners.latency_search import LatencySearch
from solvers.problem.graph import topological_order
from solvers.problem.problem import Problem
from solvers.programs.cp_search import CPSearch
from solvers.programs.optional import lacking
from solvers.search.monitor import Monitor

START_MOVES = 100_000
"""Moves of the search for a start, if there is none."""

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
        search = PositionSearch(problem, monitor, self.workers, self.work)
        with search:
            while not search.done and not monitor.is_proved():
                search.wait()
        return monitor.is_proved()


def cannot_order(problem: Problem) -> str | None:
    """Why the accelerators of a problem are not interchangeable, or None."""
    devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
    if len({(device.kind, device.memory_bytes) for device in devices}) > 1:
        return "accelerators must be equal; use latency-search"
    if any(not problem.cluster.devices[d].is_cpu for d in problem.pins.values()):
        return "operators pinned to an accelerator; use latency-search, or remove the pins"
    return None


class PositionSearch(CPSearch):
    """CP-SAT at work on the problem, and what its messages mean."""

    def __init__(self, problem: Problem, monitor: Monitor, workers: int, work: float | None) -> None:
        self.model, self.monitor = LatencyModel.of(problem), monitor
        self.claims = problem.subgraphs_per_device == 1 and proves_for(problem)
        self.unit_of = blocks_of(problem)
        self.most_s = monitor.objective_s if monitor.best is not None else _one_by_one_s(self.model)
        least_s = monitor.bound_s if self.claims else 0.0
        seed = monitor.rng.randrange(2**31)
        payload = payload_of(
            problem, most_s=self.most_s, least_s=least_s, start=self._start(), workers=workers, seed=seed, work=work
        )
        super().__init__("latency-positions", payload, monitor)

    def hear(self, message: dict[str, Any]) -> None:
        if "position" in message:
            offer_places(self.model, self.monitor, self._places(message["position"]))
        elif "bound" in message and self.claims:
            self.monitor.raise_bound(min(message["bound"], self.most_s))
        elif message.get("status") == "infeasible" and self.claims:
            self.monitor.raise_bound(self.most_s)

    def _places(self, position: list[int]) -> Ints:
        place = on_cpus(self.model)
        for operator, unit in enumerate(self.unit_of.tolist()):
            if position[unit] % 2:
                place[operator] = position[unit] // 2
        return place

    def _start(self) -> list[int] | None:
        """The position of every unit in the best plan known; None if it is not of this form."""
        if self.monitor.best is None:
            return None
        place = places_of(self.model, self.monitor.best)
        unit_of, none = self.unit_of.tolist(), self.model.accelerators
        units = max(unit_of) + 1
        where = [none] * units
        for operator, unit in enumerate(unit_of):
            where[unit] = int(place[operator])
        if any(where[unit] != place[operator] for operator, unit in enumerate(unit_of)):
            return None
        node = [where[u] if where[u] < none else none + u for u in range(units)]
        after: list[set[int]] = [set() for _ in range(none + units)]
        for v, sources in enumerate(self.model.problem.graph.predecessors):
            for u in sources:
                if node[unit_of[u]] != node[unit_of[v]]:
                    after[node[unit_of[u]]].add(node[unit_of[v]])
        order = topological_order([sorted(targets) for targets in after])
        if len(order) < len(after):
            return None
        position, taken = [0] * len(after), 0
        used = set(node)
        for n in order:
            if n < none and n in used:
                position[n] = 2 * taken + 1
                taken += 1
            else:
                position[n] = 2 * taken
        return [position[node[u]] for u in range(units)]


def payload_of(
    problem: Problem,
    *,
    most_s: float,
    least_s: float,
    start: list[int] | None,
    workers: int,
    seed: int,
    work: float | None,
) -> dict[str, Any]:
    """What `solvers.latency.positions.run` takes; times are those of any accelerator."""
    model, unit_of = LatencyModel.of(problem), blocks_of(problem)
    graph, calls = problem.graph, model.calls
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
        "edges": [(u, v) for v in range(len(graph)) for u in graph.predecessors[v]],
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
        "workers": workers,
        "work": work,
        "seed": seed,
    }


def _one_by_one_s(model: LatencyModel) -> float:
    """Seconds that no best plan exceeds: every operator where it is slowest, every message out and in."""
    copies = np.diff(model.calls.reader_start) + 1
    return float(model.calls.seconds.max(axis=0).sum() + (model.calls.message_s * copies).sum())
