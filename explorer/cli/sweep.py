"""``sweep``: one model over numbers of devices, caps, micro-batches and bandwidths."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from explorer.cli.flags import add_limits, add_model, add_phase, add_planner, add_problem, settings_of, wants_training
from explorer.cli.terminal.command import Commands, add_command, print_json
from explorer.files import write_file
from explorer.question.written.quantities import parse_bandwidth, parse_bytes
from solvers.errors import InvalidProblem
from solvers.plan.result import Status
from solvers.search.effort import Effort

if TYPE_CHECKING:
    from explorer.question.settings import Settings
    from explorer.sweeps.points import Axes, Point
    from explorer.sweeps.sweep import Row
    from solvers.formats.workload import Workload
    from solvers.search.planner import Planner

INFEASIBLE, NO_PLAN = 3, 4
"""Exit status when no point has a plan: one was proved infeasible, or nothing was proved."""
DEFECT = 1
"""Exit status when a planner breaks a rule and no point has a plan."""
MOST_VALUES = 100

T = TypeVar("T")


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sweep",
        run,
        "plan a model for several numbers of devices, caps, micro-batches and bandwidths, and print one table",
        "placement-explorer sweep gpt --devices 1,2,4,8 --memory 16GiB,80GiB --effort quick -o plans",
    )
    parser.conflict_handler = "resolve"  # four flags of a problem take several values here
    add_model(parser)
    search = parser.add_argument_group("search")
    add_planner(search)
    add_limits(search, "how much work is done at each point, counted", 60.0)
    search.add_argument(
        "--fresh",
        action="store_true",
        help="search at every point from the beginning; else `auto` begins with the plan of the nearest point before,"
        " so that more devices or memory never make it worse (other planners always search by themselves)",
    )
    add_problem(parser)
    add_phase(parser)
    swept = parser.add_argument_group(
        "swept",
        "One value or several, with commas. Every combination is a point, the last of these flags changing first; with"
        " --one-at-a-time the first values together, and then each other value with the first of all others. A point at"
        " which nothing fits is a row of the table. One cap is that of all accelerators.",
    )
    swept.add_argument("--devices", type=_several(_count), metavar="N,N", help="accelerators: 1,2,4,8")
    swept.add_argument("--micro-batches", type=_several(_count), metavar="M,M", help="4,8,16 (a planner chooses)")
    swept.add_argument("--bandwidth", type=_several(parse_bandwidth), metavar="RATE,RATE", help="12.5GB/s,25GB/s")
    swept.add_argument("--memory", type=_several(parse_bytes), metavar="SIZE,SIZE", help="16GiB,80GiB")
    swept.add_argument("--one-at-a-time", action="store_true", help="vary one of them at a time")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="save the plan of every row as a plan.json in there")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON instead of text")
    how.add_argument("--csv", action="store_true", help="print CSV instead of text")


def run(args: argparse.Namespace) -> int:
    if not args.time_limit > 0:
        raise InvalidProblem(f"--time-limit must be more than 0 seconds, found {args.time_limit:g}")
    from explorer.cli.reports.sweep_report import print_sweep, sweep_csv
    from explorer.cli.terminal.progress import working
    from explorer.question.loading import load
    from explorer.question.planner_choice import choose_planner
    from explorer.sweeps.points import points
    from explorer.sweeps.sweep import row_object

    planner = choose_planner(args.planner)  # before the model: a typo should not cost a trace
    asked = points(_axes(args), one_at_a_time=args.one_at_a_time)
    base = _base(args)
    if args.output:
        _make_folder(args.output)
    with working(f"tracing {args.model}") as count:
        workload = load(args.model, training=wants_training(args), dtype=args.dtype, on_call=count)
    rows, plans = _sweep(workload, base, asked, planner, args)
    _refuse_all_invalid(rows)
    if args.json:
        print_json([row_object(row) | {"plan": plan} for row, plan in zip(rows, plans, strict=True)])
    elif args.csv:
        print(sweep_csv(rows, plans), end="")
    else:
        print_sweep(workload.reference, rows)
        saved = sum(plan is not None for plan in plans)
        if saved:
            print(f"\n{saved} written to {args.output}")
    sys.stdout.flush()
    if len(rows) < len(asked):
        print(f"placement-explorer: stopped before {len(asked) - len(rows)} of {len(asked)} points", file=sys.stderr)
    return _status(rows)


def _sweep(
    workload: Workload, base: Settings, asked: tuple[Point, ...], planner: Planner, args: argparse.Namespace
) -> tuple[list[Row], list[str | None]]:
    """The rows, and where their plans are; Ctrl-C ends the sweep, not the command."""
    from explorer.cli.reports.sweep_report import file_name
    from explorer.cli.terminal.progress import compiling_told, progress_line, stop_on_interrupt
    from explorer.sweeps.sweep import sweep_rows
    from solvers.formats.plan_json import write_plan

    line = progress_line()

    def on_begin(position: int, point: Point) -> None:
        line.before = f"{position + 1} of {len(asked)}  {point.words()}  "

    rows: list[Row] = []
    plans: list[str | None] = []
    with compiling_told(), stop_on_interrupt() as stop:
        try:
            found = sweep_rows(
                workload, base, asked, planner, effort=Effort(args.effort), time_limit_s=args.time_limit,
                seed=args.seed, fresh=args.fresh, should_stop=stop.is_set, on_begin=on_begin, on_progress=line,
            )  # fmt: skip
            for row in found:
                path = None
                if args.output and row.result is not None and row.plan is not None:
                    path = os.path.join(args.output, file_name(len(rows), row.point))
                    text = write_plan(row.result.problem, row.plan, row.result, workload.reference)
                    write_file(path, text, "saving a plan of the sweep")
                rows.append(row)
                plans.append(path)
        finally:
            line.clear()
    return rows, plans


def _axes(args: argparse.Namespace) -> Axes:
    from explorer.sweeps.points import Axes

    return Axes(args.devices or (), args.micro_batches or (), args.bandwidth or (), args.memory or ())


def _base(args: argparse.Namespace) -> Settings:
    """The settings of all points, but for what is swept."""
    once = argparse.Namespace(**vars(args) | dict.fromkeys(("devices", "micro_batches", "bandwidth", "memory")))
    return settings_of(once)


def _make_folder(path: str) -> None:
    """Found out before the work, not after. Raises InvalidProblem, in one line."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InvalidProblem(f"--output {path}: no folder can be made there: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidProblem(f"--output {path}: the folder cannot be written in")


def _refuse_all_invalid(rows: list[Row]) -> None:
    """Raises InvalidProblem if there was nothing to ask at any point."""
    from explorer.sweeps.sweep import INVALID, UNSUPPORTED

    if rows and all(row.status in (INVALID, UNSUPPORTED) for row in rows):
        raise InvalidProblem(f"no point of the sweep can be asked: {rows[0].point.words()}: {rows[0].reason}")


def _status(rows: list[Row]) -> int:
    from explorer.sweeps.sweep import FAILED

    if any(row.plan is not None for row in rows):
        return 0
    if any(row.status == FAILED for row in rows):
        return DEFECT
    return INFEASIBLE if any(row.status == Status.INFEASIBLE for row in rows) else NO_PLAN


def _several(parse: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Values with commas between, each read by ``parse``."""

    def convert(given: str) -> tuple[T, ...]:
        parts = given.split(",")
        if len(parts) > MOST_VALUES:
            raise argparse.ArgumentTypeError(f"at most {MOST_VALUES} values, found {len(parts):,}")
        try:
            return tuple(parse(part.strip()) for part in parts)
        except InvalidProblem as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given) > 0):
        raise InvalidProblem(f"expected whole numbers from 1, with commas between: 1,2,4; found {given[:40]!r}")
    return int(given)
