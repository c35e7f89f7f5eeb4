"""The same question again, with costs that were measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.costs.measured import compute_table, kind_of, label, links_between
from explorer.costs.profile import Profile
from explorer.question.planner_choice import options_of
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.problem.regions import recomputing
from solvers.problem.tied import copying
from solvers.search.monitor import never
from solvers.search.planner import Planner

SEARCH_S = 20.0
"""Seconds of a new search, unless the first one took longer."""
MOST_SEARCH_S = 300.0


def replanned(problem: Problem, profile: Profile) -> Problem:
    """``problem`` with the profile's compute times and links; objective, batches, caps, pins and all else
    stay. Rank i of the profile is device i, further devices are like them.

    Raises InvalidProblem if the profile is of another graph, or the problem has CPUs beside its
    accelerators, which were not measured.
    """
    if problem.cluster.cpus and problem.cluster.accelerators:
        raise InvalidProblem("a profile has no times of CPUs beside accelerators; plan without them (--cpus 0)")
    kind = kind_of(profile)
    devices = tuple(replace(device, kind=kind, concurrency=1) for device in problem.cluster.devices)
    links = links_between([device.node for device in devices], profile)
    traced = problem.as_traced.graph
    anew = replace(
        problem,
        graph=traced,
        cluster=replace(problem.cluster, devices=devices, links=links or problem.cluster.links),
        compute=compute_table(traced, profile, problem.optimizer),
        transfer_s=None if links else problem.transfer_s,
        costs_from=label(profile),
        plain=None,
        engine=None if profile.engine is None else profile.engine.costs,
    )
    if problem.copy_tied:
        return copying(anew)
    return anew if problem.plain is None else recomputing(anew)


def replan(
    file: PlanFile,
    profile: Profile,
    *,
    planner: Planner | str | None = None,
    time_limit_s: float | None = None,
    should_stop: Callable[[], bool] = never,
    on_progress: Callable[[Progress, Plan | None], None] = lambda step, plan: None,
) -> Result:
    """The best plan for the same problem at measured costs, searched from the plan of ``file`` on, so that it
    is never worse under these costs.

    planner and time_limit_s: by default those of the first search. Raises InvalidProblem or UnsupportedProblem.
    """
    found = file.result
    if time_limit_s is None:
        time_limit_s = min(MOST_SEARCH_S, max(SEARCH_S, 0.0 if found is None else found.runtime_s))
    problem = replanned(file.problem, profile)
    return solve(
        problem,
        planner or planner_of(file),
        start=file.plan,
        time_limit_s=time_limit_s,
        seed=0 if found is None else found.seed,
        should_stop=should_stop,
        on_progress=on_progress,
    )


def planner_of(file: PlanFile) -> Planner | str:
    """The planner that made a plan, with its options; "auto" where that is not told, or none did."""
    from solvers.planners.registry import PLANNERS

    result = file.result
    if result is None or result.planner not in PLANNERS:
        return "auto"
    kind = PLANNERS[result.planner]
    known = options_of(kind)
    try:
        made: Planner = kind(**{name: value for name, value in result.planner_options.items() if name in known})
    except (TypeError, ValueError):
        return result.planner
    return made
