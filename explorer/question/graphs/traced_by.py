"""What makes the graph of a demo: its code, the tracer's, and PyTorch's. Another of these may make another graph."""

from __future__ import annotations

import json
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
from explorer.question.graphs.sources import code_hash, written_hash

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
