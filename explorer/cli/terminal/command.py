"""What the commands share: how one is added, and how text, tables and JSON are printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, NamedTuple, TextIO, cast

from explorer.files import why_not_writable
from explorer.words.tables import aligned
from solvers.errors import InvalidProblem, printable_lines
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


class Column(NamedTuple):
    """A column of a listing: its title, the key of its values, how one is written, whether it is aligned right."""

    title: str
    key: str
    formatter: Callable[..., str] = str
    right: bool = False


def print_listing(rows: Sequence[Mapping[str, object]], columns: Sequence[Column], *, as_json: bool) -> None:
    """Rows as a table of some of their values, or whole as JSON."""
    if as_json:
        print_json(rows)
        return
    lines = [[column.formatter(row[column.key]) for column in columns] for row in rows]
    right = frozenset(i for i, column in enumerate(columns) if column.right)
    print_table([[column.title for column in columns], *lines], right=right)


def print_table(rows: list[list[str]], *, right: frozenset[int] = frozenset()) -> None:
    """Columns as wide as their widest cell; the columns in ``right`` are aligned to the right."""
    print(*aligned(rows, right), sep="\n")


@dataclass(frozen=True)
class _Printing:
    """A stream of text that what is written goes to in `solvers.errors.printable`; all else is that stream's. ends:
    what stays of it."""

    stream: TextIO
    ends: tuple[str, ...]

    def write(self, words: str) -> int:
        self.stream.write(printable_lines(words, self.ends))
        return len(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Within it stdout and stderr show what is printed, and obey line ends alone (CSV has them of two characters); on
    stderr, where lines are drawn again in place, carriage returns too."""
    out, err = _Printing(sys.stdout, ("\r\n", "\n")), _Printing(sys.stderr, ("\n", "\r"))
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        yield
