"""``diff``: what differs between two plans of one model."""

from __future__ import annotations

import argparse

from explorer.cli.terminal.command import Commands, add_command, add_json, print_json


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "diff",
        run,
        "say what differs between two plans of one model: what moved, times, memory, bytes",
        "placement-explorer diff before.json after.json",
    )
    parser.add_argument("first", metavar="PLAN", help="a plan.json")
    parser.add_argument("second", metavar="PLAN", help="another, for other devices, caps or micro-batches maybe")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from explorer.cli.check import read_plan_file
    from explorer.reviews.difference import difference, difference_object
    from explorer.reviews.shown import lines, moved_words
    from explorer.words import text

    files = [read_plan_file(path) for path in (args.first, args.second)]
    told = difference(*((file.problem, file.plan) for file in files))
    if args.json:
        print_json({"first": args.first, "second": args.second} | difference_object(told))
    else:
        share = text.percent(told.moved_operators / told.operators)
        print(f"{args.first} -> {args.second}: {moved_words(told)} ({share})")
        print(*lines(told), sep="\n")
    return 0
