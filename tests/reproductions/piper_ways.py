"""Piper's workloads with every way to run a layer: all degrees of tensor parallelism, and recomputation.

`formats.piper` reads the same files as a graph to place, at one way a layer.
"""

from __future__ import annotations

import numpy as np

from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import parse_json
from solvers.formats.piper import MAX_DEVICES, MAX_EDGES, MAX_NAME, MAX_NODES, MAX_WAYS, MS, PROFILED
from solvers.problem.graph import topological_order
from tests.reproductions.piper_model import PLAIN, RECOMPUTED, PiperModel

_FILE_FIELDS = ("nodes", "edges", "maxDevices", "maxMemoryPerDevice", "bandwidth", "mbsInBatch")
_WAY_FIELDS = ("id", "timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB", "syncTimeFw", "syncTimeBw")
MAX_DEGREES = 64


def read_piper_ways(source: str | bytes | object, reference: str) -> PiperModel:
    """The model of a file's text or of its parsed JSON; reference is what to call it (a path).

    A layer has one or two ways at a degree: the one whose id speaks of recomputation, or else the second,
    recomputes. Both must have the same parameterSize, syncTimeFw and syncTimeBw (all in bytes), since
    recomputation changes neither parameters nor what crosses an edge. Times are in seconds, or in
    milliseconds where layers are named as those of a PipeDream profile. Raises InvalidProblem with one line
    that names the place.
    """
    value = parse_json(source, reference) if isinstance(source, str | bytes) else source
    file = Field(value, f"{reference}:").fields_among_others(_FILE_FIELDS)
    nodes = [node.fields_among_others(("id", "TMPCs")) for node in file["nodes"].items(MAX_NODES)]
    position = {}
    for i, node in enumerate(nodes):
        number = node["id"].integer()
        if number in position:
            node["id"].refuse("an id that no other node has")
        position[number] = i
    edges = _edges(file["edges"], position)
    after: list[list[int]] = [[] for _ in nodes]
    for u, v in edges:
        after[u].append(v)
    order = topological_order(after)
    if len(order) < len(nodes):
        file["edges"].refuse("edges without a cycle")
    ranks = {node: rank for rank, node in enumerate(order)}
    ids = {number: ranks[i] for number, i in position.items()}
    crossing = {(ranks[u], ranks[v]): nbytes for (u, v), nbytes in edges.items()}
    return _model(file, [nodes[i] for i in order], ids, dict(sorted(crossing.items())))


def _edges(edges: Field, position: dict[int, int]) -> dict[tuple[int, int], float]:
    costs: dict[tuple[int, int], float] = {}
    for edge in edges.items(MAX_EDGES):
        parts = edge.fields_among_others(("sourceId", "destId", "communicationCost"))
        for end in ("sourceId", "destId"):
            if parts[end].integer() not in position:
                parts[end].refuse("the id of a node")
        key = (position[parts["sourceId"].integer()], position[parts["destId"].integer()])
        if key in costs:
            edge.refuse("one edge between two nodes")
        costs[key] = parts["communicationCost"].number()
    return costs


def _model(
    file: dict[str, Field],
    nodes: list[dict[str, Field]],
    ids: dict[int, int],
    crossing: dict[tuple[int, int], float],
) -> PiperModel:
    """nodes: in a topological order; ids: id in the file -> position there; crossing: bytes of every edge."""
    if not nodes:
        raise InvalidProblem(f"{file['nodes'].where}: it has no nodes; there is nothing to plan")
    ways = [_by_degree(node["TMPCs"]) for node in nodes]
    degrees = sorted({degree for of_node in ways for degree in of_node})
    shape, number = (len(degrees), len(nodes)), {edge: i for i, edge in enumerate(crossing)}
    able = np.zeros(shape, bool)
    time_s = np.full((*shape, 2), np.inf)
    per_flight, fixed, params = np.zeros((*shape, 2)), np.zeros((*shape, 2)), np.zeros(shape)
    gather, scatter = np.zeros((len(degrees), len(number))), np.zeros((len(degrees), len(number)))
    names = [node["name"].text(MAX_NAME) if "name" in node else f"layer{i}" for i, node in enumerate(nodes)]
    unit = MS if all(PROFILED.fullmatch(name) for name in names) else 1.0
    for layer, of_node in enumerate(ways):
        for degree, of_degree in of_node.items():
            t = degrees.index(degree)
            able[t, layer] = True
            for way, parts in of_degree.items():
                time_s[t, layer, way] = unit * parts["timePerSample"].number()
                per_flight[t, layer, way] = parts["memoryUsageA"].number()
                fixed[t, layer, way] = parts["memoryUsageB"].number()
            alike = [_shared(parts, layer, ids, number) for parts in of_degree.values()]
            if alike[0] != alike[-1]:
                nodes[layer]["TMPCs"].refuse(
                    f"the same parameterSize, syncTimeFw and syncTimeBw in every way of degree {degree}"
                )
            params[t, layer], reads, makes = alike[0]
            gather[t, list(reads)], scatter[t, list(makes)] = list(reads.values()), list(makes.values())
    return PiperModel(
        tuple(names),
        tuple(crossing),
        np.array(list(crossing.values()), np.float64),
        tuple(degrees),
        able,
        time_s,
        params,
        per_flight,
        fixed,
        gather,
        scatter,
        file["maxDevices"].integer(1, MAX_DEVICES),
        _positive(file["maxMemoryPerDevice"]),
        _positive(file["bandwidth"]),
        file["mbsInBatch"].integer(1),
    )


def _by_degree(field: Field) -> dict[int, dict[int, dict[str, Field]]]:
    """Degree of tensor parallelism -> way -> its fields."""
    by_degree: dict[int, dict[int, dict[str, Field]]] = {}
    for key, listed in field.mapping(MAX_DEGREES).items():
        if not key.isascii() or not key.isdigit() or not 1 <= int(key[:9]) <= MAX_DEVICES:
            listed.refuse(f"a degree of tensor parallelism from 1 to {MAX_DEVICES} as its key")
        ways = [way.fields_among_others(_WAY_FIELDS) for way in listed.items(MAX_WAYS)]
        if len(ways) > 2:
            listed.refuse("at most two ways: as it is and recomputed")
        again = ["recomp" in way["id"].text(MAX_NAME) for way in ways]
        if len(ways) == 2 and again[0] == again[1]:
            again = [False, True]
        if ways:
            by_degree[int(key)] = {RECOMPUTED if r else PLAIN: way for r, way in zip(again, ways, strict=True)}
    if not by_degree:
        field.refuse("at least one way to run the layer")
    return by_degree


def _shared(
    parts: dict[str, Field], layer: int, ids: dict[int, int], number: dict[tuple[int, int], int]
) -> tuple[float, dict[int, float], dict[int, float]]:
    """What all ways of a degree share: bytes of parameters, and more bytes of the edges it reads and makes."""
    tables: list[dict[int, float]] = []
    for side in ("syncTimeFw", "syncTimeBw"):
        more = {}
        for key, nbytes in parts[side].mapping(MAX_EDGES).items():
            other = ids.get(int(key[:18])) if key.isascii() and key.isdigit() else None
            edge = None if other is None else (other, layer) if side == "syncTimeFw" else (layer, other)
            if edge not in number:
                nbytes.refuse("the id of a neighbour as its key")
            more[number[edge]] = nbytes.number()
        tables.append(more)
    return parts["parameterSize"].number(), tables[0], tables[1]


def _positive(field: Field) -> float:
    value = field.number()
    if value == 0:
        field.refuse("more than 0")
    return value
