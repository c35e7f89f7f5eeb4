"""What is compared of a plan, whoever compares: the page's cards, a pair, plans that are kept, planners, two files."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from explorer.costs.interval import Interval
from explorer.view.graph.skeleton import structure_hash
from explorer.view.plan_types import PlanView
from solvers.evaluation.evaluate import Metrics
from solvers.formats.json_text import dump_json, finite_or_none
from solvers.formats.problem_json import problem_json
from solvers.problem.problem import Objective, Problem

NUMBERS = (
    "max_load_s", "makespan_s", "iteration_s", "throughput_per_s", "bubble", "cut_bytes", "between_nodes_bytes",
    "peak_memory_bytes", "load_s",
)  # fmt: skip
"""Of `Metrics`, what is written as JSON."""
_questions: WeakKeyDictionary[Problem, str] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A plan in numbers, None for one that is infinite or not known.

    question: see `question_hash`. graph: see `structure_hash`. objective: the one asked for. objective_s: of it, in
    seconds; low_s and high_s: between which it may lie where it is estimated (`costs.interval`). bound_s: what was
    proved that no answer to the question beats, 0 at worst. mini_batch: samples. per_s: samples a second where
    iterations, or passes if those are asked for, follow one another. idle: share of the time of the devices in use, in
    a pipeline its bubble. peak_bytes: of the accelerator that holds most. cut_bytes and between_nodes_bytes: as in
    `Metrics`.
    """

    question: str
    graph: str
    objective: str
    mini_batch: int
    objective_s: float | None
    low_s: float | None = None
    high_s: float | None = None
    bound_s: float = 0.0
    max_load_s: float | None = None
    makespan_s: float | None = None
    iteration_s: float | None = None
    per_s: float | None = None
    idle: float | None = None
    peak_bytes: float | None = None
    cut_bytes: float | None = None
    between_nodes_bytes: float | None = None

    @property
    def within(self) -> str:
        """ "2.5 to 3.3 s"; "" where nothing is known of that."""
        if self.low_s is None or self.high_s is None:
            return ""
        return Interval(self.low_s, self.high_s).words()

    @property
    def sample_s(self) -> float | None:
        """The objective for one sample; a max-load is that already."""
        if self.objective_s is None or self.objective == Objective.MAX_LOAD:
            return self.objective_s
        return self.objective_s / self.mini_batch


NO_FIGURES = Figures(question="", graph="", objective="", mini_batch=1, objective_s=None)
"""Of no plan."""


def figures_of(
    problem: Problem,
    metrics: Metrics,
    bound_s: float = 0.0,
    objective_s: float | None = None,
    idle: float | None = None,
    within: Interval | None = None,
) -> Figures:
    """objective_s: if not the plan's own, what a search says of it. idle: if not the bubble of an iteration. within:
    between which times the objective may lie."""
    single = problem.objective is Objective.MAKESPAN
    span_s = metrics.makespan_s if single else metrics.iteration_s
    peaks = metrics.peak_memory_bytes
    peak = max((peaks[device] for device in problem.cluster.accelerators or range(len(peaks))), default=math.nan)
    seconds = metrics.objective_s(problem.objective) if objective_s is None else objective_s
    return Figures(
        question=question_hash(problem),
        graph=structure_hash(problem.graph),
        objective=problem.objective.value,
        mini_batch=problem.mini_batch,
        objective_s=finite_or_none(seconds),
        low_s=None if within is None else within.low_s,
        high_s=None if within is None else within.high_s,
        bound_s=finite_or_none(bound_s) or 0.0,
        max_load_s=finite_or_none(metrics.max_load_s),
        makespan_s=finite_or_none(metrics.makespan_s),
        iteration_s=finite_or_none(metrics.iteration_s),
        per_s=finite_or_none(problem.mini_batch / span_s) if span_s > 0 else None,
        idle=finite_or_none(metrics.bubble) if idle is None else idle,
        peak_bytes=finite_or_none(peak),
        cut_bytes=finite_or_none(metrics.cut_bytes),
        between_nodes_bytes=finite_or_none(metrics.between_nodes_bytes),
    )


def gap(objective_s: float | None, bound_s: float) -> float | None:
    """(objective - bound) / objective, 0 at least; None without a plan."""
    if objective_s is None:
        return None
    return max(0.0, 1 - bound_s / objective_s) if objective_s > 0 else 0.0


def metrics_object(metrics: Metrics) -> dict[str, float | list[float | None] | None]:
    """As JSON: numbers in seconds and bytes, null for one that is infinite."""
    values = {name: getattr(metrics, name) for name in NUMBERS}
    return {
        name: [finite_or_none(each) for each in value] if isinstance(value, tuple) else finite_or_none(value)
        for name, value in values.items()
    }


def figures(plan: PlanView) -> Figures:
    """Of a plan's view, under the bound that is known by now."""
    return replace(Figures(**plan["figures"]), bound_s=plan["bound_s"])


def question_hash(problem: Problem) -> str:
    """Equal for all that is asked alike, whoever answers it: of one model, on one cluster, with the same costs and
    settings. That operators wait for one another in a line is a way to answer, not another question."""
    if problem not in _questions:
        question = dump_json({"graph": structure_hash(problem.graph), "problem": problem_json(problem)})
        _questions[problem] = hashlib.sha256(question.encode()).hexdigest()[:16]
    return _questions[problem]
