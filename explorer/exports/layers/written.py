"""A file for a launcher, and what it does not say of the plan."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from solvers.errors import UnsupportedProblem

_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*\Z")


@dataclass(frozen=True, slots=True)
class Written:
    """text: of the file. lost: a sentence for everything of the plan that the file does not say. changed: what it says
    otherwise than the plan, which was asked for (`nearest`), and what that costs."""

    text: str
    lost: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def path_of(module: str) -> str:
    """A module's path, to be put into a program or a shell. Raises UnsupportedProblem if it is more than names."""
    if not _PATH.match(module):
        raise UnsupportedProblem(f"the module {module[:60]!r} has a name that cannot be written into a launcher's file")
    return module


def comments(lines: Iterable[str], mark: str = "#") -> str:
    """Sentences as comments, a line each, of printable ASCII: names in them are data."""
    return "".join(f"{mark} {_plain(line)}\n" for line in lines)


def loss_comments(lost: Iterable[str], changed: Iterable[str]) -> list[str]:
    """What is changed and what is lost, as lines for the head of a file."""
    return [*(f"Changed: {line}" for line in changed), *(f"Not said here: {line}" for line in lost)]


def _plain(line: str) -> str:
    line = line.replace("µ", "u")
    return "".join(c if " " <= c <= "~" else "?" for c in line).replace('"""', "'''")
