"""What code something was made by, and what makes the graph of a demo: hashes of sources, as they are written."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import demo_models
import explorer.costs
import explorer.tracing
import explorer.tracing.sharding
import solvers.formats
import solvers.problem.graph

DIGITS = 16
"""Of a hash that are kept."""
PLACES = (
    *(Path(str(one.__file__)).parent for one in (demo_models, explorer.tracing)),
    Path(solvers.problem.graph.__file__),
)
"""The sources: of the models, of the tracer, and of what it writes."""
FORMATS = Path(str(solvers.formats.__file__)).parent
"""How a graph is written, which counts for what is kept here: what ships is held to it by a test."""
DIVIDED_BY = tuple(Path(str(one.__file__)).parent for one in (explorer.tracing.sharding, explorer.costs))
"""What divides tensors over a group, which is part of such a trace."""
STATED = "traced_by.json"
"""Beside graphs that ship: a NamedTuple `TracedBy`."""


def sources_hash(package: Path) -> str:
    """The first DIGITS of a sha256 of all Python files in a folder, by their names."""
    return _hash((path.relative_to(package).as_posix(), path.read_bytes()) for path in _files(package))


def written_hash(places: Iterable[Path]) -> str:
    """The same of several files and folders. A name is the path from the folder in which a place is."""
    return _hash((name, path.read_bytes()) for name, path in _named(places))


def code_hash(places: Iterable[Path]) -> str:
    """The same of what the files say to Python alone: comments, docstrings and how lines are broken do not count."""
    return _hash((name, _meant(path.read_bytes()).encode()) for name, path in _named(places))


def _named(places: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for place in places:
        for path in _files(place) if place.is_dir() else (place,):
            yield path.relative_to(place.parent).as_posix(), path


def _files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix())


def _hash(contents: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, content in contents:
        found.update(f"{name}\n{len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()[:DIGITS]


def _meant(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # a text that stands by itself is a docstring, wherever it stands
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


class TracedBy(NamedTuple):
    """torch: its version without the last number, "2.13", "" for none. written: hash of the sources as they are; code:
    of what they mean, see `code_hash`."""

    torch: str
    written: str
    code: str


@cache
def torch_version() -> str:
    """Of the PyTorch that is installed, which is not imported: "2.13.0+cpu"; "" for none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def release(torch: str) -> str:
    """ "2.13.0+cpu" -> "2.13"."""
    return ".".join(torch.split("+")[0].split(".")[:2])


def of_today() -> TracedBy:
    return TracedBy(release(torch_version()), written_hash(PLACES), code_hash(PLACES))


@cache
def holds_still(stated: Path) -> bool:
    """Whether what was traced by what a file states would be traced so today. Without PyTorch nobody can trace, and
    only the sources count."""
    try:
        then = TracedBy(**json.loads(stated.read_text(encoding="utf-8")))
        if torch_version() and release(torch_version()) != then.torch:
            return False
        return written_hash(PLACES) == then.written or code_hash(PLACES) == then.code
    except (OSError, ValueError, TypeError, SyntaxError, RecursionError):
        return False


@cache
def traced_here() -> str:
    """What names all of it for a graph that is traced now, to the last comment: nobody loses more than a trace."""
    return f"{torch_version()} {written_hash((*PLACES, FORMATS, *DIVIDED_BY))}"


def stated_text(by: TracedBy) -> str:
    return json.dumps(by._asdict(), indent=2) + "\n"
