"""What the command prints is text: no name of a file, a model or a person steers the terminal that it is shown on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO, cast

from solvers.errors import printable_lines


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
    stderr, where lines are drawn anew in place, carriage returns too."""
    out, err = _Printing(sys.stdout, ("\r\n", "\n")), _Printing(sys.stderr, ("\n", "\r"))
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        yield
