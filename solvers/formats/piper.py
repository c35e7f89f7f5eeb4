"""Piper's workloads (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021; github.com/msr-fiddle/piper).

One JSON object: maxDevices, maxMemoryPerDevice (bytes), bandwidth (bytes per second), nodes (id,
optional name, TMPCs: degree of tensor parallelism -> ways to run it, each with id, timePerSample,
parameterSize, memoryUsageA, memoryUsageB) and edges (sourceId, destId, communicationCost in bytes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import parse_json
from solvers.formats.mirrored import pass_times, training_graph
from solvers.formats.msr2020 import ACCELERATOR_KIND
from solvers.formats.pipedream import BYTES_PER_PARAMETER
from solvers.formats.workload import Workload
from solvers.problem.cluster import Cluster, Device, uniform_cluster
from solvers.problem.graph import Amount, Operator
from solvers.problem.problem import ComputeTable, Objective, Transfers

MAX_NODES = 200_000
MAX_EDGES = 2_000_000
MAX_DEVICES = 1_024
"""Every pair has a link."""
MAX_WAYS = 1_000
MAX_NAME = 200
FORWARD_SHARE = 1 / 3
"""Of a layer's time: a backward has two products for every one of the forward."""
MS = 1e-3
PROFILED = re.compile(r"node\d+")
"""Names in the files that were made of PipeDream profiles, whose times stayed in milliseconds."""

_FILE_FIELDS = ("nodes", "edges", "maxDevices", "maxMemoryPerDevice", "bandwidth")
_WAY_FIELDS = ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")


def looks_like_piper(value: object) -> bool:
    """Whether a parsed JSON value has the fields that only these files have."""
    return isinstance(value, dict) and {"nodes", "edges", "maxDevices"} <= value.keys()


@dataclass(frozen=True, slots=True)
class _Layer:
    """Time is for forward and backward, in the file's unit; sizes in bytes. degree: of the way read."""

    number: int
    name: str
    time: float
    param_bytes: float
    per_flight_bytes: float
    static_bytes: float
    degree: str
    way: str
    where: str


def read_piper(source: str | bytes | object, reference: str) -> Workload:
    """The workload of a file's text or of its parsed JSON; reference is what to call it (a path).

    Of the ways to run a layer the first is read, of degree "1" where there is one: other degrees
    and recomputation are left out. The parameters and the bytes per micro-batch in flight are
    Piper's w and a; its b is 2 w, which is what the optimizer "sgd" holds. Raises InvalidProblem
    with one line that names the place.
    """
    value = parse_json(source, reference) if isinstance(source, str | bytes) else source
    file = Field(value, f"{reference}:").fields_among_others(_FILE_FIELDS)
    layers = [_layer(node) for node in file["nodes"].items(MAX_NODES)]
    if not layers:
        raise InvalidProblem(f"{reference}: it has no nodes; there is nothing to place")
    readers = _readers(file["edges"], _positions(layers))
    unit, notes = _unit(layers)
    ahead = [layer.time * unit * FORWARD_SHARE for layer in layers]
    back = [layer.time * unit * (1 - FORWARD_SHARE) for layer in layers]
    return Workload(
        training_graph(_operators(layers), readers, reference, ".json"),
        reference,
        ComputeTable((1,), {ACCELERATOR_KIND: pass_times(ahead, back)}),
        cluster=_cluster(file),
        objective=Objective.MAX_LOAD,
        transfers=Transfers.BLOCKING,
        costs_from="stated in the file",
        parameters=round(sum(layer.param_bytes for layer in layers) / BYTES_PER_PARAMETER),
        notes=(*notes, *_notes(layers)),
    )


def _unit(layers: list[_Layer]) -> tuple[float, list[str]]:
    """Seconds in the file's unit of time, and how that is known."""
    if all(PROFILED.fullmatch(layer.name) for layer in layers):
        return MS, [
            "the file does not state its unit of time: read as milliseconds, since its layers are named as those of"
            " a PipeDream profile; one sample here is one mini-batch of that profile"
        ]
    return 1.0, ["the file does not state its unit of time: read as seconds"]


def _notes(layers: list[_Layer]) -> list[str]:
    notes = ["the file states forward and backward together: a third of the time is taken to be the forward"]
    degrees = sorted({layer.degree for layer in layers})
    if degrees != ["1"]:
        notes.append(f"layers without tensor parallelism of degree 1 are read at degree {', '.join(degrees)}")
    ways = ", ".join(sorted({layer.way for layer in layers})[:3])
    notes.append(
        f"of the ways to run a layer the first is read ({ways}); tensor parallelism and recomputation are left out"
    )
    if any(abs(layer.static_bytes - 2 * layer.param_bytes) > 0.01 * layer.static_bytes for layer in layers):
        notes.append("memoryUsageB is not read: parameters are held as often as the optimizer asks")
    else:
        notes.append("the memory of Piper's own experiments is that of --optimizer sgd (memoryUsageB = 2 x parameters)")
    return notes


def _operators(layers: list[_Layer]) -> list[Operator]:
    times = Counter(layer.name for layer in layers)
    return [
        Operator(
            layer.name if times[layer.name] == 1 else f"{layer.name}_{layer.number}",
            "layer" if PROFILED.fullmatch(layer.name) else layer.name.split("(")[0].strip() or "layer",
            param_bytes=layer.param_bytes,
            saved_bytes=Amount(0.0, layer.per_flight_bytes),
        )
        for layer in layers
    ]


def _positions(layers: list[_Layer]) -> dict[int, int]:
    position: dict[int, int] = {}
    for i, layer in enumerate(layers):
        if layer.number in position:
            raise InvalidProblem(f"{layer.where}: has the same id {layer.number} as nodes[{position[layer.number]}]")
        position[layer.number] = i
    return position


def _layer(node: Field) -> _Layer:
    parts = node.fields_among_others(("id", "TMPCs"))
    number = parts["id"].integer()
    name = parts["name"].text(MAX_NAME) if "name" in parts else f"layer{number}"
    degrees = parts["TMPCs"].mapping(MAX_WAYS)
    if not degrees:
        parts["TMPCs"].refuse("at least one degree of tensor parallelism")
    degree = "1" if "1" in degrees else next(iter(degrees))
    ways = list(degrees[degree].items(MAX_WAYS))
    if not ways:
        degrees[degree].refuse("at least one way to run the layer")
    way = ways[0].fields_among_others(_WAY_FIELDS)
    time, param_bytes, per_flight_bytes, static_bytes = (way[key].number() for key in _WAY_FIELDS)
    called = way["id"].text(MAX_NAME) if "id" in way else "unnamed"
    return _Layer(number, name, time, param_bytes, per_flight_bytes, static_bytes, degree[:20], called, node.where)


def _readers(edges: Field, position: Mapping[int, int]) -> list[dict[int, float]]:
    readers: list[dict[int, float]] = [{} for _ in position]
    for edge in edges.items(MAX_EDGES):
        parts = edge.fields_among_others(("sourceId", "destId", "communicationCost"))
        ends = []
        for end in ("sourceId", "destId"):
            number = parts[end].integer()
            if number not in position:
                parts[end].refuse("the id of a node")
            ends.append(position[number])
        source, target = ends
        readers[source][target] = readers[source].get(target, 0.0) + parts["communicationCost"].number()
    return readers


def _cluster(file: Mapping[str, Field]) -> Cluster:
    memory, bandwidth = (file[name].number() for name in ("maxMemoryPerDevice", "bandwidth"))
    for name, value in (("maxMemoryPerDevice", memory), ("bandwidth", bandwidth)):
        if value == 0:
            file[name].refuse("more than 0")
    count = file["maxDevices"].integer(1, MAX_DEVICES)
    return uniform_cluster([Device(f"GPU {i}", ACCELERATOR_KIND, memory) for i in range(count)], bandwidth)
