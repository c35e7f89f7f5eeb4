"""``check``: whether a plan may be used, as a review of a screenful, as JSON, or as a file to hand on; and ``diff``:
what differs between two plans of one model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from explorer.cli.terminal.command import Commands, add_command, add_json, add_output, print_json, print_table
from explorer.files import write_file
from solvers.errors import InvalidPlan

if TYPE_CHECKING:
    from explorer.reviews.review import Review
    from explorer.sweeps.why_here import WhyHere
    from solvers.formats.plan_json import PlanFile


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "check",
        run,
        "review a plan: rules, coverage, memory, deadlocks, balance, what is estimated",
        "placement-explorer check plan.json --report review.html",
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan.json")
    add_output(parser, "--report", what="write the review with pictures as one self-contained HTML file")
    parser.add_argument(
        "--why-here", metavar="NAME", help="also what it would cost to have an operator or module on each other device"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from explorer.reviews.review import review

    file = read_plan_file(args.plan)
    reviewed = review(file.problem, file.plan, file.result)
    moves = None if args.why_here is None or reviewed.broken else _why_here(file, args.why_here)
    if args.report:
        from explorer.reviews.report_page import report_page

        notes = () if file.result is None else file.result.notes
        page = report_page(reviewed, file.problem, file.reference, notes)
        write_file(args.report, page, "saving the review")
    if args.json:
        print_json(_object(args.plan, file, reviewed) | ({} if moves is None else {"why_here": moves_object(moves)}))
    else:
        _print(args.plan, file, reviewed)
        if moves is not None:
            print(f"\nwhy here: {args.why_here}")
            for line in str(moves).splitlines():
                print(line)
        if args.report:
            print(f"written to {args.report}")
    refuse_invalid(args.plan, reviewed.broken)
    _refuse_failed(args.plan, reviewed)
    return 0


def _why_here(file: PlanFile, name: str) -> WhyHere:
    """Raises InvalidProblem for a name that is no operator or module."""
    from explorer.question.names import Names
    from explorer.sweeps.why_here import why_here

    return why_here(file.problem, file.plan, Names(file.problem.graph).operators(name, "--why-here"))


def moves_object(alternatives: WhyHere) -> dict[str, object]:
    """As JSON: operators (how many move), objective_s, moves, and edges of their stage that move."""
    moves = [
        {"devices": list(m.place), "delta_s": m.delta_s, "changes": list(m.changes), "reason": m.reason}
        for m in alternatives.moves
    ]
    edges = [
        {"move": m.name, "devices": list(m.place), "delta_s": m.delta_s, "changes": list(m.changes), "reason": m.reason}
        for m in alternatives.edges
    ]
    return {
        "operators": len(alternatives.operators),
        "objective_s": alternatives.objective_s,
        "moves": moves,
        "edges": edges,
    }


def violations(file: PlanFile) -> tuple[str, ...]:
    """The rules the plan breaks, and the objective the file claims if it is another than evaluated."""
    from explorer.reviews.review import rules_broken

    return rules_broken(file.problem, file.plan, file.result)


def read_plan_file(path: str) -> PlanFile:
    """The plan.json at a path. Raises PlacementError, in one line."""
    from explorer.question.loading import read_file
    from solvers.formats.plan_json import read_plan

    return read_plan(read_file(path), path)


def refuse_invalid(path: str, broken: tuple[str, ...]) -> None:
    """Raises InvalidPlan, in one line, if there is any rule that the plan breaks."""
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise InvalidPlan(f"{path}: the plan breaks a rule: {broken[0]}{more}")


def _refuse_failed(path: str, review: Review) -> None:
    from explorer.reviews.lines import Verdict

    failed = [line for line in review.lines if line.verdict is Verdict.FAIL]
    if failed:
        raise InvalidPlan(f"{path}: the review fails: {failed[0].what}: {failed[0].reason}")


def _object(path: str, file: PlanFile, review: Review) -> dict[str, object]:
    from explorer.reviews.review import review_object
    from explorer.view.figures import metrics_object
    from solvers.formats.plan_json import messages_json

    return {
        "plan": path,
        "valid": not review.broken,
        "violations": list(review.broken),
        "metrics": None if review.broken or review.metrics is None else metrics_object(review.metrics),
        "messages": messages_json(file.plan),
        "review": review_object(review, file.problem),
    }


def _print(path: str, file: PlanFile, review: Review) -> None:
    from explorer.words import text

    for sentence in review.broken:
        print(sentence)
    if review.metrics is not None and not review.broken:
        objective = file.problem.objective
        print(
            f"{path}: valid; {text.plural(len(file.plan.stages), 'stage')} on"
            f" {text.plural(len(file.plan.devices_used()), 'device')},"
            f" {objective.value} {text.seconds(review.metrics.objective_s(objective))}"
        )
        print_messages(file)
    print()
    print_table([[line.verdict.value, line.what, line.reason] for line in review.lines])


def print_messages(file: PlanFile) -> None:
    """A line, if the plan states the order of messages."""
    from explorer.words import text

    links = file.plan.messages
    if links:
        count = sum(len(row) for _, row in links)
        print(f"the plan states the order of {text.plural(count, 'message')} on {text.plural(len(links), 'link')}")


def add_diff(commands: Commands) -> None:
    parser = add_command(
        commands,
        "diff",
        diff,
        "say what differs between two plans of one model: what moved, times, memory, bytes",
        "placement-explorer diff before.json after.json",
    )
    parser.add_argument("first", metavar="PLAN", help="a plan.json")
    parser.add_argument("second", metavar="PLAN", help="another, for other devices, caps or micro-batches maybe")
    add_json(parser)


def diff(args: argparse.Namespace) -> int:
    from explorer.reviews.difference import difference, difference_object
    from explorer.reviews.shown import lines, moved_words
    from explorer.words import text

    files = [read_plan_file(path) for path in (args.first, args.second)]
    compared = difference(*((file.problem, file.plan) for file in files))
    if args.json:
        print_json({"first": args.first, "second": args.second} | difference_object(compared))
    else:
        share = text.percent(compared.moved_operators / compared.operators)
        print(f"{args.first} -> {args.second}: {moved_words(compared)} ({share})")
        print(*lines(compared), sep="\n")
    return 0
