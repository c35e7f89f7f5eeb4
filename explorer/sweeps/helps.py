"""What would help most: the question with one thing changed, each answered by a search of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from explorer.costs.regions import Recompute
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.execution.questions import Limits
from explorer.sweeps.sweep import STARTS
from explorer.words import text
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem
from solvers.search.effort import Effort
from solvers.search.monitor import never
from solvers.search.planner import Planner

NOTE = "found as a single change of the question before, with {effort} effort: Solve searches with the page's own"
MOST_MICRO_BATCHES = 64
"""More are not offered: each is an action of every stage."""


@dataclass(frozen=True)
class Change:
    """words: "1 GPU more". settings: of the changed question. controls: what a page sets to ask it, by the names of
    `explorer.view.session.to_dict`. flags: what the command line takes for it, "" if nobody says."""

    words: str
    settings: Settings
    controls: Mapping[str, object]
    flags: str = ""


@dataclass(frozen=True)
class Helped:
    """The answer to a changed question. gain: share by which more samples a second are done than before (negative:
    fewer), None without a plan, for the ``reason``. result: whose plan that is, with a note on the search."""

    change: Change
    gain: float | None
    result: Result | None = None
    reason: str = ""


def changes(problem: Problem, settings: Settings, own_memory_bytes: float | None, most_devices: int) -> list[Change]:
    """Single changes that mean something for a question. own_memory_bytes: what one of its devices really has, None if
    that is not known; a cap is raised up to it."""
    offered = []
    devices = len(problem.cluster.accelerators)
    plain = settings.cluster is None and settings.profile is None

    def add(words: str, controls: Mapping[str, object], **changed: object) -> None:
        offered.append(Change(words, replace(settings, **changed), controls))  # type: ignore[arg-type]

    uniform = not isinstance(settings.device_kind, tuple) and not isinstance(settings.memory_bytes, tuple)
    if plain and uniform and devices < most_devices:
        add("1 GPU more", {"devices": devices + 1}, devices=devices + 1)
    cap = settings.memory_bytes
    if isinstance(cap, int | float) and own_memory_bytes is not None and cap < own_memory_bytes:
        more = min(2 * float(cap), own_memory_bytes)
        add(f"{text.nbytes(more)} instead of {text.nbytes(cap)}", {"memory": more}, memory_bytes=more)
    speed = max((link.bandwidth_bytes_per_s for link in problem.cluster.speeds), default=math.inf)
    if plain and math.isfinite(speed) and settings.devices_per_node is None:
        add("links twice as fast", {"bandwidth": 2 * speed}, bandwidth_bytes_per_s=2 * speed)
    if problem.objective is not Objective.MAKESPAN:
        micro = problem.micro_batches
        if micro is not None and 2 * micro <= MOST_MICRO_BATCHES and problem.mini_batch % (2 * micro) == 0:
            add(f"{2 * micro} micro-batches", {"micro_batches": 2 * micro}, micro_batches=2 * micro)
        if micro is not None and micro % 2 == 0:
            words = f"{micro // 2} micro-batch" + ("es" if micro > 2 else "")
            add(words, {"micro_batches": micro // 2}, micro_batches=micro // 2)
        if problem.max_replicas == 1 and devices > 1:
            add("stages replicated", {"max_replicas": "all"}, max_replicas=0)
        if problem.training and not problem.recompute:
            add("activations recomputed", {"recompute": "stage"}, recompute=Recompute.STAGE)
    return offered


LIMITS = Limits(Effort.QUICK, 15.0)
"""Of the answer to one change."""


def helped(
    workload: Workload,
    changes: Sequence[Change],
    planner: Planner,
    before: tuple[Problem, float],
    start: Plan | None = None,
    limits: Limits = LIMITS,
    *,
    should_stop: Callable[[], bool] = never,
    solver: Callable[..., Result] = solve,
) -> Iterator[Helped]:
    """An answer for every change, as it is found. before: the question as it was, and its objective in seconds. start:
    its plan, which a planner that improves what it is given begins with. solver: what solves a problem."""
    problem, objective_s = before
    was = problem.per_sample_s(objective_s)
    for change in changes:
        if should_stop():
            return
        try:
            changed = make_problem(workload, change.settings)
            result = solver(
                changed, planner, start=start if planner.name in STARTS else None, should_stop=should_stop,
                **asdict(limits),
            )  # fmt: skip
        except (InvalidProblem, UnsupportedProblem) as error:
            yield Helped(change, None, reason=str(error))
            continue
        if result.plan is None:
            yield Helped(change, None, reason=result.notes[0] if result.notes else "no plan was found")
            continue
        takes = changed.per_sample_s(result.objective_s)
        noted = replace(result, notes=(*result.notes, NOTE.format(effort=limits.effort.value)))
        yield Helped(change, was / takes - 1 if takes > 0 else 0.0, noted)
