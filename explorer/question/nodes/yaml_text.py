"""YAML as data: what JSON could say, too, and nothing that stands for something else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from solvers.errors import InvalidProblem
from solvers.formats.json_text import MAX_DEPTH

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 2**20
"""Of a file: a cluster by its nodes is a page at most."""
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def parse_yaml(data: bytes | str, where: str) -> object:
    """The value of a YAML text. Raises InvalidProblem with one line that names ``where``.

    Anchors, tags, several documents, keys that are no text or are there twice, and anything beyond MAX_BYTES or
    MAX_DEPTH levels are refused: a few lines of aliases can stand for gigabytes.
    """
    if len(data) > MAX_BYTES:
        raise InvalidProblem(f"{where}: {len(data):,} bytes of YAML, at most {MAX_BYTES:,} are read")
    try:
        import yaml
    except ImportError:
        raise InvalidProblem(
            f"{where}: YAML is read with PyYAML: pip install 'placement-explorer[yaml]', or write the same as JSON"
        ) from None
    try:
        depth = 0
        for event in yaml.parse(data, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = event.start_mark.line + 1
            if depth > MAX_DEPTH:
                raise InvalidProblem(f"{where}: line {line}: YAML nested deeper than {MAX_DEPTH} levels")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise InvalidProblem(f"{where}: line {line}: anchors and aliases are not read; write it out")
            if getattr(event, "tag", None) not in (None, "!"):
                raise InvalidProblem(f"{where}: line {line}: tags are not read; leave {event.tag[:40]!r} out")
        node = yaml.compose(data, Loader=yaml.SafeLoader)
        return None if node is None else _value(node, where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidProblem(f"{where}: {place}not YAML: {' '.join(problem.split())[:200]}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidProblem(f"{where}: not YAML: {' '.join(str(error).split())[:200]}") from None


def _value(node: yaml.Node, where: str) -> object:
    """As JSON has values: a plain scalar that is none of its numbers and words is a text ("12e9 B", "2026-01-01")."""
    if isinstance(node.value, str):
        if node.style is not None:  # quoted
            return node.value
        if node.value in _WORDS:
            return _WORDS[node.value]
        if _INTEGER.fullmatch(node.value):
            return int(node.value)
        return float(node.value) if _NUMBER.fullmatch(node.value) else node.value
    if not node.value or not isinstance(node.value[0], tuple):
        return {} if node.tag.endswith(":map") else [_value(item, where) for item in node.value]
    found: dict[str, object] = {}
    for key, item in node.value:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(name, str):
            raise InvalidProblem(f"{where}: line {line}: a key must be a text")
        if name in found:
            raise InvalidProblem(f"{where}: line {line}: {name[:80]!r} is there twice; keep one")
        found[name] = _value(item, where)
    return found
