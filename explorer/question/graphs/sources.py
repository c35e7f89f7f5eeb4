"""What code something was made by: hashes of sources, as they are written and as they are meant."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

DIGITS = 16
"""Of a hash that are kept."""


def sources_hash(package: Path) -> str:
    """The first DIGITS of a sha256 of all Python files in a folder, by their names."""
    return _hash((path.relative_to(package).as_posix(), path.read_bytes()) for path in _files(package))


def written_hash(paths: Iterable[Path]) -> str:
    """The same of several files and folders. A name is the path from the folder in which a place is."""
    return _hash((name, path.read_bytes()) for name, path in _named(paths))


def code_hash(paths: Iterable[Path]) -> str:
    """The same of what the files say to Python alone: comments, docstrings and how lines are broken do not count."""
    return _hash((name, _meant(path.read_bytes()).encode()) for name, path in _named(paths))


def _named(paths: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for top in paths:
        for path in _files(top) if top.is_dir() else (top,):
            yield path.relative_to(top.parent).as_posix(), path


def _files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix())


def _hash(contents: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGITS]


def _meant(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # a text that stands by itself is a docstring, wherever it stands
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
