"""What an answer depends on beside the question: the code that searched."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

import solvers

PROJECT = "placement-explorer"
PACKAGES = ("numpy", "numba", "networkx", "pulp", "highspy", "ortools", "pymetis")
"""Whose numbers go into a search: those that are not installed are said to be absent, as `auto` does without them."""
DIGITS = 16
"""Of the hash of the sources."""


@cache
def versions() -> Mapping[str, str]:
    """Of the project, of all that `solvers` is made of (a hash of its sources, so that work on a planner is another
    version with every change), of Python and of the packages that compute. How models are traced and what operators
    cost is not among them: it makes the problem, and that is a part of the question."""
    told = {PROJECT: _version(PROJECT), "solvers": sources_hash(Path(solvers.__file__).parent)}
    told["python"] = ".".join(platform.python_version_tuple()[:2])
    return MappingProxyType(told | {name: _version(name) for name in PACKAGES})


def sources_hash(package: Path) -> str:
    """The first DIGITS of a sha256 of all Python files in a folder, by their names."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix()):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package).as_posix()}\n{len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()[:DIGITS]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
