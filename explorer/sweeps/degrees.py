"""Over how many devices tensors are divided is searched, too: every degree is a question of its own, and one answer
knows the best plan of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from explorer.library.question_key import Terms
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.question.written.kinds import MAX_DEGREE
from explorer.sweeps.part_candidates import Candidate, may_differ, part_candidates
from explorer.words import text
from solvers.bounds.combinatorial import lower_bound_s
from solvers.errors import InvalidProblem, PlacementError
from solvers.evaluation.evaluate import evaluate
from solvers.formats.workload import Workload
from solvers.plan.degrees import DegreePlan, degrees_of
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result, Status, StopReason
from solvers.planners.uniform import uniform_degrees, uniform_plan
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Objective, Problem
from solvers.search.monitor import ignore, never
from solvers.search.planner import Planner

LOOK_S = 10.0
"""A guard of one look at one pair of degrees; it takes a fraction of a second."""
PROVED = 1e-9
PART_SHARE = 0.3
"""Of the time limit, what parts of different degrees may take."""
MOST_PARTS = 4
"""Ways to divide parts that are searched."""

Traced = Callable[..., Workload]
"""A degree, and degrees of parts (`PartDegrees`), if there are any -> the model divided so. Raises PlacementError where
it cannot be."""
Solve = Callable[..., Result]
OnProgress = Callable[[Workload, Problem, Progress, Plan | None], None]


@dataclass(frozen=True, eq=False)
class DegreesResult:
    """result: the best answer of all degrees, with the table; workload: the model divided as it says."""

    result: Result
    workload: Workload


@dataclass(eq=False)
class _Question:
    """One degree; 0 where parts of the model differ in it. bound_s: what no plan of it beats. rows: by (replicas,
    stages); start: the best of their plans."""

    degree: int
    workload: Workload
    problem: Problem
    bound_s: float
    rows: dict[tuple[int, int], DegreePlan]
    start: Plan | None = None
    result: Result | None = None

    @property
    def promise_s(self) -> float:
        return min((row.objective_s for row in self.rows.values()), default=math.inf)


def degrees_to_try(cluster: Cluster) -> tuple[list[int], dict[int, str]]:
    """The powers of two that divide every node's accelerators; and those up to the number of devices that are left
    out, with the reason."""
    nodes: dict[int, int] = {}
    for device in cluster.accelerators:
        node = cluster.devices[device].node
        nodes[node] = nodes.get(node, 0) + 1
    wanted = [2**k for k in range(MAX_DEGREE.bit_length()) if 2**k <= min(MAX_DEGREE, len(cluster.accelerators))]
    sizes = text.listing([str(size) for size in sorted(set(nodes.values()))], 3)
    refused = {
        degree: f"a group of {degree} spans nodes, which have {sizes} devices"
        for degree in wanted
        if any(count % degree for count in nodes.values())
    }
    return [degree for degree in wanted if degree not in refused], refused


def search_degrees(
    traced: Traced,
    settings: Settings,
    cluster: Cluster,
    planner: Planner,
    *,
    terms: Terms,
    should_stop: Callable[[], bool] = never,
    on_progress: OnProgress | None = None,
    begin: Callable[[str], None] = lambda _: None,
    solver: Solve,
) -> DegreesResult:
    """The best plan over all degrees that divide the nodes of a cluster.

    Of every degree, plain splits first: one row of the table for each pair of replicas and stages. Then the planner
    searches, beginning with the degree whose split is fastest, and leaves out those whose bound is no better than what
    was found. Where the model has branches, or there are two kinds of devices, parts of different degrees follow
    (`part_candidates`), in what is left of the time. The answer's bound is the least of all degrees'.

    cluster: of single devices. terms: of the whole search; its time is shared by the degrees that are searched, and
    tracing and plain splits do not count. begin: called with what comes next. on_progress: called
    with the best plan of all degrees so far, the model divided as it says, and what no degree beats. Raises
    PlacementError where no degree can be asked.
    """
    tried, refused = degrees_to_try(cluster)
    search = _Search(traced, settings, cluster, planner, terms, should_stop, on_progress, begin, solver)
    for degree in tried:
        if should_stop() and search.questions:
            refused[degree] = "the search was stopped before"
            continue
        begin(f"dividing tensors over {text.plural(degree, 'device')}")
        try:
            search.questions.append(_looked_at(traced(degree), settings, degree))
        except PlacementError as error:
            refused[degree] = str(error)
    if not search.questions:
        raise InvalidProblem(next(iter(refused.values())))
    whole = next((one for one in search.questions if one.degree == 1), None)
    parted = whole is not None and may_differ(whole.workload.graph, cluster)
    search.searching = time.perf_counter()
    best = search.over_degrees(search.limit_s * (1 - PART_SHARE if parted else 1))
    parts_tried = search.over_parts(best) if parted else []
    assert search.best is not None
    took_s = time.perf_counter() - search.began
    answer = _answer(search.best, search.questions, refused, len(cluster.accelerators), took_s)
    if parts_tried:
        note = f"parts of different degrees were tried, too: {text.listing(parts_tried, MOST_PARTS)}"
        answer = replace(answer, result=replace(answer.result, notes=(*answer.result.notes, note)))
    return answer


@dataclass(eq=False)
class _Search:
    """See `search_degrees`. searching: when the planner began; best: the question with the best answer so far."""

    traced: Traced
    settings: Settings
    cluster: Cluster
    planner: Planner
    terms: Terms
    should_stop: Callable[[], bool]
    on_progress: OnProgress | None
    begin: Callable[[str], None]
    solver: Solve
    questions: list[_Question] = field(default_factory=list)
    best: _Question | None = None
    began: float = field(default_factory=time.perf_counter)
    searching: float = 0.0

    @property
    def limit_s(self) -> float:
        return self.terms.get("time_limit_s", 60.0)

    @property
    def least_s(self) -> float:
        return math.inf if self.best is None or self.best.result is None else self.best.result.objective_s

    def left_s(self, limit_s: float) -> float:
        return max(0.0, limit_s - (time.perf_counter() - self.searching))

    def over_degrees(self, limit_s: float) -> _Question:
        """The best of the degrees that are the same everywhere, the most promising first."""
        self.questions.sort(key=lambda one: (one.promise_s, one.degree))
        for position, one in enumerate(self.questions):
            if one.bound_s >= self.least_s or (self.best is not None and self.should_stop()):
                continue
            self.begin(f"planning for groups of {one.degree}")
            self._solve(one, self.left_s(limit_s) / (len(self.questions) - position))
        assert self.best is not None
        return self.best

    def over_parts(self, uniform: _Question) -> list[str]:
        """Degrees that differ by part, in the time that is left; what was tried, with what came of it."""
        tried: list[str] = []
        candidates = _parts_to_try(self.questions, self.cluster, uniform)
        for number, parts in enumerate(candidates):
            left_s = self.left_s(self.limit_s)
            if self.should_stop() or left_s < 1:
                break
            self.begin(f"planning for parts of different degrees: {parts}")
            try:
                workload = self.traced(parts.degree, str(parts))
                problem = make_problem(workload, self.settings)
            except PlacementError:
                continue
            one = _Question(0, workload, problem, lower_bound_s(problem), {})
            self.questions.append(one)
            if one.bound_s < self.least_s:
                taken_s = self._solve(one, left_s / (len(candidates) - number))
                words = text.seconds(taken_s) if taken_s < math.inf else "no plan"
                tried.append(f"{parts}, else {parts.degree} ({words})")
        return tried

    def _solve(self, one: _Question, left_s: float) -> float:
        terms: Terms = {**self.terms, "start": one.start, "time_limit_s": max(1.0, left_s)}
        on_step = ignore if self.on_progress is None else _as_one(one, self.questions, self.began, self.on_progress)
        one.result = self.solver(one.problem, self.planner, should_stop=self.should_stop, on_progress=on_step, **terms)
        _note_degrees(one)
        if self.best is None or one.result.objective_s < self.least_s:
            self.best = one
        return one.result.objective_s


def _parts_to_try(questions: list[_Question], cluster: Cluster, best: _Question) -> list[Candidate]:
    """Degrees by part, the most promising of `part_candidates`."""
    seconds: dict[int, dict[str, float]] = {}
    for one in questions:
        at = min((one.problem.compute.at(kind, one.problem.graph.samples) for kind in one.problem.compute.seconds),
                 key=lambda each: float(each.sum()))  # fmt: skip
        by_path = seconds.setdefault(one.degree, {})
        for operator, taken in zip(one.problem.graph.operators, at, strict=True):
            by_path[operator.module_path] = by_path.get(operator.module_path, 0.0) + float(taken)
    whole = next(one for one in questions if one.degree == 1)
    return part_candidates(whole.workload.graph, cluster, seconds, best.degree)[:MOST_PARTS]


def _as_one(
    one: _Question, questions: list[_Question], began: float, on_progress: OnProgress
) -> Callable[[Progress, Plan | None], None]:
    """Passes on the search of a degree as a part of that of all: a plan that is no better than those of degrees before
    is none."""
    others = [each for each in questions if each is not one]
    before_s = min((each.result.objective_s for each in others if each.result is not None), default=math.inf)
    least_s = min((_bound_s(each) for each in others), default=math.inf)

    def hear(step: Progress, plan: Plan | None) -> None:
        best_s = min(step.objective_s, before_s)
        bound_s = min(best_s, least_s, max(one.bound_s, step.bound_s))
        overall = replace(step, elapsed_s=time.perf_counter() - began, objective_s=best_s, bound_s=bound_s)
        on_progress(one.workload, one.problem, overall, plan if step.objective_s < before_s else None)

    return hear


def _looked_at(workload: Workload, settings: Settings, degree: int) -> _Question:
    """A degree with the plain splits of every pair of replicas and stages."""
    problem = make_problem(workload, settings)
    one = _Question(degree, workload, problem, lower_bound_s(problem), {})
    if problem.objective is not Objective.ITERATION or problem.pins:
        return one
    for data, pipeline in uniform_degrees(problem):
        before_s = one.promise_s
        row, plan = uniform_plan(problem, data, pipeline, LOOK_S)
        one.rows[data, pipeline] = row
        if row.objective_s < before_s:
            one.start = plan
    return one


def _note_degrees(one: _Question) -> None:
    """The plan that was searched, in the table: its own row is as good as it is."""
    result = one.result
    if result is None or result.plan is None or (degrees := degrees_of(one.problem, result.plan)) is None:
        return
    data, _, pipeline = degrees
    before = one.rows.get((data, pipeline))
    if before is None or result.objective_s < before.objective_s:
        peak = max(evaluate(one.problem, result.plan).peak_memory_bytes)
        one.rows[data, pipeline] = DegreePlan(data, one.degree, pipeline, result.objective_s, peak)


def _refused_rows(refused: Mapping[int, str], devices: int) -> Iterator[DegreePlan]:
    for degree, reason in refused.items():
        if devices % degree == 0:
            yield DegreePlan(1, degree, devices // degree, reason=reason)


def _bound_s(one: _Question) -> float:
    """What no plan of a degree beats."""
    if one.result is None:
        return one.bound_s
    return math.inf if one.result.status is Status.INFEASIBLE else max(one.bound_s, one.result.bound_s)


def _answer(
    best: _Question, questions: list[_Question], refused: Mapping[int, str], devices: int, took_s: float
) -> DegreesResult:
    """The best answer with what is known of all degrees."""
    result = best.result
    assert result is not None
    rows = [row for one in questions for row in one.rows.values()] + list(_refused_rows(refused, devices))
    rows.sort(key=lambda row: (row.tensor, row.data, row.pipeline))
    bound_s = min(result.objective_s, *(_bound_s(one) for one in questions))
    if result.plan is None:
        alike = all(one.result is not None and one.result.status is Status.INFEASIBLE for one in questions)
        status = Status.INFEASIBLE if alike else Status.NO_PLAN
    else:
        proved = bound_s >= result.objective_s * (1 - PROVED)
        status = Status.OPTIMAL if proved else Status.FEASIBLE
    stopped = [one.result.stop_reason for one in questions if one.result is not None]
    reason = next((why for why in stopped if why is not StopReason.FINISHED), StopReason.FINISHED)
    left_out = [one.degree for one in questions if one.result is None and one.degree]
    uniform = sorted(one.degree for one in questions if one.degree)
    words = text.listing([str(degree) for degree in uniform], 8)
    note = f"groups of {words} were tried, each divided in the way of its own trace; the bound holds for all of them"
    if left_out and reason is not StopReason.CANCELLED:
        note += f"; groups of {text.listing([str(d) for d in sorted(left_out)], 8)} cannot be faster, by their bounds"
    notes = (*result.notes, note, *(f"groups of {degree}: {why}" for degree, why in sorted(refused.items())))
    answer = replace(
        result,
        bound_s=bound_s,
        status=status,
        stop_reason=reason,
        runtime_s=took_s,
        notes=notes,
        by_degrees=tuple(rows),
    )
    return DegreesResult(answer, best.workload)
