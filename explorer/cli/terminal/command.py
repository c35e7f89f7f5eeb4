"""What the commands share: how one is added, and how JSON is printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from explorer.files import why_not_writable
from explorer.words.tables import aligned
from solvers.errors import InvalidProblem
from solvers.formats.json_text import dump_json

Commands = Any
"""argparse's subparsers: their type is private."""

STANDARD_OUTPUT = "/dev/stdout"


@contextmanager
def output_apart(args: argparse.Namespace) -> Iterator[None]:
    """Where a file goes to standard output, all else that is printed goes to stderr. Raises InvalidProblem for JSON
    beside it, which would be nowhere."""
    if STANDARD_OUTPUT not in vars(args).values():
        yield
        return
    if getattr(args, "json", False):
        raise InvalidProblem("a file and --json both on standard output: leave one of them out")
    with redirect_stdout(sys.stderr):
        yield


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], summary: str, example: str
) -> argparse.ArgumentParser:
    """A command with its help, which ends with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example: {example}",
    )
    parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_output(parser: argparse.ArgumentParser, flag: str, *more: str, what: str, required: bool = False) -> None:
    """A file to write, in a folder that is there: found out before the work, not after. "-" is standard output."""
    what += " (-: standard output)"
    parser.add_argument(flag, *more, metavar="FILE", type=_writable, required=required, help=what)


def _writable(path: str) -> str:
    if path == "-":
        return STANDARD_OUTPUT
    if trouble := why_not_writable(path):
        raise argparse.ArgumentTypeError(trouble)
    return path


def print_json(value: object) -> None:
    print(dump_json(value, indent=2))


def print_table(rows: list[list[str]], *, right: frozenset[int] = frozenset()) -> None:
    """Columns as wide as their widest cell; the columns in ``right`` are aligned to the right."""
    print(*aligned(rows, right), sep="\n")
