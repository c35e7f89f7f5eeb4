"""Measure a plan's model where it ran, then plan again with what was measured."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace

from explorer.jobs.held_plans import packed_text, unpacked_text
from explorer.jobs.replan import replanned
from explorer.jobs.requests import Emit, ReplanRequest
from explorer.jobs.run_kinds import Teller, cleaner
from explorer.runner.bundles.bundle import new_folder
from explorer.runner.measuring.calibration import MODULE, calibrate_on
from explorer.runner.targets.registry import Targets, load_targets
from explorer.runner.targets.target import RunProgress
from explorer.view import events, run_events
from explorer.view.graph.skeleton import skeleton
from explorer.words import text
from solvers.errors import PlacementError, RunError
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import PlanFile, read_plan, write_plan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress
from solvers.planners.carry import carried_over
from solvers.planners.solve import solve
from solvers.problem.problem import Problem


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

    def tell(step: Progress, _: Plan | None) -> None:
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
        on_progress=tell,
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
    asked = replace(targets.defaults(request.target), allow_model=request.allow_model)
    target = targets.get(request.target, MODULE)
    folder = new_folder(f"calibrate-{file.reference}")
    ranks = len(file.plan.devices_used())
    try:
        profile = calibrate_on(
            target, file.problem.as_traced.graph, file.reference, ranks, asked, folder, teller, should_stop
        )  # fmt: skip
    except PlacementError as error:
        raise RunError(teller.clean(str(error))) from None
    shutil.rmtree(folder, ignore_errors=True)
    return replanned(file.problem, profile)
