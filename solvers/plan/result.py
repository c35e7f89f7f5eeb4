"""What a solve gives back. Outcome, reason, bound and effort are fields of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from solvers.errors import InvalidPlan
from solvers.plan.degrees import DegreePlan
from solvers.plan.plan import Plan
from solvers.plan.regions import with_regions
from solvers.problem.displayed import Displayed, displayed
from solvers.problem.problem import Problem


class Status(StrEnum):
    """OPTIMAL is proved; INFEASIBLE is proved; NO_PLAN means none was found."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    NO_PLAN = "NO_PLAN"


class StopReason(StrEnum):
    """Why the search ended."""

    FINISHED = "FINISHED"
    TIME_LIMIT = "TIME_LIMIT"
    CANCELLED = "CANCELLED"
    STATE_LIMIT = "STATE_LIMIT"


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of the search: best objective and proved lower bound after ``elapsed_s`` seconds.

    member: the planner at work, where one runs others in turn.
    """

    elapsed_s: float
    objective_s: float
    bound_s: float
    note: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan beside the answer: its objective in seconds, and the peak of the device that holds most, in bytes."""

    plan: Plan
    objective_s: float
    peak_bytes: float


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """The answer of a search: a plan, its objective and a proved lower bound.

    objective_s: seconds; inf without a plan.
    bound_s: a proved lower bound on the objective of any plan, seconds; 0 at worst.
    front: plans that are at most 0.5 % slower than the answer and need less memory, the fastest first.
    by_degrees: the best plan for every degree of replicas, divided tensors and stages, where these were searched.

    problem: as the plan has it, where plans say which operators run again (`with_regions`).

    Raises InvalidPlan if the bound exceeds the objective: then one of them is wrong.
    """

    problem: Problem
    plan: Plan | None
    status: Status
    stop_reason: StopReason
    objective_s: float
    bound_s: float
    runtime_s: float
    planner: str
    planner_options: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0
    trace: tuple[Progress, ...] = ()
    notes: tuple[str, ...] = ()
    front: tuple[Alternative, ...] = ()
    by_degrees: tuple[DegreePlan, ...] = ()

    def __post_init__(self) -> None:
        if self.plan is not None:
            object.__setattr__(self, "problem", with_regions(self.problem, self.plan))
        if self.plan is not None and self.bound_s > self.objective_s * (1 + 1e-6) + 1e-15:
            raise InvalidPlan(f"{self.planner}: bound {self.bound_s} s exceeds the objective {self.objective_s} s")

    def __repr__(self) -> str:
        numbers = f"objective_s={self.objective_s:.4g}, bound_s={self.bound_s:.4g}, runtime_s={self.runtime_s:.3g}"
        return f"Result({self.status}, {self.stop_reason}, {numbers}, {self.planner!r},\n       {self.problem!r})"

    def figure(self) -> Any:
        """The schedule as a plotly figure. Raises ImportError without plotly, InvalidProblem without a plan."""
        return displayed("figure", self)

    def graph(self) -> Any:
        """The operators as a `networkx.DiGraph`, with their sizes, stages and devices.

        Edges have the bytes that are sent for one micro-batch.
        """
        return displayed("graph", self)

    def frame(self) -> Any:
        """A row for every operator as a `pandas.DataFrame`: sizes (bytes), times (seconds), and where it runs.

        Raises ImportError without pandas.
        """
        return displayed("frame", self)

    @property
    def metrics(self) -> Any:
        """The plan under all three objectives, its peak memory and more: `solvers.evaluation.evaluate.Metrics`.

        Raises InvalidProblem without a plan.
        """
        return displayed("metrics", self)

    @property
    def gap(self) -> float:
        """(objective - bound) / objective; 0 when proved, inf without a plan."""
        if self.plan is None or math.isinf(self.objective_s):
            return math.inf
        if self.objective_s <= 0:
            return 0.0
        return max(0.0, (self.objective_s - self.bound_s) / self.objective_s)
