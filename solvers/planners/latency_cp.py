"""Least latency of one sample with one piece per accelerator, by constraint programming."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from solvers.background import Background
from solvers.graph import topological_order
from solvers.kernels.latency import Ints
from solvers.latency_bounds import paths
from solvers.latency_model import LatencyModel, unsupported
from solvers.monitor import Monitor
from solvers.optional import lacking
from solvers.planners.latency_common import (
    blocks_of,
    offer_places,
    on_cpus,
    places_of,
    proved,
    proves_for,
    raise_path_bounds,
)
from solvers.planners.latency_search import LatencySearch
from solvers.problem import Problem

START_MOVES = 100_000
"""Moves of the search for a start, if there is none."""

PATHS = 3
"""Paths for redundant constraints."""

LOOK_EVERY_S = 0.03
"""How often the solver's messages are looked at."""


@dataclass(frozen=True)
class LatencyCP:
    """CP-SAT on the model over positions (see `solvers.latency_positions`), from the best plan known.

    Where a problem allows more than one piece per accelerator nothing is claimed.
    """

    name: ClassVar[str] = "latency-cp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6 (latency), as a constraint program"
    guarantee: ClassVar[str] = "exact"

    workers: int = 2

    def unsupported(self, problem: Problem) -> str | None:
        return lacking("ortools") or cannot_order(problem) or unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if monitor.best is None:
            LatencySearch(moves=START_MOVES)(problem, monitor)
        raise_path_bounds(problem, monitor)
        if proved(monitor):
            return True
        search = PositionSearch(problem, monitor, self.workers)
        with search:
            while not search.done and not proved(monitor):
                search.wait()
        return proved(monitor)


def cannot_order(problem: Problem) -> str | None:
    """Why the accelerators of a problem are not interchangeable, or None."""
    devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
    if len({(device.kind, device.memory_bytes) for device in devices}) > 1:
        return "accelerators must be equal; use latency-search"
    if any(not problem.cluster.devices[d].is_cpu for d in problem.pins.values()):
        return "operators pinned to an accelerator; use latency-search, or remove the pins"
    return None


class PositionSearch:
    """CP-SAT at work in a child process; plans and bounds go to the monitor when looked for."""

    def __init__(self, problem: Problem, monitor: Monitor, workers: int) -> None:
        self.model, self.monitor = LatencyModel.of(problem), monitor
        self.claims = problem.subgraphs_per_device == 1 and proves_for(problem)
        self.unit_of = blocks_of(problem)
        self.child = Background("latency-positions", self._payload(workers))

    def __enter__(self) -> PositionSearch:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()

    @property
    def done(self) -> bool:
        """Whether the child has ended and its messages are dealt with."""
        return self.child.done

    def look(self) -> None:
        """Deal with what the child has told meanwhile; does not wait."""
        for message in self.child.poll():
            if "position" in message:
                offer_places(self.model, self.monitor, self._places(message["position"]))
            elif "bound" in message and self.claims:
                self.monitor.raise_bound(min(message["bound"], self.most_s))
            elif message.get("status") == "infeasible" and self.claims:
                self.monitor.raise_bound(self.most_s)

    def wait(self) -> None:
        """Wait a moment, and look; raises Stop as ``monitor.check`` does."""
        self.monitor.check()
        time.sleep(LOOK_EVERY_S)
        self.look()

    def _payload(self, workers: int) -> dict[str, Any]:
        model, unit_of = self.model, self.unit_of
        graph, calls = model.problem.graph, model.calls
        units = int(unit_of.max()) + 1
        unit_of_group = np.zeros(model.groups, np.int64)
        unit_of_group[model.group_of] = unit_of
        can_run = np.ones(units, bool)
        np.logical_and.at(can_run, unit_of_group, model.allowed[:, :-1].any(axis=1))
        cpu_s = np.where(model.allowed[model.group_of, -1], model.cpu_s, np.inf)
        finite = [float(calls.seconds.max(axis=0).sum()), 2 * float(calls.message_s.sum()) * model.accelerators]
        self.most_s = self.monitor.objective_s if self.monitor.best is not None else sum(finite)
        cap = float(model.caps[:-1].max(initial=0.0))
        return {
            "slots": model.accelerators,
            "unit_of": unit_of,
            "edges": [(u, v) for v in range(len(graph)) for u in graph.predecessors[v]],
            "messages": [
                (graph.tensors[m[0]].producer, graph.tensors[m[0]].consumers, float(calls.message_s[number]))
                for number, m in enumerate(graph.messages)
            ],
            "acc_s": np.where(np.isfinite(model.acc_s.min(axis=0, initial=np.inf)), calls.seconds[0], 0.0),
            "cpu_s": [s if math.isfinite(s) else None for s in cpu_s.tolist()],
            "can_run": can_run,
            "nbytes": np.bincount(unit_of_group, model.group_bytes, units),
            "acc_bytes": cap if math.isfinite(cap) else None,
            "least_s": self.monitor.bound_s if self.claims else 0.0,
            "most_s": self.most_s,
            "start": self._start(),
            "paths": [path.tolist() for path in islice(paths(model), PATHS)],
            "workers": workers,
            "seed": self.monitor.rng.randrange(2**31),
        }

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
