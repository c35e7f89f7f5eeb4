"""``run --replan``: run a plan, measure what it is made of, plan again with that, and run the new plan."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from explorer.cli.launching import ENDED, FAILED, measured, run_plan, saved
from explorer.cli.terminal.command import print_json, print_table, printable
from explorer.files import write_file
from solvers.errors import RunError

if TYPE_CHECKING:
    from explorer.costs.profile import Profile
    from explorer.runner.bundles.bundle import Bundle
    from explorer.runner.bundles.outcome import Outcome
    from explorer.runner.bundles.request import RunRequest
    from explorer.runner.targets.registry import Targets
    from solvers.formats.plan_json import PlanFile
    from solvers.plan.result import Result

Ran = tuple["PlanFile", "Bundle", "Outcome"]


def run_both(
    args: argparse.Namespace, file: PlanFile, targets: Targets, request: RunRequest, warnings: Sequence[str]
) -> int:
    """Prints what the plan took and what the new one takes; returns the exit status."""
    from explorer.jobs.replan import replanned
    from explorer.runner.bundles.bundle import finish_bundle
    from explorer.runner.bundles.outcome import RunStatus
    from explorer.runner.measuring.calibration import Ended
    from solvers.formats.plan_json import PlanFile, write_plan
    from solvers.planners.carry import carried_over

    try:
        profile = _profile(args, file, targets, request)
        problem = replanned(file.problem, profile)
    except RunError as error:
        print(f"placement-explorer: error: {error}", file=sys.stderr)
        return ENDED if isinstance(error, Ended) else FAILED
    for warning in warnings:
        print(f"placement-explorer: warning: {printable(warning)}", file=sys.stderr)
    result = _search(file, profile)
    # The first plan is judged by the same costs as the new one.
    plan = carried_over(problem, file.plan)
    before = PlanFile(problem, plan, None, file.reference)
    ran = [_run(args, before, write_plan(problem, plan, None, file.reference), targets, request)]
    kept = saved(lambda: finish_bundle(*ran[0][1:]))
    same = result.plan is None or result.plan == plan
    if not same and ran[0][2].status is RunStatus.DONE:
        assert result.plan is not None
        after = write_plan(problem, result.plan, result, file.reference)
        ran.append(_run(args, PlanFile(problem, result.plan, result, file.reference), after, targets, request))
        kept = saved(lambda: finish_bundle(*ran[1][1:])) and kept
    if args.json:
        print_json(_object(file, profile, ran, args.target, request))
    else:
        _print(file, profile, result, ran)
    if args.output and result.plan is not None:
        new = write_plan(problem, result.plan, result, file.reference)
        written = saved(lambda: write_file(args.output, new, "saving the new plan"))
        kept = written and kept
        if written and not args.json:
            print(f"written    {args.output}")
    status = ran[-1][2].status
    if not kept:
        return FAILED
    return 0 if status is RunStatus.DONE else FAILED if status is RunStatus.FAILED else ENDED


def _profile(args: argparse.Namespace, file: PlanFile, targets: Targets, request: RunRequest) -> Profile:
    """Measured now, on as many ranks as the plan has devices (two at least, if there are, for the link between
    them), or read. Raises RunError or InvalidProblem."""
    from explorer.costs.profile_json import load_profile

    if args.replan:
        return load_profile(args.replan)
    ranks = max(len(file.plan.devices_used()), min(2, len(file.problem.cluster)))
    return measured(file.problem.graph, file.reference, targets, args.target, ranks, request)


def _search(file: PlanFile, profile: Profile) -> Result:
    from explorer.cli.terminal.progress import compiling_told, progress_line, stop_on_interrupt
    from explorer.jobs.replan import replan

    line = progress_line()
    with compiling_told(), stop_on_interrupt() as stop:
        try:
            return replan(file, profile, should_stop=stop.is_set, on_progress=line)
        finally:
            line.clear()


def _run(args: argparse.Namespace, file: PlanFile, text: str, targets: Targets, request: RunRequest) -> Ran:
    from explorer.runner.bundles.bundle import new_folder, predicted_s, write_bundle

    target = targets.get(args.target)
    bundle = write_bundle(new_folder(file.reference), text, request, target.name, predicted_s=predicted_s(file))
    return file, bundle, run_plan(target, text, file, request, bundle)


def _object(file: PlanFile, profile: Profile, ran: list[Ran], target: str, request: RunRequest) -> dict[str, object]:
    from explorer.cli.reports.run_report import run_object
    from explorer.costs.profile_json import profile_object

    told = [run_object(each, bundle, target, request, outcome) for each, bundle, outcome in ran]
    return {
        "model": file.reference,
        "before": told[0],
        "after": told[1] if len(told) > 1 else None,
        "profile": profile_object(profile),
    }


def _print(file: PlanFile, profile: Profile, result: Result, ran: list[Ran]) -> None:
    from explorer.costs.measured import label
    from explorer.runner.bundles.bundle import predicted_s
    from explorer.runner.bundles.outcome import RunStatus
    from explorer.words import text

    print(f"{file.reference}: planned again with costs {label(profile)}")
    print(f"planner    {result.planner}, {result.status.value}, {text.seconds(result.runtime_s)}")
    first_s = predicted_s(file)
    print(f"estimated  {text.seconds(first_s)} by the first plan's own costs ({printable(file.problem.costs_from)})")
    print()
    rows = [["plan", "predicted", "measured (median)", "best", "error", "devices"]]
    for name, (each, _, outcome) in zip(("before", "after"), ran, strict=False):
        expected, times = predicted_s(each), outcome.iterations_s
        middle = median(times) if times else None
        rows.append(
            [
                name,
                text.seconds(expected),
                text.seconds(middle) if middle is not None else outcome.status.value,
                text.seconds(min(times)) if times else text.NOTHING,
                f"{expected / middle - 1:+.1%}" if middle else text.NOTHING,
                text.count(len(each.plan.devices_used())),
            ]
        )
    print_table(rows, right=frozenset(range(1, 6)))
    print()
    if len(ran) == 2 and all(outcome.iterations_s for _, _, outcome in ran):
        old, new = (median(outcome.iterations_s) for _, _, outcome in ran)
        more = "less" if new <= old else "more"
        print(f"gain       the new plan takes {text.percent(abs(new / old - 1))} {more} time than the first")
    elif len(ran) == 1 and ran[0][2].status is RunStatus.DONE:
        print("gain       none: with measured costs no better plan than the first was found")
    for _, _, outcome in ran:
        if outcome.reason:
            print(f"reason     {outcome.reason}")
    noise = max((outcome.noise or 0.0 for _, _, outcome in ran), default=0.0)
    print(f"noise      {text.percent(max(noise, profile.noise))}")
    for _, bundle, _ in ran:
        print(f"bundle     {Path(bundle.folder).absolute()}")
