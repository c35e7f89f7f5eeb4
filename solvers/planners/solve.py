"""Run a planner on a problem and say honestly what came out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypedDict, Unpack

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.errors import InvalidPlan, UnsupportedProblem
from solvers.kernels.compiling import TOOK, Compiling
from solvers.kernels.lazy import load
from solvers.plan.plan import Plan
from solvers.plan.result import Alternative, Progress, Result, Status, StopReason
from solvers.planners import portfolio  # noqa: F401  (what `Auto` imports is not to count as search time)
from solvers.planners.auto import Auto
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.planners.carry import carried
from solvers.planners.check import check
from solvers.planners.offloading import search_with_host
from solvers.planners.refitting import offer_fitted, search_without
from solvers.planners.registry import named
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.ordering.own_order import own_orders
from solvers.search.effort import Effort
from solvers.search.finalists import Finalists
from solvers.search.monitor import PROVED, Monitor, Stop, ignore
from solvers.search.planner import Planner, planner_options

load()  # nor is importing numba

REORDERED = 4
"""How many of the last incumbents are tried in other orders: the best one in 1F1B need not be the best."""
REFITTED = 3
"""How many of the last incumbents run again the least that they must, stage by stage, where plans say what does."""
LATE_ACTIONS = 1000
"""Actions of a plan whose orders are judged in a moment: about 20 microseconds each and order."""

GRACE_S = 1.0
"""Search time, beyond the limit, for a plain split where there is no plan."""
TIME_LIMIT_S = 60.0
"""Unless another is given."""
WORTH_SAYING_S = 1.0
"""Compiling that took less is not reported."""


class Terms(TypedDict, total=False):
    """How a search is limited."""

    time_limit_s: float
    """s, 60 if it is not given: a safety limit, more than anyone waits for"""
    gap: float
    """stop when (objective - bound) / objective is at most this: 0"""
    seed: int
    """of what is random: 0"""
    effort: Effort
    """how much work is done, counted and not timed, so that the same question gives the same plan on every machine"""
    should_stop: Callable[[], bool]
    """called often"""
    clock: Callable[[], float]
    """returns seconds"""


def solve(
    problem: Problem,
    planner: str | Planner = "auto",
    *,
    start: Plan | None = None,
    on_progress: Callable[[Progress, Plan | None], None] = ignore,
    second: Callable[[Problem, Plan], float | None] | None = None,
    **terms: Unpack[Terms],
) -> Result:
    """The best plan ``planner`` finds, with a status that is derived.

    start: a plan to improve on, of this or another question about the same graph (`carried`).
    on_progress: called with every improvement and the best plan so far.
    second: the seconds that a run of a plan takes, None where it cannot tell. Where it is given, plans of several forms
    that were found, up to twice as slow as the best, are timed by it too, and the answer is the one for which it is
    least.
    terms: see `Terms`.

    With the pipeline left to the planner, other orders are tried for the best plans of an ITERATION.
    Kernels that are compiled (once per installation) or loaded on the way do not count: neither against the time limit
    nor into runtime_s; a note says how long they took.
    OPTIMAL means: with the problem's pipeline order (in an ITERATION that leaves the order of messages to the
    rule of links), for its contiguity, costs and transfer model, among plans in which a stage has one device or,
    if ``max_replicas`` allows, several accelerators of one kind that no other set of operators uses; or a bound
    proves it among all plans.
    Raises InvalidProblem (unknown planner, a start of another graph), UnsupportedProblem, and InvalidPlan if a
    planner's plan fails verification.
    """
    chosen = named(planner) if isinstance(planner, str) else planner
    reason = chosen.unsupported(problem)
    if reason:
        raise UnsupportedProblem(f"planner {chosen.name}: {reason}")
    incumbents: list[Plan] = []

    def improved(step: Progress, best: Plan | None) -> None:
        if best is not None and (not incumbents or best is not incumbents[-1]):
            incumbents.append(best)
        on_progress(step, best)

    terms = {"time_limit_s": TIME_LIMIT_S, "clock": time.perf_counter, **terms}
    with Compiling(terms["clock"]) as compiling:
        monitor = Monitor(
            problem,
            on_progress=improved,
            uncounted_s=lambda: compiling.seconds,
            **terms,
        )
        if second is not None:
            monitor.finalists = Finalists()
        covered, stop_reason = _searched(problem, monitor, chosen, start)
        if monitor.infeasible is None:
            if monitor.best is None and stop_reason is StopReason.TIME_LIMIT:
                _plain(problem, monitor, chosen)
            stop_reason = _go_on(problem, monitor, incumbents, stop_reason)
        if compiling.kernels and compiling.seconds >= WORTH_SAYING_S:
            monitor.notes.append(f"{TOOK} {compiling.seconds:.0f} s, one time only")
        answer = None if second is None else _judged_again(problem, monitor, second)
        return _result(chosen, monitor, stop_reason, covered, answer)


def _searched(problem: Problem, monitor: Monitor, chosen: Planner, start: Plan | None) -> tuple[bool, StopReason]:
    """Whether the planner covered the whole search space, and why the search ended."""
    try:
        return _search(problem, monitor, chosen, start), StopReason.FINISHED
    except Stop as stop:
        return False, stop.reason
    except KeyboardInterrupt:  # where nobody asks whether to stop
        if not monitor.should_stop():
            raise
        return False, StopReason.CANCELLED


def _search(problem: Problem, monitor: Monitor, chosen: Planner, start: Plan | None) -> bool:
    """Begin, bound and search; whether the planner covered the whole search space. Raises Stop."""
    if problem.host_links:
        search_with_host(problem, monitor, lambda question, inner: _search(question, inner, chosen, start))
        return False
    if isinstance(chosen, Auto) and start is None:
        with suppress(Stop):  # the search raises it again
            chosen.begin(problem, monitor)  # people wait for a first plan, not for a first bound
    if monitor.best is None and (impossible := proved_infeasible(problem)):
        monitor.prove_infeasible(impossible)
        return False
    for candidate in () if start is None else carried(problem, start):
        if monitor.begin_with(candidate):
            break
    if isinstance(chosen, Auto) and start is not None:
        with suppress(Stop):
            chosen.begin(problem, monitor)
    monitor.raise_bound(lower_bound_s(problem))
    if not problem.recompute_operators:
        return chosen(problem, monitor)
    search_without(problem, monitor, chosen)
    chosen(problem, monitor)
    return False  # whatever else a planner covers, it does not cover what may run again


def _plain(problem: Problem, monitor: Monitor, planner: Planner) -> None:
    """Offer what a person would write down, where a planner had no time for a first plan."""
    monitor.time_limit_s = monitor.elapsed_s + GRACE_S
    for plain in (EqualSplit(), SingleDevice()):
        if plain.unsupported(problem) is None:
            with suppress(Stop):
                plain(problem, monitor)
        if math.isfinite(monitor.objective_s):
            if plain.name != planner.name:
                monitor.notes.append(f"{planner.name} found nothing in this time; the plan is that of {plain.name}")
            return


def _go_on(problem: Problem, monitor: Monitor, plans: Sequence[Plan], stop_reason: StopReason) -> StopReason:
    """Offer the last of the best plans in other orders, and fitted to each device, where that is asked for.

    Returns why the search ended.
    """
    orders = problem.pipeline is Pipeline.PLANNER and problem.objective is Objective.ITERATION
    if orders and stop_reason is not StopReason.CANCELLED:
        stop_reason = _reorder(problem, monitor, plans[: -REORDERED - 1 : -1], stop_reason)
    if (problem.recompute_operators or problem.host_links) and stop_reason is not StopReason.CANCELLED:
        stop_reason = offer_fitted(monitor, plans[: -REFITTED - 1 : -1], stop_reason)
    return stop_reason


def _reorder(problem: Problem, monitor: Monitor, plans: Sequence[Plan], stop_reason: StopReason) -> StopReason:
    """Offer other orders for the stages of plans, and return why the search ended.

    After the time limit only plans with few actions are tried.
    """
    late = stop_reason is StopReason.TIME_LIMIT
    try:
        for plan in plans:
            if late and sum(map(len, plan.order)) > LATE_ACTIONS:
                break
            for other in own_orders(problem, plan):
                if not late:
                    monitor.check()
                monitor.offer(other)
            if late:
                break
    except Stop as stop:
        return stop.reason
    return stop_reason


def _judged_again(
    problem: Problem, monitor: Monitor, second: Callable[[Problem, Plan], float | None]
) -> Alternative | None:
    """The plan for which a second objective is least; None without a plan.

    Where the second objective ties or is unknown, the best by the first.
    """
    if monitor.best is None or monitor.judged is None or monitor.finalists is None:
        return None
    best = answer = Alternative(monitor.best, monitor.objective_s, monitor.judged.peak_bytes)
    first_s = least_s = second(problem, best.plan)
    if first_s is None or least_s is None:
        return best
    count = 1
    for one in monitor.finalists.plans():
        if monitor.should_stop():
            break
        if one.plan is best.plan:
            continue
        seconds = second(problem, one.plan)
        count += seconds is not None
        if seconds is not None and seconds < least_s * (1 - PROVED):
            answer, least_s = one, seconds
    if answer is not best:
        monitor.notes.append(
            f"of {count} plans found this one takes least in a run, {least_s:.4g} s with what the engine takes; the one"
            f" of the least objective, {best.objective_s:.4g} s, takes {first_s:.4g} s"
        )
    return answer


def _result(
    planner: Planner, monitor: Monitor, stop_reason: StopReason, covered: bool, answer: Alternative | None
) -> Result:
    """answer: the plan that a second judgement chose, in place of the best."""
    problem, plan, objective_s = monitor.problem, monitor.best, monitor.objective_s
    bound = monitor.bound_s
    front: tuple[Alternative, ...] = ()
    if plan is None or monitor.judged is None:
        proved = monitor.infeasible is not None or (covered and stop_reason is StopReason.FINISHED)
        status = Status.INFEASIBLE if proved else Status.NO_PLAN
        if monitor.infeasible:
            monitor.notes.append(monitor.infeasible)
    else:
        peak_bytes = monitor.judged.peak_bytes
        if answer is not None:
            plan, objective_s, peak_bytes = answer.plan, answer.objective_s, answer.peak_bytes
        front = monitor.front.beside(objective_s, peak_bytes)
        for given in (plan, *(one.plan for one in front)):
            violations = check(problem, given)
            if violations:
                raise InvalidPlan(f"planner {planner.name} gave a plan that breaks a rule: {violations[0]}")
        if covered:
            bound = monitor.least_s
        proved = (covered or bound >= monitor.least_s * (1 - PROVED)) and objective_s <= monitor.objective_s
        status = Status.OPTIMAL if proved else Status.FEASIBLE
    return Result(
        problem=problem,
        plan=plan,
        status=status,
        stop_reason=stop_reason,
        objective_s=objective_s,
        bound_s=min(bound, monitor.objective_s),
        runtime_s=monitor.elapsed_s,
        planner=planner.name,
        planner_options=planner_options(planner),
        seed=monitor.seed,
        trace=tuple(monitor.trace),
        notes=tuple(monitor.notes),
        front=front,
    )
