"""Functions that are over the limits, and those that still may be."""

from __future__ import annotations

from pathlib import Path

from tests.size.count import functions, without_words

STILL_OVER: frozenset[str] = frozenset()
"""What may be in the engine, until it is shorter; nothing is added here."""
STILL_OVER_OUTSIDE: frozenset[str] = frozenset({"tracing/trace.py: trace_module"})
"""The same in `explorer`."""


def over_the_limits(folder: Path) -> dict[str, str]:
    """`joint/exact/x.py: f` -> what is too much of it, for each function of a tree of files."""
    over: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        for each in functions(without_words(path.read_text(encoding="utf-8"))[0]):
            if each.is_long or each.is_wide:
                name = f"{path.relative_to(folder).as_posix()}: {each.name}"
                over[name] = f"{each.lines} lines, {each.arguments} arguments"
    return over
