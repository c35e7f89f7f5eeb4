"""``run --replan``: measure what a plan is made of, plan again with that, and run both plans in turns."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from explorer.cli.launching import ENDED, FAILED, measured, run_plan, saved
from explorer.cli.terminal.command import print_json, print_table
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

ROUNDS = 2
"""Times that each of two plans is run: they take turns, so that a machine that slows down slows both."""


@dataclass(frozen=True)
class Ran:
    """What came of a plan. outcome: of all its rounds as one. Bundle and round i are of one run."""

    file: PlanFile
    bundles: list[Bundle]
    outcome: Outcome
    rounds: list[Outcome]


def run_both(
    args: argparse.Namespace, file: PlanFile, targets: Targets, request: RunRequest, warnings: Sequence[str]
) -> int:
    """Prints what the plan took and what the new one takes; returns the exit status."""
    from explorer.jobs.replan import replanned
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
        print(f"placement-explorer: warning: {warning}", file=sys.stderr)
    result = _search(file, profile)
    # The first plan is judged by the same costs as the new one.
    plan = carried_over(problem, file.plan)
    before = PlanFile(problem, plan, None, file.reference)
    plans = [before]
    if result.plan is not None and result.plan != plan:
        plans.append(PlanFile(problem, result.plan, result, file.reference))
    ran, all_saved = _in_turns(args, plans, targets, request)
    if args.json:
        print_json(_object(file, profile, ran, args.target, request))
    else:
        _print(file, profile, result, ran)
    if args.output and result.plan is not None:
        new = write_plan(problem, result.plan, result, file.reference)
        written = saved(lambda: write_file(args.output, new, "saving the new plan"))
        all_saved = written and all_saved
        if written and not args.json:
            print(f"written    {args.output}")
    ends = [each.outcome.status for each in ran]
    status = next((end for end in ends if end is not RunStatus.DONE), RunStatus.DONE)
    if not all_saved:
        return FAILED
    return 0 if status is RunStatus.DONE else FAILED if status is RunStatus.FAILED else ENDED


def _profile(args: argparse.Namespace, file: PlanFile, targets: Targets, request: RunRequest) -> Profile:
    """Measured now, on as many ranks as the plan has devices (two at least, if there are, for the link between
    them), or read. Raises RunError or InvalidProblem."""
    from explorer.costs.profile_json import load_profile
    from explorer.jobs.replan import check_replanned

    check_replanned(file.problem.graph)
    if args.replan:
        return load_profile(args.replan)
    ranks = max(len(file.plan.devices_used()), min(2, len(file.problem.cluster)))
    return measured(file.problem.graph, file.reference, targets, args.target, ranks, request)


def _search(file: PlanFile, profile: Profile) -> Result:
    from explorer.cli.terminal.progress import progress_line, report_compiling, stop_on_interrupt
    from explorer.jobs.replan import replan

    line = progress_line()
    with report_compiling(), stop_on_interrupt() as stop:
        try:
            return replan(file, profile, should_stop=stop.is_set, on_progress=line)
        finally:
            line.clear()


def _in_turns(
    args: argparse.Namespace, plans: Sequence[PlanFile], targets: Targets, request: RunRequest
) -> tuple[list[Ran], bool]:
    """What came of each plan, and whether all of it could be saved. Of two plans each is run `ROUNDS` times, with as
    many iterations in all as were asked for, in turns; the first run that does not end well is the last."""
    from explorer.runner.bundles.bundle import finish_bundle
    from explorer.runner.bundles.outcome import RunStatus

    rounds = ROUNDS if len(plans) > 1 else 1
    each = replace(request, steps=-(-request.steps // rounds))
    bundles: list[list[Bundle]] = [[] for _ in plans]
    outcomes: list[list[Outcome]] = [[] for _ in plans]
    all_saved, well = True, True
    for turn in range(rounds * len(plans)):
        if not well:
            break
        place = turn % len(plans)
        bundle, outcome = _run(args, plans[place], targets, each)
        bundles[place].append(bundle)
        outcomes[place].append(outcome)
        well = outcome.status is RunStatus.DONE
        all_saved = saved(partial(finish_bundle, bundle, outcome)) and all_saved
    ran = [
        Ran(file, folders, _as_one(of_plan), of_plan)
        for file, folders, of_plan in zip(plans, bundles, outcomes, strict=True)
        if of_plan
    ]
    return ran, all_saved


def _as_one(outcomes: Sequence[Outcome]) -> Outcome:
    """The first, with the iterations and the noise of all, and the end of the last."""
    noises = [outcome.noise for outcome in outcomes if outcome.noise is not None]
    return replace(
        outcomes[0],
        status=outcomes[-1].status,
        reason=outcomes[-1].reason,
        iterations_s=tuple(time for outcome in outcomes for time in outcome.iterations_s),
        noise=max(noises, default=None),
    )


def _run(args: argparse.Namespace, file: PlanFile, targets: Targets, request: RunRequest) -> tuple[Bundle, Outcome]:
    from explorer.runner.bundles.bundle import new_folder, predicted_s, write_bundle
    from solvers.formats.plan_json import write_plan

    target = targets.get(args.target)
    text = write_plan(file.problem, file.plan, file.result, file.reference)
    bundle = write_bundle(new_folder(file.reference), text, request, target.name, predicted_s=predicted_s(file))
    return bundle, run_plan(target, text, file, request, bundle)


def _object(file: PlanFile, profile: Profile, ran: list[Ran], target: str, request: RunRequest) -> dict[str, object]:
    from explorer.cli.reports.run_report import run_object
    from explorer.costs.profile_json import profile_object

    runs = [run_object(each.file, each.bundles[0], target, request, each.rounds[0]) for each in ran]
    for one, each in zip(runs, ran, strict=True):
        one["rounds_s"] = [list(outcome.iterations_s) for outcome in each.rounds]
    gained = _gain(profile, ran)
    return {
        "model": file.reference,
        "before": runs[0],
        "after": runs[1] if len(runs) > 1 else None,
        "gain": gained,
        "distinguishable": None if len(ran) < 2 else gained is not None,
        "profile": profile_object(profile),
    }


def _print(file: PlanFile, profile: Profile, result: Result, ran: list[Ran]) -> None:
    from explorer.costs.interval import and_interval
    from explorer.costs.measured import label
    from explorer.runner.bundles.bundle import predicted_s
    from explorer.runner.bundles.outcome import RunStatus
    from explorer.words import text

    print(f"{file.reference}: planned again with costs {label(profile)}")
    print(f"planner    {result.planner}, {result.status.value}, {text.seconds(result.runtime_s)}")
    first_s = predicted_s(file)
    within = and_interval(file.problem, file.plan, first_s)
    print(f"estimated  {text.seconds(first_s)}{within} by the first plan's own costs ({file.problem.costs_from})")
    print()
    rows = [["plan", "predicted", "measured (median)", "best", "error", "devices"]]
    for name, each in zip(("before", "after"), ran, strict=False):
        expected, times = predicted_s(each.file), each.outcome.iterations_s
        middle = median(times) if times else None
        rows.append(
            [
                name,
                text.seconds(expected),
                text.seconds(middle) if middle is not None else each.outcome.status.value,
                text.seconds(min(times)) if times else text.NOTHING,
                f"{expected / middle - 1:+.1%}" if middle else text.NOTHING,
                text.count(len(each.file.plan.devices_used())),
            ]
        )
    print_table(rows, right=frozenset(range(1, 6)))
    print()
    gained = _gain(profile, ran)
    if gained is not None:
        more = "less" if gained > 0 else "more"
        print(f"gain       the new plan takes {text.percent(abs(gained))} {more} time than the first")
    elif len(ran) == 2 and all(len(each.rounds) == ROUNDS for each in ran):
        print(f"gain       not distinguishable: in {ROUNDS} rounds by turns they differ by less than runs of one plan")
    elif len(ran) == 1 and ran[0].outcome.status is RunStatus.DONE:
        print("gain       none: with measured costs no better plan than the first was found")
    for each in ran:
        if each.outcome.reason:
            print(f"reason     {each.outcome.reason}")
    print(f"noise      {text.percent(max(_noise(ran), profile.noise))}")
    for each in ran:
        for bundle in each.bundles:
            print(f"bundle     {Path(bundle.folder).absolute()}")


def _noise(ran: Sequence[Ran]) -> float:
    """While the plans ran."""
    return max((each.outcome.noise or 0.0 for each in ran), default=0.0)


def _gain(profile: Profile, ran: Sequence[Ran]) -> float | None:
    """See `gain`; None too where only one plan ran."""
    from explorer.measured.ranking import gain

    if len(ran) < 2 or len({len(each.rounds) for each in ran}) > 1:
        return None
    old, new = ([outcome.iterations_s for outcome in each.rounds] for each in ran)
    return gain(old, new, max(_noise(ran), profile.noise))
