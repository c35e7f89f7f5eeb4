"""A cluster from the user's file, by its nodes or by all its devices and links, or by its name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from explorer.costs.devices import DEVICES
from explorer.question.loading import read_file
from explorer.question.nodes.described import is_described, read_described
from explorer.question.nodes.presets import preset_cluster, suggestion
from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import read_cluster
from solvers.formats.json_fields import Field
from solvers.formats.json_text import MAX_DEPTH, parse_json
from solvers.problem.cluster import Cluster

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 2**20
"""Of a file: a cluster by its nodes is a page at most."""
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def load_cluster(name: str) -> Cluster:
    """The cluster of a file as `parse_cluster` reads it, or one of `explorer.question.nodes.presets` where there is no
    such file. Raises InvalidProblem, in one line."""
    if not os.path.exists(name):
        preset = preset_cluster(name)
        if preset is not None:
            return preset
        if "." not in name and os.sep not in name:
            raise InvalidProblem(f"--cluster {name[:80]}: neither a file nor a cluster's name{suggestion(name)}")
    return parse_cluster(read_file(name), name)


def parse_cluster(data: bytes | str, where: str) -> Cluster:
    """The cluster of a JSON or YAML text: by its nodes (`explorer.question.nodes.described`), or by {"devices":
    [{"name", "kind", "memory_bytes", "node"}], "links": [{"src", "dst", "bandwidth_bytes_per_s", "latency_s",
    "resource"}]}, see `solvers.formats.cluster_json`.

    A device needs a name and a kind; what else is not stated is as the catalogue has it for its kind (null is no
    limit). Devices without a link between them cannot send to each other; links that name one resource share it.
    Raises InvalidProblem that names the place in the file.
    """
    field = Field(_parse(data, where), f"{where}:")
    if is_described(field.value):
        return read_described(field)
    cluster = read_cluster(Field(_completed(field.value), field.where))
    seen: dict[str, int] = {}
    for position, device in enumerate(cluster.devices):
        if seen.setdefault(device.name, position) != position:
            raise InvalidProblem(
                f"{where}: devices[{position}].name: {device.name[:80]!r} is the name of devices[{seen[device.name]}],"
                " too; give each its own"
            )
        if device.concurrency is None and not device.is_cpu:
            raise InvalidProblem(
                f"{where}: devices[{position}].concurrency: only a CPU runs any number of operators at once; leave it"
                " out, or give 1"
            )
    return cluster


def _parse(data: bytes | str, where: str) -> object:
    """YAML if it is called so or does not begin as JSON does."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    begin = text[:1000].lstrip("\ufeff \t\r\n")[:1]
    if (begin not in ("{", "[", "") and not where.endswith(".json")) or where.endswith((".yaml", ".yml")):
        value = parse_yaml(data, where)
        if not isinstance(value, dict) or not ({"nodes", "devices"} & value.keys()):
            raise InvalidProblem(f"{where}: no cluster: expected an object with nodes, or with devices and links")
        return value
    return parse_json(data, where)


def _completed(value: object) -> object:
    """The same with what the catalogue knows of a device filled in where the file does not say."""
    if not isinstance(value, dict) or not isinstance(value.get("devices"), list):
        return value
    return {**value, "devices": [_known(device) for device in value["devices"]]}


def _known(device: object) -> object:
    kind = device.get("kind") if isinstance(device, dict) else None
    if not isinstance(device, dict) or not isinstance(kind, str) or kind not in DEVICES:
        return device
    spec = DEVICES[kind]
    stated = {
        "memory_bytes": spec.memory_bytes,
        "flops_per_s": max(spec.peak_flops_per_s.values()),
        "memory_bytes_per_s": spec.memory_bytes_per_s,
    }
    return {**stated, **device}


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
    entries: dict[str, object] = {}
    for key, item in node.value:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(name, str):
            raise InvalidProblem(f"{where}: line {line}: a key must be a text")
        if name in entries:
            raise InvalidProblem(f"{where}: line {line}: {name[:80]!r} is there twice; keep one")
        entries[name] = _value(item, where)
    return entries
