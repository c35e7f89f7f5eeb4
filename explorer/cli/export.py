"""``export``: a plan in another format."""

from __future__ import annotations

import argparse

from explorer.cli.terminal.command import Commands, add_command, add_output
from explorer.exports.formats import FORMATS
from explorer.files import write_file


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        run,
        "write a plan in another format",
        "placement-explorer export plan.json --to gantt-svg -o schedule.svg;"
        " placement-explorer export plan.json --to megatron --nearest -o pipeline.sh",
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan.json")
    parser.add_argument(
        "--to",
        required=True,
        choices=list(FORMATS),
        metavar="FORMAT",
        help="; ".join(f"{one.name}: {one.what} ({one.ending})" for one in FORMATS.values()),
    )
    parser.add_argument(
        "--nearest",
        action="store_true",
        help="for a launcher that places whole modules: each in the stage that does most of its work, in place of a"
        " refusal; what that changes and costs is printed",
    )
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="of a picture (light)")
    add_output(parser, "-o", "--output", what="the file to write; its name may end as it likes", required=True)


def run(args: argparse.Namespace) -> int:
    from explorer.cli.check import read_plan_file
    from explorer.exports.formats import export
    from solvers.errors import InvalidPlan
    from solvers.planners.check import check

    file = read_plan_file(args.plan)
    if args.to not in ("report-html", "plan") and (broken := check(file.problem, file.plan)):
        raise InvalidPlan(f"{args.plan}: the plan breaks a rule: {broken[0]} (`check --report` says more)")
    made = export(file, args.to, args.theme, nearest=args.nearest)
    write_file(args.output, made.data, f"saving the plan as {args.to}")
    for what, lines in (("changed", made.changed), ("not said", made.lost)):
        for line in lines:
            print(f"{what:10} {line}")
    print(f"written    {args.output}")
    return 0
