"""``simulate``: the schedule of a plan file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from explorer.cli.check import print_messages, read_plan_file, refuse_invalid, violations
from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json
from explorer.files import write_file
from solvers.formats.json_text import finite_or_none

if TYPE_CHECKING:
    from solvers.formats.plan_json import PlanFile
    from solvers.plan.schedule import Schedule

SHOWN_SPANS = 200
"""Compute spans shown a device; --json has all."""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "simulate",
        run,
        "show the schedule of a plan",
        "placement-explorer simulate plan.json --chrome-trace trace.json",
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan.json")
    add_output(parser, "--chrome-trace", what="write a trace that ui.perfetto.dev opens")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from explorer.exports.tables import trace_text
    from solvers.evaluation.simulation import simulate

    file = read_plan_file(args.plan)
    refuse_invalid(args.plan, violations(file))
    schedule = simulate(file.problem, file.plan)
    if args.chrome_trace:
        write_file(args.chrome_trace, trace_text(file), "saving the schedule as a trace")
    if args.json:
        print_json(_schedule_object(file, schedule))
    else:
        _print_schedule(file, schedule)
        if args.chrome_trace:
            print(f"written to {args.chrome_trace}; open it at ui.perfetto.dev", file=sys.stderr)
    return 0


def _schedule_object(file: PlanFile, schedule: Schedule) -> dict[str, object]:
    from explorer.costs.interval import interval
    from explorer.runner.scripts.with_engine import run_seconds
    from solvers.formats.number_runs import runs
    from solvers.formats.plan_json import messages_json

    operators = file.problem.graph.operators
    spans = [
        {
            "action": span.action,
            "resource": span.resource,
            "device": span.device,
            "to_device": span.to_device if span.is_transfer else None,
            "operator": operators[span.operator].name if span.operator >= 0 else None,
            "start_s": span.start_s,
            "end_s": span.end_s,
            "bytes": span.nbytes,
        }
        for span in schedule.spans
    ]
    within = interval(file.problem, file.plan, schedule.makespan_s)
    return {
        "model": file.reference,
        "objective": file.problem.objective.value,
        "makespan_s": schedule.makespan_s,
        "interval_s": None if within is None else list(within),
        "run_s": run_seconds(file.problem, file.plan),
        "peak_memory_bytes": [finite_or_none(peak) for peak in schedule.peak_bytes()],
        "critical": list(schedule.critical),
        "alike": [runs(same) for same in schedule.alike],
        "messages": messages_json(file.plan),
        "spans": spans,
    }


def _print_schedule(file: PlanFile, schedule: Schedule) -> None:
    from explorer.cli.reports.pass_report import is_pass_of_operators, print_pass
    from explorer.cli.reports.report import print_run_seconds
    from explorer.costs.interval import and_interval
    from explorer.view.folded import numbers_words
    from explorer.words import text

    problem = file.problem
    if is_pass_of_operators(problem):
        count = sum(span.is_transfer for span in schedule.spans)
        print(
            f"{file.reference or problem.graph.name}: {text.seconds(schedule.makespan_s)}"
            f"{and_interval(problem, file.plan, schedule.makespan_s)},"
            f" {text.plural(len(schedule.spans) - count, 'operator')} and {text.plural(count, 'transfer')}"
            " (--json lists them, --chrome-trace draws them)"
        )
        print_messages(file)
        print_run_seconds(problem, file.plan)
        print()
        print_pass(problem, file.plan, schedule)
        return
    scale, unit = text.time_unit(schedule.makespan_s)
    makespan = text.seconds(schedule.makespan_s) + and_interval(problem, file.plan, schedule.makespan_s)
    print(f"{file.reference or problem.graph.name}: {makespan}; times in {unit}")
    print(
        "1F0: stage 1, forward, micro-batch 0; B backward, or its parts I (gradients of"
        " inputs) and W (of parameters), U update"
    )
    print_messages(file)
    print_run_seconds(problem, file.plan)
    others = {same[0]: f", and {numbers_words(same[1:])} alike" for same in schedule.alike}
    for index in others or range(len(problem.cluster)):
        device = problem.cluster.devices[index]
        spans = [span for span in schedule.spans if span.device == index and not span.is_transfer]
        sent = [span for span in schedule.spans if span.device == index and span.is_transfer]
        print(
            f"\n{index} {device.name}{others.get(index, '')}: busy {text.seconds(schedule.busy_s(index))},"
            f" idle {text.seconds(schedule.idle_s(index))}, {text.plural(len(sent), 'transfer')} out"
        )
        for span in spans[:SHOWN_SPANS]:
            name = problem.graph.operators[span.operator].name if span.operator >= 0 else ""
            print(f"  {span.start_s / scale:12.3f} {span.end_s / scale:12.3f}  {span.action:<8} {name}".rstrip())
        if len(spans) > SHOWN_SPANS:
            print(f"  ... {len(spans) - SHOWN_SPANS:,} more (--json has all)")
