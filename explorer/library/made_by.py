"""What an answer depends on beside the question: the code that searched."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

import solvers
from explorer.question.graphs.sources import sources_hash

PROJECT = "placement-explorer"
PACKAGES = ("numpy", "numba", "networkx", "pulp", "highspy", "ortools", "pymetis")
"""Whose numbers go into a search: those that are not installed are said to be absent, as `auto` does without them."""


@cache
def versions() -> Mapping[str, str]:
    """Of the project, of all that `solvers` is made of (a hash of its sources, so that work on a planner is another
    version with every change), of Python and of the packages that compute. How models are traced and what operators
    cost is not among them: it makes the problem, and that is a part of the question."""
    version_by_name = {PROJECT: version_of(PROJECT), "solvers": sources_hash(Path(solvers.__file__).parent)}
    version_by_name["python"] = ".".join(platform.python_version_tuple()[:2])
    return MappingProxyType(version_by_name | {name: version_of(name) for name in PACKAGES})


def version_of(name: str) -> str:
    """Of an installed package; "absent" for one that is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
