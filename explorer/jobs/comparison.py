"""A family of planners on one problem: each in turn, under the same time limit, judged alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from explorer.costs.interval import distinguishable, interval
from explorer.library.question_key import Terms
from explorer.question.planner_choice import choose_planner
from explorer.view.comparison import FAILED, UNSUPPORTED, Row, result_row
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Problem
from solvers.search.monitor import ignore, never
from solvers.search.planner import Planner

TIME_LIMIT_S = 10.0
"""Default, for each planner."""
ONLY_WHERE_THEY_CAN = ("brute-force", "expert")
"""Not listed as unsupported unless asked for: that an enumeration is for tiny graphs, and that nobody
gave a placement, is no news."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One run to be made. planner: as asked, options included."""

    planner: str
    solver: Planner
    problem: Problem

    @property
    def unsupported(self) -> str | None:
        return self.solver.unsupported(self.problem)


@dataclass(frozen=True, eq=False)
class Compared:
    """A finished run; result is None where the planner could not be asked, or broke."""

    entry: Entry
    row: Row
    result: Result | None = None


def split_planners(text: str) -> tuple[str, ...]:
    """ "a,b:x=1,y=2,c" -> ("a", "b:x=1,y=2", "c"): a part with "=" is an option of the planner before it.

    Raises InvalidProblem for a name that is empty or given twice.
    """
    planners: list[str] = []
    for part in text.split(","):
        option = re.match(r"[^:]*=", part) is not None
        if option and planners and ":" in planners[-1]:
            planners[-1] += f",{part}"
        else:
            planners.append(part.strip())
    for name in planners:
        if not name:
            raise InvalidProblem(f"expected planners as NAME,NAME:OPTION=VALUE, found {text!r}")
        if planners.count(name) > 1:
            raise InvalidProblem(f"planner {name} is given twice; keep one")
    return tuple(planners)


def entries(
    problem: Problem,
    planners: Sequence[str] = (),
    contiguities: Sequence[Contiguity] = (),
    given: Mapping[str, Planner] | None = None,
) -> tuple[Entry, ...]:
    """The runs of a comparison, those that cannot be made first: they take no time.

    planners: as `choose_planner` reads them; none means every planner that makes sense for the
    problem. contiguities: none means the problem's own, as it is for latency plans, which know no
    contiguity of devices. given: planners that are more than a name and
    options (an expert with a placement); they come along, whether named or not. Raises
    InvalidProblem for an unknown planner or option.
    """
    chosen = {text: choose_planner(text) for text in planners or PLANNERS} | dict(given or {})
    runs = []
    wanted = () if problem.is_latency else contiguities
    for contiguity in wanted or (problem.contiguity,):
        question = replace(problem, contiguity=contiguity)
        for text, solver in chosen.items():
            entry = Entry(text, solver, question)
            if not planners and text in ONLY_WHERE_THEY_CAN and entry.unsupported:
                continue
            runs.append(entry)
    return tuple(sorted(runs, key=lambda entry: not entry.unsupported))


def compare(
    family: Sequence[Entry],
    *,
    should_stop: Callable[[], bool] = never,
    on_begin: Callable[[int, Entry], None] = lambda _, __: None,
    on_progress: Callable[[Progress, Plan | None], None] = ignore,
    solver: Callable[..., Result] = solve,
    **terms: Unpack[Terms],
) -> Iterator[Compared]:
    """Run one after the other; gives each as it ends.

    When ``should_stop`` turns true the run at hand still gives its best plan, and no other begins.
    on_begin gets the position of the run that begins, on_progress its steps. solver: what solves a problem. terms: of
    each search, by default of TIME_LIMIT_S at most.
    """
    searched: Terms = {"time_limit_s": TIME_LIMIT_S, **terms}
    done: list[Compared] = []
    for position, entry in enumerate(family):
        if should_stop():
            return
        on_begin(position, entry)
        compared = _run(entry, partial(solver, should_stop=should_stop, on_progress=on_progress, **searched))
        done.append(replace(compared, row=replace(compared.row, alike=_alike(compared, done))))
        yield done[-1]


def _alike(compared: Compared, done: Sequence[Compared]) -> tuple[str, ...] | None:
    """`Row.alike` of a run beside those before."""
    result, names = compared.result, []
    if result is None or result.plan is None or interval(result.problem, result.plan, result.objective_s) is None:
        return None
    for one in done:
        other = one.result
        if other is not None and other.plan is not None and one.row.contiguity == compared.row.contiguity:
            seconds = result.objective_s, other.objective_s
            if distinguishable(result.problem, result.plan, other.plan, *seconds) is False:
                names.append(one.row.planner)
    return tuple(names)


def _run(entry: Entry, solver: Callable[[Problem, Planner], Result]) -> Compared:
    """One run. A planner that breaks costs its own row only."""
    reason = entry.unsupported
    if reason:
        return Compared(entry, _without(entry, UNSUPPORTED, reason))
    try:
        result = solver(entry.problem, entry.solver)
        metrics = None if result.plan is None else evaluate(entry.problem, result.plan)
    except Exception as error:  # whatever it is, the other planners' answers stand
        return Compared(entry, _without(entry, FAILED, f"internal error ({type(error).__name__}: {error})"))
    planner = entry.solver
    return Compared(entry, result_row(entry.planner, planner.guarantee, planner.source, result, metrics), result)


def _without(entry: Entry, status: str, reason: str) -> Row:
    solver, contiguity = entry.solver, entry.problem.contiguity.value
    return Row(entry.planner, contiguity, solver.guarantee, solver.source, status, reason=reason)
