"""A question as the library knows it: one hash of everything that the answer depends on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

from explorer.library.made_by import versions
from solvers.formats.json_text import dump_json
from solvers.formats.op_graph_json import graph_json
from solvers.formats.plan_json import plan_part
from solvers.formats.problem_json import problem_json
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.registry import PLANNERS
from solvers.problem.cluster import ONCE
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from solvers.search.planner import Planner, planner_options

PLAIN = (str, int, float, bool, type(None))


class Terms(TypedDict, total=False):
    """How long and how hard a search goes on, and what it begins with, by the names of
    `solvers.planners.solve.solve`."""

    start: Plan | None
    effort: Effort
    time_limit_s: float
    gap: float
    seed: int
    second: Callable[[Problem, Plan], float | None] | None


@dataclass(frozen=True, eq=False)
class SearchQuestion:
    """What `solve` is asked, but for how it is watched. second: as there; what it says can be known where it has a
    ``name``, a text that changes with whatever it depends on beside problem and plan."""

    problem: Problem
    planner: Planner
    start: Plan | None = None
    effort: Effort = Effort.NORMAL
    time_limit_s: float = 60.0
    gap: float = 0.0
    seed: int = 0
    second: Callable[[Problem, Plan], float | None] | None = None

    @property
    def nameable(self) -> bool:
        """Whether the hash covers all of it: the planner is one of the project's own, whose code the versions cover,
        with options that have a text, and so is the runtime estimator. What is not is neither looked up nor cached."""
        options = planner_options(self.planner).values()
        own = type(self.planner) is PLANNERS.get(self.planner.name) and all(map(_is_plain, options))
        whole = self.problem.repeats == ONCE
        return own and whole and (self.second is None or isinstance(self._teller, str))

    @property
    def _teller(self) -> object:
        return getattr(self.second, "name", None)

    @property
    def terms(self) -> Terms:
        """What `solve` takes by name."""
        return Terms(
            start=self.start, effort=self.effort, time_limit_s=self.time_limit_s, gap=self.gap, seed=self.seed,
            second=self.second,
        )  # fmt: skip

    def takes_s(self, result: Result) -> float:
        """The seconds by which two answers are compared: those of a run, where a runtime estimator chooses."""
        runs_s = None if self.second is None or result.plan is None else self.second(self.problem, result.plan)
        return result.objective_s if runs_s is None else runs_s

    @cached_property
    def question(self) -> str:
        """sha256, in hex: of graph, costs, cluster and settings, planner and its options, starting plan, effort, limits
        and seed, and the runtime estimator."""
        return hashlib.sha256(dump_json(self._content()).encode()).hexdigest()

    @cached_property
    def hash(self) -> str:
        """The same, and of the versions of what searches."""
        return hashlib.sha256(dump_json(self._content() | {"versions": dict(versions())}).encode()).hexdigest()

    def _content(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "graph": graph_sha256(self.problem.as_traced.graph),
            "problem": hashlib.sha256(dump_json(problem_json(self.problem)).encode()).hexdigest(),
            "planner": [self.planner.name, _options(planner_options(self.planner))],
            "start": None if self.start is None else plan_part(self.start),
            "effort": self.effort.value,
            "time_limit_s": repr(float(self.time_limit_s)),
            "gap": repr(float(self.gap)),
            "seed": self.seed,
        }
        if self.second is not None:
            fields["second"] = self._teller
        return fields


def graph_text(graph: OpGraph) -> str:
    return dump_json(graph_json(graph))


@per_graph
def graph_sha256(graph: OpGraph) -> str:
    """Of the whole graph: unlike `graph_hash`, which names the model that plans and profiles are of."""
    return hashlib.sha256(graph_text(graph).encode()).hexdigest()


def _is_plain(option: object) -> bool:
    if isinstance(option, list | tuple):
        return all(map(_is_plain, option))
    return isinstance(option, PLAIN)


def _options(options: Mapping[str, object]) -> dict[str, object]:
    return {name: _written(option) for name, option in sorted(options.items())}


def _written(option: object) -> object:
    """As JSON, in which all that differs differs: an infinite number is not the absence of one."""
    if isinstance(option, list | tuple):
        return [_written(one) for one in option]
    if isinstance(option, float) and not math.isfinite(option):
        return {"number": repr(option)}
    return str(option) if isinstance(option, str) else option
