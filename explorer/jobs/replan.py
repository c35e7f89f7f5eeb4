"""The same question again, with costs that were measured; and as a job, measured where the plan ran."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace

from explorer.costs.measured import compute_table, kind_of, label, links_between
from explorer.costs.profile import Profile
from explorer.jobs.held_plans import packed_text, unpacked_text
from explorer.jobs.requests import Emit, ReplanRequest
from explorer.jobs.run_kinds import Teller, cleaner
from explorer.question.planner_choice import options_of
from explorer.runner.bundles.bundle import new_folder
from explorer.runner.measuring.calibration import MODULE, calibrate_on
from explorer.runner.targets.registry import Targets, load_targets
from explorer.runner.targets.target import RunProgress
from explorer.view import events, run_events
from explorer.view.graph.skeleton import skeleton
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError, RunError
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import PlanFile, read_plan, write_plan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.regions import without_regions
from solvers.plan.result import Progress, Result
from solvers.planners.carry import carried_over
from solvers.planners.solve import solve
from solvers.problem.gradient_room import states_on_hosts
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem
from solvers.problem.regions import recomputing
from solvers.problem.tied import copying
from solvers.search.monitor import never
from solvers.search.planner import Planner

SEARCH_S = 20.0
"""Seconds of a new search, unless the first one took longer."""
MOST_SEARCH_S = 300.0


def check_replanned(graph: OpGraph) -> None:
    """Raises InvalidProblem for a graph that is not planned again with measured costs."""
    if graph.tensor_parallel > 1:
        raise InvalidProblem(
            "a plan whose tensors are divided is not planned again by itself: measure the model with `calibrate"
            " --tensor-parallel N` and plan with --profile"
        )


def replanned(problem: Problem, profile: Profile) -> Problem:
    """``problem`` with the profile's compute times and links; objective, batches, caps, pins and all else
    stay. Rank i of the profile is device i, further devices are like them.

    Raises InvalidProblem if the profile is of another graph, or the problem has CPUs beside its
    accelerators, which were not measured.
    """
    check_replanned(problem.graph)
    problem = without_regions(problem)
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
        host_links=problem.links_on(problem.host_links, devices),
        state_links={},
        costs_from=label(profile),
        plain=None,
        engine=None if profile.engine is None else profile.engine.costs,
    )
    if problem.state_links:
        anew = states_on_hosts(anew, problem.links_on(problem.state_links, devices))
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
    before = file.result
    if time_limit_s is None:
        time_limit_s = min(MOST_SEARCH_S, max(SEARCH_S, 0.0 if before is None else before.runtime_s))
    problem = replanned(file.problem, profile)
    return solve(
        problem,
        planner or planner_of(file),
        start=file.plan,
        time_limit_s=time_limit_s,
        seed=0 if before is None else before.seed,
        should_stop=should_stop,
        on_progress=on_progress,
    )


def planner_of(file: PlanFile) -> Planner | str:
    """The planner that made a plan, with its options; "auto" where that is not stated, or none did."""
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


def replan_job(
    request: ReplanRequest, emit: Emit, should_stop: Callable[[], bool], targets: Targets | None = None
) -> None:
    """Calibrate on the target, solve again, and tell both plans under the measured costs."""
    targets = targets or load_targets()
    clean = cleaner(targets.setup(request.target).place, request.target)
    teller = Teller(emit, clean)
    file = read_plan(unpacked_text(request.text))
    measured = _measured(request, file, targets, teller, should_stop)
    before = carried_over(measured, file.plan)
    before_s = evaluate(measured, before).objective_s(measured.objective)

    best = ""

    def report(step: Progress, _: Plan | None) -> None:
        nonlocal best
        now = f"best so far: {text.seconds(step.objective_s)}" if math.isfinite(step.objective_s) else ""
        teller(RunProgress("planning with measured costs", line=now if now != best else ""))
        best = now

    outcome = solve(
        measured,
        request.planner,
        start=before,
        time_limit_s=request.time_limit_s,
        seed=request.seed,
        effort=request.effort,
        should_stop=should_stop,
        on_progress=report,
    )
    if outcome.plan is None:
        raise RunError("with measured costs no plan was found; the one that ran stays")
    held = f"replan-{request.held}"
    workload = Workload(
        measured.graph, file.reference, training=measured.training, costs_from=measured.costs_from
    )  # fmt: skip
    view = events.held_view(outcome, held)
    assert view is not None
    estimated = file.result
    emit(
        run_events.replanned(
            {
                "held": held,
                "target": request.target,
                "before": {
                    "planner": estimated.planner if estimated is not None else "",
                    "estimated_s": evaluate(file.problem, file.plan).objective_s(file.problem.objective),
                    "measured_s": before_s,
                },
                "after": {"planner": outcome.planner, "measured_s": outcome.objective_s},
                "objective": measured.objective.value,
                "costs_from": clean(measured.costs_from),
                "text": packed_text(write_plan(measured, outcome.plan, outcome, file.reference)),
                "plan": events.packed(view),
                "skeleton": skeleton(workload),
                "words": "planned with measured costs",
            }
        )
    )


def _measured(
    request: ReplanRequest, file: PlanFile, targets: Targets, teller: Teller, should_stop: Callable[[], bool]
) -> Problem:
    """The plan's problem with costs measured on as many ranks as it ran on. The bundle stays if that failed."""
    check_replanned(file.problem.graph)
    settings = replace(targets.defaults(request.target), allow_model=request.allow_model)
    target = targets.get(request.target, MODULE)
    folder = new_folder(f"calibrate-{file.reference}")
    ranks = len(file.plan.devices_used())
    try:
        profile = calibrate_on(
            target, file.problem.as_traced.graph, file.reference, ranks, settings, folder, teller, should_stop
        )  # fmt: skip
    except PlacementError as error:
        raise RunError(teller.clean(str(error))) from None
    shutil.rmtree(folder, ignore_errors=True)
    return replanned(file.problem, profile)
