"""The command ``placement-explorer``: parse, run one command, and end with a status and one line.

Exit status: 0 done; 2 bad input, or a file that could not be written; 3 proved infeasible; 4 no plan in the time
given; 5 a run failed, or its result could not be saved; 6 stopped before it had a plan or was done, or a run reached
its time limit.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from explorer.cli import (
    app,
    calibrate,
    check,
    compare,
    decode,
    export,
    plan,
    run,
    run_listing,
    schedule,
    sweep,
    trace,
)
from explorer.cli.flags import pack_by_counts
from explorer.cli.listings import choices, plans, settings
from explorer.cli.terminal.command import output_apart, printable_streams
from solvers.errors import PlacementError, one_line

BAD_INPUT = 2

COMMANDS = (
    app.add,
    *choices.ADD,
    settings.add,
    trace.add,
    plan.add,
    compare.add,
    sweep.add,
    decode.add,
    schedule.add,
    check.add,
    check.add_diff,
    export.add,
    run.add,
    *run_listing.ADD,
    *plans.ADD,
    calibrate.add,
)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"placement-explorer: error: {one_line(message)} (see `{self.prog} --help`)\n")


class _Version(argparse.Action):
    """Reads what is installed when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from explorer.library.made_by import PROJECT, version_of

        print(f"{PROJECT} {version_of(PROJECT)}")
        parser.exit()


def make_parser() -> Parser:
    parser = Parser(
        prog="placement-explorer",
        description="Place the operators of a PyTorch model on devices, see the schedule, and prove how good it is.",
        epilog="example: placement-explorer plan gpt --devices 4 --memory 24GiB",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    for add in COMMANDS:
        add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status. Bad input is one line on stderr. Ctrl-C and SIGTERM, where no
    command takes them to be the end of a search, are left to `explorer.__main__`."""
    with printable_streams():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = make_parser().parse_args(argv)
        pack_by_counts(args)
        with output_apart(args):
            status: int = args.run(args)
        sys.stdout.flush()
        return status
    except PlacementError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader (head, less) has had enough: not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(one_line(f"{where}{error.strerror or error}"))


def _fail(message: str) -> int:
    print(f"placement-explorer: error: {message}", file=sys.stderr)
    return BAD_INPUT
