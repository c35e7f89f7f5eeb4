"""``compare``: a family of planners on one problem, in one table."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from explorer.cli.flags import (
    add_expert,
    add_model,
    add_phase,
    add_problem,
    add_search,
    search_of,
    settings_of,
)
from explorer.cli.launching import DEFECT, status_without_plan
from explorer.cli.terminal.command import Commands, add_command, add_json, print_json
from explorer.cli.terminal.keeping import add_library, solver_of, traced
from solvers.errors import UnsupportedProblem
from solvers.plan.result import Status
from solvers.problem.problem import Contiguity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from explorer.jobs.comparison import Compared, Entry
    from explorer.question.settings import SearchSettings

EVERY = "all"


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "compare",
        run,
        "run a family of planners on one problem and print one table",
        "placement-explorer compare gpt --devices 4 --planners auto,linear-dp,equal --time-limit 5",
    )
    add_model(parser)
    search = parser.add_argument_group("search")
    search.add_argument(
        "--planners",
        metavar="NAME[:OPTION=VALUE,...],...",
        help="which; `placement-explorer planners` lists them (every one that makes sense)",
    )
    add_search(search, "how much work each planner does, counted", 10.0, "planner", "gap")
    add_expert(search)
    add_problem(parser, contiguity=False)
    parser.add_argument(
        "--contiguity",
        dest="contiguities",
        type=_contiguities,
        default=(),
        metavar="NAME[,NAME]",
        help="acyclic, convex or none; several with commas, or all: one table for the whole family (acyclic;"
        " none for one pass of single operators)",
    )
    add_phase(parser)
    add_library(parser)
    add_json(parser)


def _contiguities(text: str) -> tuple[Contiguity, ...]:
    if text == EVERY:
        return tuple(Contiguity)
    known = {contiguity.value: contiguity for contiguity in Contiguity}
    names = text.split(",")
    for name in names:
        if name not in known and name != EVERY:
            raise argparse.ArgumentTypeError(f"there is no contiguity {name!r}; there are: {', '.join(known)}, {EVERY}")
    return tuple(Contiguity) if EVERY in names else tuple(known[name] for name in dict.fromkeys(names))


def run(args: argparse.Namespace) -> int:
    search = search_of(args)
    from explorer.cli.reports.comparison_report import comparison_list, print_comparison
    from explorer.jobs.comparison import entries, split_planners
    from explorer.question.expert import load_expert
    from explorer.question.planner_choice import choose_planner
    from explorer.question.problems import make_problem
    from solvers.planners.infeasibility import explain_infeasible

    planners = () if args.planners is None else split_planners(args.planners)
    for planner in planners:  # before the model: a typo should not cost a trace
        choose_planner(planner)
    args.contiguity = args.contiguities[0].value if args.contiguities else None
    settings = settings_of(args)
    workload = traced(args, args.model)
    problem = make_problem(workload, settings)
    given = {"expert": load_expert(args.expert, workload, problem.cluster)} if args.expert else {}
    family = entries(problem, planners, args.contiguities, given)
    done = _compare(family, workload.reference, search, args)
    _refuse_unsupported(family, done)
    none_fits = not any(c.row.has_plan for c in done) and any(c.row.status == Status.INFEASIBLE for c in done)
    why = explain_infeasible(problem) if none_fits else None
    if args.json:
        print_json(comparison_list(workload.reference, problem, done, why))
    else:
        print_comparison(workload.reference, problem, done, search.time_limit_s, why)
        _print_known(done)
    sys.stdout.flush()
    return _tell_defects(family, done)


def _compare(family: Sequence[Entry], model: str, search: SearchSettings, args: argparse.Namespace) -> list[Compared]:
    """Every finished run; Ctrl-C ends the comparison, not the command."""
    from explorer.cli.terminal.progress import progress_line, report_compiling, stop_on_interrupt
    from explorer.jobs.comparison import compare

    line = progress_line()

    def on_begin(position: int, entry: Entry) -> None:
        line.before = f"{position + 1} of {len(family)}  {entry.planner}  "

    with report_compiling(), stop_on_interrupt() as stop, solver_of(args, model) as solve:
        try:
            return list(
                compare(
                    family,
                    time_limit_s=search.time_limit_s,
                    seed=search.seed,
                    effort=search.effort,
                    should_stop=stop.is_set,
                    on_begin=on_begin,
                    on_progress=line,
                    solver=solve,
                )
            )
        finally:
            line.clear()


def _print_known(done: Sequence[Compared]) -> None:
    from explorer.library.answer import is_known

    known = [one.row.planner for one in done if one.result is not None and is_known(one.result.notes)]
    if known:
        print(f"known before, and not searched again: {', '.join(dict.fromkeys(known))} (--fresh searches)")


def _refuse_unsupported(family: Sequence[Entry], done: Sequence[Compared]) -> None:
    """Raises UnsupportedProblem if no planner could be asked, with what each of them says."""
    from explorer.view.comparison import UNSUPPORTED, left_out

    rows = [compared.row for compared in done]
    if len(rows) == len(family) and all(row.status == UNSUPPORTED for row in rows):
        reasons = "; ".join(f"{left['planners']}: {left['reason']}" for left in left_out(rows))
        raise UnsupportedProblem(f"none of these planners can be asked: {reasons}")


def _tell_defects(family: Sequence[Entry], done: Sequence[Compared]) -> int:
    """The exit status; what was not run, and what must not be, is said on stderr."""
    from explorer.view.comparison import FAILED, contradictions

    rows = [compared.row for compared in done]
    missing = [entry.planner for entry in family[len(done) :]]
    if missing:
        print(f"placement-explorer: stopped before {', '.join(dict.fromkeys(missing))}", file=sys.stderr)
    broken = [row for row in rows if row.status == FAILED]
    for row in broken:
        print(f"placement-explorer: {row.planner}: {' '.join(row.reason.split())} (please report it)", file=sys.stderr)
    wrong = contradictions(rows)
    for sentence in wrong:
        print(f"placement-explorer: internal error: {sentence} (please report it)", file=sys.stderr)
    if wrong:
        return DEFECT
    if any(row.has_plan for row in rows):
        return 0
    return status_without_plan([one.result for one in done], broken=bool(broken), ended=bool(missing))
