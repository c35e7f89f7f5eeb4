"""What `run`, `run --replan` and `calibrate` share: where ranks run, and what it means to run them from a terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.files import NotWritten
from solvers.errors import RunError
from solvers.plan.result import Result, Status, StopReason

if TYPE_CHECKING:
    from explorer.costs.profile import Profile
    from explorer.runner.bundles.bundle import Bundle
    from explorer.runner.bundles.outcome import Outcome
    from explorer.runner.bundles.request import RunRequest
    from explorer.runner.targets.registry import Targets
    from explorer.runner.targets.target import Target
    from solvers.formats.plan_json import PlanFile
    from solvers.problem.graph import OpGraph

DEFECT, INFEASIBLE, NO_PLAN, FAILED, ENDED = 1, 3, 4, 5, 6
"""Exit statuses: a planner broke a rule, or planners contradict each other; nothing fits, as was proved; nothing was
found or proved; a run failed, or a cluster was lost; a run or a search was cancelled, or a run reached its limit."""


def status_without_plan(results: Iterable[Result | None], *, broken: bool, ended: bool) -> int:
    """Exit status of searches that all have no plan. broken: whether one broke a rule; ended: whether some never
    began."""
    if broken:
        return DEFECT
    given = [result for result in results if result is not None]
    if ended or any(result.stop_reason is StopReason.CANCELLED for result in given):
        return ENDED
    return INFEASIBLE if any(result.status is Status.INFEASIBLE for result in given) else NO_PLAN


def add_targets(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--targets",
        metavar="FILE",
        help="a TOML file that declares targets ($PLACEMENT_EXPLORER_TARGETS, else"
        " ~/.config/placement-explorer/targets.toml)",
    )


def add_hardware(group: argparse._ArgumentGroup) -> None:
    """--hardware and --torch: what a trace may not say."""
    group.add_argument("--hardware", metavar="NAME", help="the processor it was made on (the GPU that the trace names)")
    group.add_argument("--torch", metavar="VERSION", help="the version that it was made with (not stated)")


def add_target_flags(where: argparse._ArgumentGroup) -> None:
    add_targets(where)
    where.add_argument(
        "--target", default="local", metavar="NAME", help="`placement-explorer targets` lists them (local)"
    )
    where.add_argument("--backend", choices=("auto", "cpu", "cuda"), help="what ranks compute on (auto)")
    where.add_argument("--threads", type=int, metavar="N", help="of each rank on a CPU (1)")
    where.add_argument("--no-pin", action="store_true", help="do not keep each rank to cores of its own")
    where.add_argument("--time-limit", type=float, metavar="S", help="seconds for all of it (600)")


def usual_request(args: argparse.Namespace, targets: Targets) -> RunRequest:
    """Where and how it computes, as the flags say, and the target's own word where they say nothing. Raises
    InvalidProblem."""
    from explorer.runner.bundles.request import Backend

    usual = targets.defaults(args.target)
    return replace(
        usual,
        backend=usual.backend if args.backend is None else Backend(args.backend),
        threads=usual.threads if args.threads is None else args.threads,
        pin=usual.pin and not args.no_pin,
        time_limit_s=usual.time_limit_s if args.time_limit is None else args.time_limit,
    )


def run_plan(target: Target, text: str, file: PlanFile, request: RunRequest, bundle: Bundle) -> Outcome:
    """The outcome, whatever happens; a target that cannot be asked is a run that failed."""
    from explorer.cli.terminal.progress import RunLine, stop_on_interrupt
    from explorer.runner.bundles.outcome import Outcome, RunStatus
    from explorer.runner.scripts.executable import processes

    line = RunLine(sys.stderr, target.name)
    with stop_on_interrupt() as stop:
        try:
            return target.run(text, request, processes(file.problem, file.plan), bundle.folder, line, stop.is_set)
        except RunError as error:
            return Outcome(RunStatus.FAILED, str(error))
        finally:
            line.clear()


def saved(write: Callable[[], None]) -> bool:
    """Whether what came of a run could be saved. If not it says so, and the report is still to come."""
    try:
        write()
    except (RunError, NotWritten) as error:
        print(f"placement-explorer: error: {error}", file=sys.stderr)
        return False
    return True


def measured(graph: OpGraph, reference: str, targets: Targets, name: str, devices: int, request: RunRequest) -> Profile:
    """The profile of a model on a target, with a line of progress; Ctrl-C ends it. The bundle is kept only
    where it failed. Raises RunError or InvalidProblem."""
    from explorer.cli.terminal.progress import RunLine, stop_on_interrupt
    from explorer.runner.bundles.bundle import new_folder
    from explorer.runner.measuring.calibration import MODULE, calibrate_on

    target = targets.get(name, MODULE)
    folder = new_folder(f"calibrate-{reference}")
    line = RunLine(sys.stderr, name)
    with stop_on_interrupt() as stop:
        try:
            profile = calibrate_on(target, graph, reference, devices, request, folder, line, stop.is_set)
        finally:
            line.clear()
    shutil.rmtree(folder, ignore_errors=True)
    return profile
