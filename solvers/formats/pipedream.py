"""PipeDream's profiles, graph.txt (Narayanan et al., SOSP 2019; github.com/msr-fiddle/pipedream).

A line a layer, ``node4 -- Conv2d(3, 64, ...) -- forward_compute_time=1.0, backward_compute_time=2.0,
activation_size=8.0, parameter_size=4.0``, at times with `` -- stage_id=0`` behind it, and an indented line
an edge, ``node4 -- node5``. Times are milliseconds for the profile's own mini-batch, sizes bytes;
several outputs have their sizes listed: ``[6.0; 1.0]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from solvers.errors import InvalidProblem
from solvers.formats.json_text import MAX_BYTES
from solvers.formats.mirrored import pass_times, training_graph
from solvers.formats.msr2020 import ACCELERATOR_KIND
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator
from solvers.problem.problem import ComputeTable

MAX_NODES = 200_000
MAX_EDGES = 2_000_000
MAX_LINE = 20_000
"""Characters. A description may hold a whole module; the longest published has 500."""
MS = 1e-3
"""Seconds in the file's unit of time."""
BYTES_PER_PARAMETER = 4
"""Profiles are of single precision."""
NOTES = (
    "times are those of the profile's own mini-batch, whose size the file does not state: one sample here is"
    " one such mini-batch",
    "saved activations and gradients are taken to be as large as the activations; the update has no time",
)

_HEAD = re.compile(rb"\s*node\w* -- ")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_LINE = "node1 -- Layer -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=4.0, parameter_size=0.0"


def looks_like_pipedream(head: bytes) -> bool:
    """Whether a file that begins so is a profile of PipeDream's."""
    return _HEAD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


@dataclass(frozen=True, slots=True)
class _Node:
    """A line: times in seconds, sizes in bytes, all for the profile's mini-batch."""

    name: str
    description: str
    forward_s: float
    backward_s: float
    activation_bytes: float
    parameter_bytes: float
    stage: str

    @property
    def op_type(self) -> str:
        """ "Conv2d(3, 64, kernel_size=(3, 3))" -> "Conv2d"."""
        match = _NAME.match(self.description.strip())
        return match[0].strip("_") or match[0] if match else "operator"


def read_pipedream(data: bytes | str, reference: str) -> Workload:
    """The workload of a profile's text; reference is what to call it (a path).

    Every node but the inputs ("Input0") becomes one forward and one backward operator. The file
    states no devices: its times hold for the accelerator it was profiled on. Raises InvalidProblem
    with one line that names the place.
    """
    nodes, edges = _parse(_text(data, reference), reference)
    layers = sorted((node for node in nodes.values() if not node.description.startswith("Input")), key=_number)
    if not layers:
        raise InvalidProblem(f"{reference}: it has no layers beside its inputs; there is nothing to place")
    if len(nodes) > 1 and not edges:
        raise InvalidProblem(f"{reference}: {len(nodes):,} nodes and no edge between them; the file is cut short")
    joined = {end for pair in edges for end in pair}
    alone = [name for name in nodes if name not in joined] if len(nodes) > 1 else []
    cut_short = (
        ()
        if not alone
        else (f"{len(alone):,} of {len(nodes):,} nodes have no edge ({alone[0]}, for one): the file may be cut short",)
    )
    position = {node.name: i for i, node in enumerate(layers)}
    readers: list[dict[int, float]] = [{} for _ in layers]
    for source, target in edges:
        if source in position and target in position:
            readers[position[source]][position[target]] = nodes[source].activation_bytes
    forward = [
        Operator(
            f"{node.op_type}_{node.name.removeprefix('node')}",
            node.op_type,
            module_path=node.stage,
            param_bytes=node.parameter_bytes,
            saved_bytes=Amount(0.0, node.activation_bytes),
        )
        for node in layers
    ]
    times = pass_times([node.forward_s for node in layers], [node.backward_s for node in layers])
    return Workload(
        training_graph(forward, readers, reference, ".txt"),
        reference,
        ComputeTable((1,), {ACCELERATOR_KIND: times}),
        costs_from="profiled by PipeDream, as stated in the file",
        parameters=round(sum(node.parameter_bytes for node in layers) / BYTES_PER_PARAMETER),
        notes=(*cut_short, *NOTES),
    )


def _text(data: bytes | str, reference: str) -> str:
    if len(data) > MAX_BYTES:
        raise InvalidProblem(f"{reference}: {len(data):,} bytes of text, at most {MAX_BYTES:,} are read")
    try:
        return data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{reference}: not UTF-8 text (byte {error.start})") from None


def _number(node: _Node) -> tuple[float, str]:
    """Nodes in the order of their numbers: the order in which the profile met them."""
    digits = node.name.removeprefix("node")
    return (float(digits) if digits.isdecimal() and len(digits) < 300 else math.inf), node.name


def _parse(text: str, reference: str) -> tuple[dict[str, _Node], list[tuple[str, str]]]:
    nodes: dict[str, _Node] = {}
    edges: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{reference}: line {number}"
        if len(line) > MAX_LINE:
            raise InvalidProblem(f"{where}: {len(line):,} characters, at most {MAX_LINE:,} are read")
        if line[0].isspace():
            ends = [part.strip() for part in line.split(" -- ")]
            if len(ends) != 2 or not all(ends):
                raise InvalidProblem(f"{where}: expected an edge, 'node1 -- node2', found {_shown(line)}")
            edges[ends[0], ends[1]] = where
        else:
            node = _node(line, where)
            if node.name in nodes:
                raise InvalidProblem(f"{where}: {node.name} was described before; every node has one line")
            nodes[node.name] = node
        if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
            raise InvalidProblem(f"{where}: at most {MAX_NODES:,} nodes and {MAX_EDGES:,} edges are read")
    for pair, where in edges.items():
        for end in pair:
            if end not in nodes:
                raise InvalidProblem(f"{where}: there is no line that describes {_shown(end)}")
    return nodes, list(edges)


def _node(line: str, where: str) -> _Node:
    name, separator, rest = line.partition(" -- ")
    description, marker, stated = rest.rpartition(f" -- {_FIELDS[0]}=")
    if not separator or not marker or not name.strip():
        raise InvalidProblem(f"{where}: expected {_LINE!r}, found {_shown(line)}")
    stated, _, stage = f"{_FIELDS[0]}={stated}".partition(" -- ")
    values = {}
    for part in stated.split(","):
        key, equals, value = part.partition("=")
        if not equals or key.strip() in values:
            raise InvalidProblem(
                f"{where}: expected {', '.join(f'{key}=...' for key in _FIELDS)}, found {_shown(stated)}"
            )
        values[key.strip()] = value.strip()
    for key in _FIELDS:
        if key not in values:
            raise InvalidProblem(f"{where}: {key!r} is missing; found {', '.join(map(_shown, values))}")
    forward, backward, activation, parameters = (_sum(values[key], key, where) for key in _FIELDS)
    return _Node(
        name.strip(), description.strip(), forward * MS, backward * MS, activation, parameters, _stage(stage, where)
    )


def _stage(text: str, where: str) -> str:
    if not text.strip():
        return ""
    key, _, number = text.strip().partition("=")
    if key != "stage_id" or not number.isdecimal() or len(number) > 9:
        raise InvalidProblem(f"{where}: expected 'stage_id=' and a number at the end, found {_shown(text)}")
    return f"stage{int(number)}"


def _sum(text: str, key: str, where: str) -> float:
    """A number, or the sum of a list: "8.0", "[6.0; 1.0]"."""
    several = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else [text]
    total = math.fsum(_positive(item, key, where) for item in several)
    if not math.isfinite(total):
        raise InvalidProblem(f"{where}: {key!r} must be a finite number >= 0, found {_shown(text)}")
    return total


def _positive(text: str, key: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e300:
        raise InvalidProblem(f"{where}: {key!r} must be a finite number >= 0, found {_shown(text)}")
    return value


def _shown(text: str | Sequence[str]) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."
