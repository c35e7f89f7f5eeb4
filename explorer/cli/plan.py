"""``plan``: the best plan for a model on a cluster."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
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
from explorer.cli.launching import DEFECT, ENDED, INFEASIBLE, NO_PLAN
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json, print_table
from explorer.cli.terminal.keeping import add_library, graphs_of, solver_of, traced
from explorer.files import write_file
from explorer.question.models.example import of_degree, searches_degrees
from explorer.words import text
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.formats.plan_json import write_plan
from solvers.plan.result import Status, StopReason

if TYPE_CHECKING:
    from explorer.exports.configurations.comparison import Configured
    from explorer.question.settings import SearchSettings, Settings
    from explorer.sweeps.remedies import Remedy
    from solvers.formats.workload import Workload
    from solvers.plan.plan import Plan
    from solvers.plan.result import Result
    from solvers.problem.problem import Problem
    from solvers.search.planner import Planner

STATUS_OF = {Status.OPTIMAL: 0, Status.FEASIBLE: 0, Status.INFEASIBLE: INFEASIBLE, Status.NO_PLAN: NO_PLAN}
"""Exit status of an outcome."""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plan",
        run,
        "place a model's operators on devices",
        "placement-explorer plan gpt --devices 4 --memory 24GiB --time-limit 20 -o plan.json",
    )
    add_model(parser)
    search = parser.add_argument_group("search")
    add_search(search, "how much work is done, counted, so that the same question gives the same plan anywhere", 60.0)
    search.add_argument(
        "--start",
        metavar="FILE",
        help="a plan.json of the same model, for other devices, caps or batches maybe, to start from",
    )
    add_expert(search)
    search.add_argument(
        "--from",
        dest="configuration",
        metavar="LAUNCHER:FILE",
        help="judge a launcher's configuration, megatron:train.sh or torchtitan:train.toml, and begin the search with"
        " it; degrees, batches, precision and recomputation are the file's where no flag says otherwise, and layers"
        " stay whole",
    )
    search.add_argument(
        "--from-output",
        metavar="FILE",
        help="where to write the plan.json of the configuration itself, for check, diff, simulate or the page",
    )
    add_problem(parser)
    add_phase(parser)
    add_library(parser)
    parser.add_argument(
        "--front",
        type=int,
        default=0,
        metavar="N",
        help="take the Nth plan that is offered beside the answer: at most 0.5 %% slower, and leaner (0, the answer)",
    )
    parser.add_argument("--explain", action="store_true", help="say which planner found what, and when")
    add_output(parser, "-o", "--output", what="where to write plan.json")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    search = search_of(args)
    if args.front < 0:
        raise InvalidProblem(f"--front must be 0 (the answer) or the number of a leaner plan, found {args.front}")
    from explorer.cli.reports.report import print_report, result_object
    from explorer.question.planner_choice import choose_planner

    if args.expert and args.planner not in ("auto", "expert"):
        raise InvalidProblem(f"--expert judges a placement instead of searching; leave out --planner {args.planner}")
    planner = choose_planner(args.planner)  # before the model: a typo should not cost a trace
    configured = _configuration(args)
    settings = settings_of(args)
    try:
        workload, result = _searched(args, settings, planner, search, configured)
    except InvalidPlan as error:
        return _defect(error)
    result = _chosen(result, args.front)
    problem = result.problem
    why = None
    if result.status is Status.INFEASIBLE:
        from solvers.planners.infeasibility import explain_infeasible  # searches for a cap that would do

        why = explain_infeasible(problem, planner)
    ways = _ways_out(workload, result, settings, planner, args)
    try:
        if args.json:
            print_json(
                result_object(workload.reference, result, why, workload.notes, ways) | _beside(configured, result)
            )
        else:
            print_report(workload.reference, result, why, workload.notes, ways)
            _print_beside(configured, result)
            if args.explain:
                _print_course(result)
        sys.stdout.flush()
    finally:  # a reader that left early (| head) must not cost the file, nor a full disk the report
        if args.output and result.plan is not None:
            written = write_plan(problem, result.plan, result, workload.reference)
            write_file(args.output, written, "saving the plan")
    if args.output and result.plan is not None and not args.json:
        print(f"written    {args.output}")
    if result.plan is None and result.stop_reason is StopReason.CANCELLED:
        return ENDED
    return STATUS_OF[result.status]


def _configuration(args: argparse.Namespace) -> Configured | None:
    """What --from names, judged; its model, degrees and settings become those of ``args``, where no flag gave them.
    None without the flag. Raises PlacementError."""
    if args.configuration is None:
        if args.from_output:
            raise InvalidProblem("--from-output writes the plan of --from LAUNCHER:FILE; give one")
        return None
    for flag in ("start", "expert"):
        if getattr(args, flag):
            raise InvalidProblem(f"--from begins with a configuration's plan; leave out --{flag}")
    if args.training is False:
        raise InvalidProblem("--from reads configurations of training; leave out --inference")
    from explorer.exports.configurations.comparison import configured, configured_settings, named_model
    from explorer.exports.configurations.configured import read_configuration

    configuration = read_configuration(args.configuration)
    args.model = named_model(args.model, configuration)
    for name, value in configured_settings(configuration, settings_of(args)).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    model = of_degree(args.model, configuration.tensor) if searches_degrees(args.model) else args.model
    workload = traced(args, model, settings=settings_of(args))
    one = configured(configuration, workload, settings_of(args))
    if args.from_output:
        write_file(args.from_output, write_plan(one.problem, one.plan, None, workload.reference), "saving the plan")
    return one


def _searched(
    args: argparse.Namespace,
    settings: Settings,
    planner: Planner,
    search: SearchSettings,
    configured: Configured | None,
) -> tuple[Workload, Result]:
    """The answer, and the model that it is of. Raises PlacementError."""
    from explorer.question.problems import make_problem

    if searches_degrees(args.model):
        return _over_degrees(args, settings, planner, search)
    workload = traced(args, args.model, settings=settings)
    problem = make_problem(workload, settings)
    start = None if args.start is None else _start(args.start, problem)
    if configured is not None:
        from explorer.exports.configurations.comparison import start_of

        start = start_of(configured, problem)
    if args.expert:
        from explorer.question.expert import load_expert  # with a planner of its own

        planner = load_expert(args.expert, workload, problem.cluster)
    return workload, _solve(problem, planner, start, search, workload.reference, args)


def _beside(configured: Configured | None, result: Result) -> dict[str, object]:
    """For --json: the configuration that the search began with."""
    if configured is None:
        return {}
    from explorer.exports.configurations.comparison import beside_object

    return {"configured": beside_object(configured, result)}


def _print_beside(configured: Configured | None, result: Result) -> None:
    if configured is not None:
        from explorer.exports.configurations.comparison import lines

        print(*lines(configured, result), sep="\n")


def _chosen(result: Result, number: int) -> Result:
    """The result with another plan of its front as the answer. Raises InvalidProblem if there is no such plan."""
    if not number:
        return result
    if number > len(result.front):
        there = text.plural(len(result.front), "leaner plan")
        raise InvalidProblem(f"--front {number}: there is no such plan; {there} beside the answer")
    one = result.front[number - 1]
    slower = text.percent(one.objective_s / result.objective_s - 1)
    note = f"the leaner plan {number} of {len(result.front)}, {slower} slower than the best found"
    return replace(
        result,
        plan=one.plan,
        objective_s=one.objective_s,
        status=Status.FEASIBLE,
        notes=(*result.notes, note),
        front=(),
    )


def _start(path: str, problem: Problem) -> Plan:
    """The plan in a file. Raises InvalidProblem, in one line, if it is not one of the problem's graph."""
    from explorer.question.loading import read_file
    from solvers.formats.plan_json import read_plan

    file = read_plan(read_file(path), path)
    names, others = ([operator.name for operator in p.graph.operators] for p in (problem, file.problem))
    if names != others:
        raise InvalidProblem(
            f"--start {path}: a plan of another graph ({file.reference}, {len(others):,} operators; this one has"
            f" {len(names):,}); give a plan of the same model and phase"
        )
    return file.plan


def _solve(
    problem: Problem, planner: Planner, start: Plan | None, search: SearchSettings, model: str, args: argparse.Namespace
) -> Result:
    from explorer.cli.terminal.progress import progress_line, report_compiling, stop_on_interrupt
    from explorer.runner.scripts.with_engine import runtime_estimator

    line = progress_line()
    with report_compiling(), stop_on_interrupt() as stop, solver_of(args, model) as solve:
        try:
            return solve(
                problem,
                planner,
                start=start,
                effort=search.effort,
                time_limit_s=search.time_limit_s,
                gap=search.gap,
                seed=search.seed,
                should_stop=stop.is_set,
                on_progress=line,
                second=runtime_estimator(problem),
            )
        finally:
            line.clear()


def _over_degrees(
    args: argparse.Namespace, settings: Settings, planner: Planner, search: SearchSettings
) -> tuple[Workload, Result]:
    """The best answer of all degrees of tensor parallelism, and the model divided so. Raises PlacementError."""
    from explorer.cli.terminal.progress import progress_line, report_compiling, stop_on_interrupt, working
    from explorer.library.question_key import Terms
    from explorer.question.clusters import make_cluster
    from explorer.runner.scripts.with_engine import runtime_estimator
    from explorer.sweeps.degrees import search_degrees
    from explorer.sweeps.divided import DividedModel

    if args.start or args.expert:
        raise InvalidProblem(
            f"--tensor-parallel auto searches over degrees; leave out --{'start' if args.start else 'expert'}"
        )
    with working(f"tracing {args.model}") as count:
        model = DividedModel(args.model, settings.training, args.dtype, count, graphs_of(args), settings)
        cluster = make_cluster(model.at(1), settings)
    line = progress_line()
    with report_compiling(), stop_on_interrupt() as stop, solver_of(args, args.model) as solve:
        try:
            best = search_degrees(
                model.at,
                settings,
                cluster,
                planner,
                terms=Terms(effort=search.effort, time_limit_s=search.time_limit_s, gap=search.gap, seed=search.seed),
                should_stop=stop.is_set,
                on_progress=lambda _, __, step, plan: line(step, plan),
                solver=lambda problem, *given, **terms: solve(
                    problem, *given, second=runtime_estimator(problem), **terms
                ),
            )
        finally:
            line.clear()
    return best.workload, best.result


def _ways_out(
    workload: Workload, result: Result, settings: Settings, planner: Planner, args: argparse.Namespace
) -> list[Remedy]:
    """Changes of the question under which there is a plan, where none was found; those that are there when Ctrl-C or
    the time limit ends a look for more."""
    if result.plan is not None or args.expert or result.stop_reason is StopReason.CANCELLED:
        return []
    from explorer.cli.terminal.progress import stop_on_interrupt, working
    from explorer.question.loading import load
    from explorer.question.written.kinds import MAX_DEVICES
    from explorer.sweeps.helps import LIMITS
    from explorer.sweeps.remedies import remedies, ways_out

    model = workload.reference if searches_degrees(args.model) else args.model
    search = search_of(args)
    limits = replace(LIMITS, time_limit_s=min(LIMITS.time_limit_s, search.time_limit_s), seed=search.seed)
    changes = remedies(result.problem, settings, MAX_DEVICES)
    with working("looking for remedies"), stop_on_interrupt() as stop, solver_of(args, workload.reference) as solve:
        fitting = ways_out(
            workload, changes, planner, limits,
            traced_in=lambda dtype: load(model, training=args.training, dtype=dtype),
            should_stop=stop.is_set, solver=solve,
        )  # fmt: skip
        return list(fitting)


def _print_course(result: Result) -> None:
    """A line for every better plan, every higher bound and every phase, under a heading."""
    from explorer.view.graph.course import course
    from explorer.view.graph.search import step

    rows = [
        [text.seconds(one["elapsed_s"]), one["by"] or result.planner, one["objective"], one["bound"], one["note"]]
        for one in course([step(progress) for progress in result.trace])
    ]
    print()
    print_table([["after", "by", "objective", "bound", ""], *rows])


def _defect(error: InvalidPlan) -> int:
    """A planner broke a rule: not the user's doing, so neither the message nor the status says so."""
    print(f"placement-explorer: internal error: {error} (please report it)", file=sys.stderr)
    return DEFECT
