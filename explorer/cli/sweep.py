"""``sweep``: models over planners, numbers of devices, caps, micro-batches and bandwidths."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from explorer.cli.flags import add_models, add_phase, add_problem, add_search, search_of, settings_of
from explorer.cli.launching import FAILED, add_targets, status_without_plan
from explorer.cli.terminal.command import Commands, add_command, print_json
from explorer.cli.terminal.keeping import add_library, library_of, solver_of, traced
from explorer.files import write_file
from explorer.question.written.quantities import parse_bandwidth, parse_bytes
from solvers.errors import InvalidProblem

if TYPE_CHECKING:
    import threading

    from explorer.costs.regions import Recompute
    from explorer.question.settings import SearchSettings, Settings
    from explorer.sweeps.execution.cluster import Cluster
    from explorer.sweeps.execution.workers import Workers
    from explorer.sweeps.points import Axes
    from explorer.sweeps.sweep import Cell, Row
    from solvers.problem.problem import Pipeline

MOST_VALUES = 100
MOST_WORKERS = 256
QUESTIONS_EACH = 4
"""A process takes seconds to start: unless somebody says how many, each is to have so many questions."""

T = TypeVar("T")


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sweep",
        run,
        "plan models for several numbers of devices, caps, micro-batches and bandwidths, and print one table",
        "placement-explorer sweep gpt --devices 1,2,4,8 --memory 16GiB,80GiB --effort quick -o plans",
    )
    parser.conflict_handler = "resolve"  # four flags of a problem take several values here
    add_models(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--planner",
        default="auto",
        metavar="NAME[:OPTION=VALUE,...],...",
        help="which, with commas; `placement-explorer planners` lists them (auto)",
    )
    add_search(search, "how much work is done at each point, counted", 60.0, "planner", "gap")
    search.add_argument(
        "--fresh",
        action="store_true",
        help="search at every point from the beginning; else `auto` begins with the plan of the nearest point before,"
        " so that more devices or memory never make it worse (other planners always search by themselves)",
    )
    add_problem(parser)
    add_phase(parser)
    _add_where(parser)
    _add_swept(parser)
    add_library(parser, "--search-again")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="save the plan of every row as a plan.json in there")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the time over what varies, a .svg or .png: over caps, a line a pipeline and way to recompute",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON instead of text")
    how.add_argument("--csv", action="store_true", help="print CSV instead of text")


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group(
        "where",
        "Questions are asked of several processes at once, of which each stays warm; the rows do not depend on how many"
        " there are (unless the time limit strikes).",
    )
    where.add_argument(
        "--on",
        metavar="TARGET",
        default="local",
        help="ask a Ray cluster: one of `placement-explorer targets` (local, this machine)",
    )
    add_targets(where)
    where.add_argument(
        "--workers",
        type=_workers_given,
        metavar="N",
        help="processes (one a core, as many as memory allows and can be at work at the same time, for at least"
        f" {QUESTIONS_EACH} questions each; 1: this one); on a cluster, questions at a time (one a core)",
    )


def _add_swept(parser: argparse.ArgumentParser) -> None:
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
    swept.add_argument(
        "--pipeline", type=_several(_pipeline), metavar="NAME,NAME", help="1f1b,zb-v,v-half,v-min: the order of each"
    )
    swept.add_argument(
        "--recompute", type=_several(_recompute), nargs="?", const="stage", metavar="NAME,NAME",
        help="none,stage,layers,operators,budget: what runs again before its backward",
    )  # fmt: skip
    swept.add_argument("--one-at-a-time", action="store_true", help="vary one of them at a time")


def run(args: argparse.Namespace) -> int:
    search = search_of(args)  # before the models: a limit that is none should not cost a trace
    from explorer.cli.reports.sweep_report import print_sweep, row_objects, sweep_csv
    from explorer.sweeps.points import check_count, points
    from explorer.sweeps.sweep import cells

    planners = _planners(args.planner)  # before the models: a typo should not cost a trace
    models = _distinct(args.model, "model")
    grid = points(_axes(args), one_at_a_time=args.one_at_a_time)
    check_count(len(models) * len(planners) * len(grid))
    base = _base(args)
    target = _target(args)
    if args.output:
        _make_folder(args.output)
    workloads = [traced(args, model) for model in models]
    if len({workload.reference for workload in workloads}) < len(models):  # files that say the same of themselves
        workloads = [replace(one, reference=model) for one, model in zip(workloads, models, strict=True)]
    swept = _sweep(cells(workloads, planners, grid), base, target, search, args)
    rows, plans = swept.in_order()
    _refuse_all_invalid(rows)
    if args.json:
        print_json(row_objects(rows, plans))
    elif args.csv:
        print(sweep_csv(rows, plans), end="")
    else:
        print_sweep(", ".join(workload.reference for workload in workloads), rows)
        saved = sum(plan is not None for plan in plans)
        if saved:
            print(f"\n{saved} written to {args.output}")
    if args.plot:
        _draw(args.plot, rows)
    sys.stdout.flush()
    if missing := len(swept.cells) - len(rows):
        print(f"placement-explorer: stopped before {missing} of {len(swept.cells)} points", file=sys.stderr)
    if swept.trouble:
        print(f"placement-explorer: error: {swept.trouble}", file=sys.stderr)
        return FAILED
    return _status(rows, ended=bool(missing))


def _planners(given: str) -> tuple[str, ...]:
    """As asked, options included. Raises InvalidProblem."""
    from explorer.jobs.comparison import split_planners
    from explorer.question.planner_choice import choose_planner

    planners = split_planners(given)
    for planner in planners:
        choose_planner(planner)
    return planners


def _distinct(given: list[str], what: str) -> list[str]:
    """Raises InvalidProblem for one that is given twice."""
    for one in given:
        if given.count(one) > 1:
            raise InvalidProblem(f"{what} {one} is given twice; keep one")
    return given


@dataclass
class _Swept:
    """The rows that are there by their positions, and where their plans are."""

    cells: Sequence[Cell]
    rows: dict[int, tuple[Row, str | None]] = field(default_factory=dict)
    trouble: str = ""
    """Why a cluster was lost in the middle."""

    def in_order(self) -> tuple[list[Row], list[str | None]]:
        """In the order in which they were asked; what a row started from is counted among those that are there."""
        positions = sorted(self.rows)
        place = {position: i for i, position in enumerate(positions)}
        rows = [self.rows[position][0] for position in positions]
        rows = [r if r.started_from is None else replace(r, started_from=place[r.started_from]) for r in rows]
        return rows, [self.rows[position][1] for position in positions]


def _sweep(
    cells: Sequence[Cell], base: Settings, target: Cluster | None, search: SearchSettings, args: argparse.Namespace
) -> _Swept:
    """The rows; Ctrl-C ends the sweep, not the command."""
    from explorer.cli.reports.sweep_report import cell_words, file_name, row_words
    from explorer.cli.terminal.progress import SweepLine, report_compiling, stop_on_interrupt
    from explorer.sweeps.execution.cluster import Cluster, Interrupted
    from explorer.sweeps.execution.questions import Limits
    from explorer.sweeps.execution.queue import InLibrary
    from explorer.sweeps.sweep import cell_rows
    from solvers.formats.plan_json import write_plan

    names = cell_words(cells)
    line = SweepLine(sys.stderr, names, "" if target is None else target.setup.name)
    swept = _Swept(cells)
    limits = Limits(search.effort, search.time_limit_s, seed=search.seed)
    with report_compiling() as compiling, stop_on_interrupt() as stop, solver_of(args, "") as solve:
        library = InLibrary(solve, args.again)
        workers = target or _workers(cells, args, compiling, stop)
        try:
            for position, row in cell_rows(
                cells, base, limits, workers, library, fresh=args.fresh, should_stop=stop.is_set, on_course=line
            ):
                path = None
                if args.output and row.result is not None and row.plan is not None:
                    path = os.path.join(args.output, file_name(position, names[position]))
                    text = write_plan(row.result.problem, row.plan, row.result, cells[position].workload.reference)
                    write_file(path, text, "saving a plan of the sweep")
                swept.rows[position] = (row, path)
                line.row(position, row_words(row))
        except Interrupted as error:
            swept.trouble = str(error)
        finally:
            if not isinstance(workers, Cluster):
                workers.close()
            line.clear()
    return swept


def _target(args: argparse.Namespace) -> Cluster | None:
    """The cluster that is to be asked; None for this machine. Raises InvalidProblem."""
    from explorer.runner.targets.registry import load_targets
    from explorer.runner.targets.target_file import RaySetup
    from explorer.sweeps.execution.cluster import Cluster

    targets = load_targets(args.targets)
    setup = targets.setup(args.on)
    if not isinstance(setup, RaySetup):
        return None
    library = library_of(args)
    owner = f"{os.getuid()} {socket.gethostname()} {library}"
    resume = library is not None and not args.again
    return Cluster(setup, setup.token(targets.environ), args.workers or 0, owner, resume)


def _workers(
    cells: Sequence[Cell], args: argparse.Namespace, compiling: Callable[[str, float], None], stop: threading.Event
) -> Workers:
    """This process itself where one is enough."""
    from explorer.sweeps.execution.order import at_once
    from explorer.sweeps.execution.pool import Here, Pool
    from explorer.sweeps.execution.workers import room
    from explorer.sweeps.sweep import before

    count = args.workers
    if count is None:
        wide = at_once(len(cells), before(cells, fresh=args.fresh))
        count = min(room(), wide, len(cells) // QUESTIONS_EACH)
    return Pool(count, compiling) if count > 1 else Here(stop.is_set)


def _axes(args: argparse.Namespace) -> Axes:
    from explorer.sweeps.points import Axes

    pipelines, again = args.pipeline or (), args.recompute or ()
    return Axes(
        args.devices or (), args.micro_batches or (), args.bandwidth or (), args.memory or (),
        pipelines if len(pipelines) > 1 else (), again if len(again) > 1 else (),
    )  # fmt: skip


def _base(args: argparse.Namespace) -> Settings:
    """The settings of all points, but for what is swept."""
    once = argparse.Namespace(**vars(args) | dict.fromkeys(("devices", "micro_batches", "bandwidth", "memory")))
    once.pipeline = args.pipeline[0] if args.pipeline and len(args.pipeline) == 1 else None
    once.recompute = args.recompute[0] if args.recompute and len(args.recompute) == 1 else None
    return settings_of(once)


def _pipeline(given: str) -> Pipeline:
    from explorer.sweeps.points import pipeline

    return pipeline(given)


def _recompute(given: str) -> Recompute:
    from explorer.sweeps.points import recompute

    return recompute(given)


def _draw(path: str, rows: list[Row]) -> None:
    """Raises InvalidProblem where there is nothing that a curve could show."""
    from explorer.sweeps.answers import Sweep

    picture = Sweep(rows).curve()
    if picture is None:
        raise InvalidProblem(
            "--plot draws times over one thing that varies, or over --memory, a line a pipeline and way to recompute"
        )
    if path.endswith(".png"):
        write_file(path, picture.png(), "writing the plot of a sweep")
    else:
        write_file(path, picture.svg(), "writing the plot of a sweep")


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
    from explorer.cli.reports.sweep_report import row_name
    from explorer.sweeps.sweep import INVALID, UNSUPPORTED

    if rows and all(row.status in (INVALID, UNSUPPORTED) for row in rows):
        raise InvalidProblem(f"no point of the sweep can be asked: {row_name(rows[0], rows)}: {rows[0].reason}")


def _status(rows: list[Row], *, ended: bool) -> int:
    """ended: whether points are missing."""
    from explorer.sweeps.sweep import FAILED as DEFECT_ROW

    if any(row.plan is not None for row in rows):
        return 0
    broken = any(row.status == DEFECT_ROW for row in rows)
    return status_without_plan([row.result for row in rows], broken=broken, ended=ended)


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


def _workers_given(given: str) -> int:
    if not (given.isascii() and given.isdigit() and 0 < int(given[:4]) <= MOST_WORKERS and len(given) < 4):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MOST_WORKERS}, found {given[:40]!r}")
    return int(given)


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given) > 0):
        raise InvalidProblem(f"expected whole numbers from 1, with commas between: 1,2,4; found {given[:40]!r}")
    return int(given)
