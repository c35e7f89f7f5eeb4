"""Lines, comments, and functions that are too long or take too much.

Read with regular expressions rather than a parser, which takes ten times as long for the whole house.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

MOST_LINES = 60
"""Of a function, from `def` to its last line, docstring included."""
MOST_KERNEL_LINES = 120
MOST_ARGUMENTS = 9
"""Of a function, without `self` and `cls`."""

KERNELS = frozenset({"njit", "inlined", "uncounted", "until_worth_it"})
"""Decorators of compiled functions."""
SOURCES = frozenset({".py", ".js", ".mjs", ".css"})

_ALONE, _REST = "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}", "\N{HORIZONTAL ELLIPSIS}"
"""In place of a triple-quoted string: its first line, and each further one."""
_SPOKEN = re.compile(
    r'(?P<alone>"{3}(?:\\.|[^\\])*?"{3}|\'{3}(?:\\.|[^\\])*?\'{3})'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>#[^\n]*)',
    re.DOTALL,
)
_DOCSTRING = re.compile(rf"^ *[rb]?{_ALONE}(?:\n{_REST})*$", re.MULTILINE)
_DEF = re.compile(r"^(?P<indent> *)(?:async )?def (?P<name>\w+)(?:\[[^\n]*?\])?\(", re.MULTILINE)
_LAMBDA = re.compile(r"\blambda\b[^:]*:")
_BRACKETS = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
"""Brackets that hold no further ones."""
_DECORATOR = re.compile(r"^ *@(?:\w+\.)*(\w+)")


@dataclass(frozen=True)
class Size:
    """What a file, or all files of a room, add up to."""

    files: int = 0
    lines: int = 0
    code: int = 0  # lines without blanks, comments and docstrings
    comments: int = 0
    long: int = 0  # functions over MOST_LINES, kernels over MOST_KERNEL_LINES
    wide: int = 0  # functions with more than MOST_ARGUMENTS

    def __add__(self, other: Size) -> Size:
        return Size(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Size)))


@dataclass(frozen=True)
class Function:
    """A function or a method, at whatever depth."""

    name: str
    lines: int
    arguments: int
    is_kernel: bool

    @property
    def is_long(self) -> bool:
        return self.lines > (MOST_KERNEL_LINES if self.is_kernel else MOST_LINES)

    @property
    def is_wide(self) -> bool:
        return self.arguments > MOST_ARGUMENTS


def size_of(path: Path) -> Size:
    """Of one source file; of scripts and style sheets only the lines."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if path.suffix != ".py":
        stripped = [line.strip() for line in text.splitlines()]
        comments = sum(line.startswith(("//", "/*", "*")) for line in stripped)
        return Size(1, lines, sum(map(bool, stripped)) - comments, comments)
    plain, comments = without_words(text)
    code = sum(not line.isspace() for line in _DOCSTRING.sub("", plain).splitlines() if line)
    every = list(functions(plain))
    long, wide = sum(each.is_long for each in every), sum(each.is_wide for each in every)
    return Size(1, lines, code, comments, long, wide)


def without_words(text: str) -> tuple[str, int]:
    """Python without what stands in strings and comments, line by line as before, and the number of comments."""
    comments = 0

    def shortened(match: re.Match[str]) -> str:
        nonlocal comments
        if match["comment"] is not None:
            comments += 1
            return ""
        if match["alone"] is not None:
            return _ALONE + f"\n{_REST}" * match[0].count("\n")
        return "''"

    return _SPOKEN.sub(shortened, text), comments


def functions(plain: str) -> Iterator[Function]:
    """All functions in Python that is `without_words`."""
    lines = plain.splitlines()
    for match in _DEF.finditer(plain):
        first, indent = plain.count("\n", 0, match.start()), len(match["indent"])
        arguments, end = _arguments(plain, match.end())
        last = signature = plain.count("\n", 0, end)
        for n in range(signature + 1, len(lines)):
            line = lines[n]
            if line and not line.isspace():
                if line[0] != _REST and len(line) - len(line.lstrip()) <= indent:
                    break
                last = n
        yield Function(match["name"], last - first + 1, arguments, bool(_decorators(lines, first) & KERNELS))


def _arguments(plain: str, start: int) -> tuple[int, int]:
    """How many stand between a parenthesis opened just before `start` and the one that closes it; where that is."""
    depth, end = 1, start
    while depth:
        depth += (plain[end] in "([{") - (plain[end] in ")]}")
        end += 1
    text = _LAMBDA.sub("", plain[start : end - 1])
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    named = [name for each in text.split(",") if (name := each.partition(":")[0].strip()) not in ("", "*", "/")]
    return len(named) - (named[:1] in (["self"], ["cls"])), end


def _decorators(lines: list[str], first: int) -> set[str]:
    """Names of those right above line `first`."""
    names: set[str] = set()
    while first and (match := _DECORATOR.match(lines[first - 1])):
        names.add(match[1])
        first -= 1
    return names


def rooms(root: Path, tops: Iterable[str]) -> dict[str, Size]:
    """`solvers/joint/exact` -> what its files add up to, without the folders in it."""
    sizes: dict[str, Size] = {}
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file() and "built" not in path.parts:
                room = path.parent.relative_to(root).as_posix()
                sizes[room] = sizes.get(room, Size()) + size_of(path)
    return sizes
