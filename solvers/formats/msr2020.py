"""The workload files of Tarnawski et al., NeurIPS 2020 (github.com/msr-fiddle/dnn-partitioning).

One JSON object: maxFPGAs, maxCPUs, maxSizePerFPGA, nodes (id, name, supportedOnFpga, cpuLatency,
fpgaLatency, isBackwardNode, size, optional colorClass) and edges (sourceId, destId, cost). Times are
milliseconds per sample, sizes bytes; an edge's cost is the time to move its source's output.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from solvers.errors import InvalidProblem
from solvers.formats.json_text import parse_json
from solvers.formats.workload import Workload
from solvers.problem.cluster import CPU_KIND, Cluster, Device, uniform_cluster
from solvers.problem.graph import BACKWARD_PHASES, Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Execution, Objective, Transfers

MAX_NODES = 200_000
MAX_EDGES = 2_000_000
MAX_DEVICES = 4_096
ACCELERATOR_KIND = "accelerator"
MS = 1e-3
"""Seconds in the file's unit of time."""

Record = Mapping[str, object]
_NODE_FIELDS = ("id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode")
_EDGE_FIELDS = ("sourceId", "destId", "cost")


def looks_like_msr2020(value: object) -> bool:
    """Whether a parsed JSON value has the fields that only these files have."""
    return isinstance(value, dict) and {"nodes", "edges", "maxFPGAs"} <= value.keys()


def read_msr2020(source: str | bytes | Record, reference: str) -> Workload:
    """The workload of a file's text or of its parsed JSON.

    reference: what to call it (a path); the graph is named after it. The output of an operator is
    one tensor, read by all targets of its edges; its time is kept in ``transfer_s`` and its bytes
    (edge ``size``, where given) are for people only. Raises InvalidProblem, naming what and where.
    """
    value = parse_json(source, reference) if isinstance(source, str | bytes) else source
    if not isinstance(value, Mapping):
        raise InvalidProblem(f"{reference}: expected a JSON object with nodes and edges, found {_kind(value)}")
    for name in ("nodes", "edges", "maxFPGAs", "maxCPUs", "maxSizePerFPGA"):
        if name not in value:
            raise InvalidProblem(f"{reference}: the field {name!r} is missing; is this a dnn-partitioning workload?")
    nodes = _records(value["nodes"], "nodes", MAX_NODES, reference)
    edges = _records(value["edges"], "edges", MAX_EDGES, reference)
    position = _positions(nodes, reference)
    operators = _operators(nodes, reference)
    tensors, transfer_s = _tensors(edges, position, operators, reference)
    where = [f"{reference}: nodes[{i}] ({_called(operator.name)})" for i, operator in enumerate(operators)]
    acc = [_number(node, "fpgaLatency", at) * MS for node, at in zip(nodes, where, strict=True)]
    cpu = [_number(node, "cpuLatency", at) * MS for node, at in zip(nodes, where, strict=True)]
    supported = [_flag(node, "supportedOnFpga", at) for node, at in zip(nodes, where, strict=True)]
    seconds = {
        ACCELERATOR_KIND: np.where(supported, acc, np.inf).reshape(-1, 1),
        CPU_KIND: np.array(cpu, np.float64).reshape(-1, 1),
    }
    return Workload(
        OpGraph(operators, tensors, 1, reference.rsplit("/", 1)[-1].removesuffix(".json") or "graph"),
        reference,
        ComputeTable((1,), seconds),
        transfer_s,
        tuple(_number(node, "size", at, 0.0) for node, at in zip(nodes, where, strict=True)),
        _cluster(value, reference),
        training=any(operator.phase in BACKWARD_PHASES for operator in operators),
        objective=Objective.MAX_LOAD,
        transfers=Transfers.BLOCKING,
        execution=Execution.CALL,
        costs_from="stated in the file",
    )


def read_expert(
    source: str | bytes | Record, nodes: Record, workload: Workload, reference: str = "expert placement"
) -> tuple[tuple[int, ...], ...]:
    """A hand-made placement, {"cpus": [{"nodes": [ids]}], "fpgas": [...]}: devices of every operator.

    nodes: the parsed workload file, for the ids. An operator that is not listed takes the device of
    its co-location group. Raises InvalidProblem if one has no device.
    """
    value = parse_json(source, reference) if isinstance(source, str | bytes) else source
    if not isinstance(value, Mapping) or not {"cpus", "fpgas"} <= value.keys():
        raise InvalidProblem(f"{reference}: expected an object with 'cpus' and 'fpgas'")
    position = _positions(_records(nodes.get("nodes"), "nodes", MAX_NODES, workload.reference), workload.reference)
    operators = workload.graph.operators
    cluster = workload.cluster
    assert cluster is not None, "a file of this format states its cluster"
    device_of: dict[int, int] = {}
    of_group: dict[str, int] = {}
    for kind, devices in (("fpgas", cluster.accelerators), ("cpus", cluster.cpus)):
        listed = _records(value[kind], kind, MAX_DEVICES, reference)
        if sum(bool(one.get("nodes")) for one in listed) > len(devices):
            raise InvalidProblem(f"{reference}: uses {len(listed)} {kind}, the workload has {len(devices)}")
        used = [one for one in listed if one.get("nodes")]
        for device, one in zip(devices, used, strict=False):
            ids = one["nodes"]
            if not isinstance(ids, list):
                raise InvalidProblem(f"{reference}: {kind}: 'nodes' must be a list of ids, found {_kind(ids)}")
            for node in ids:
                whole = isinstance(node, int) or (isinstance(node, float) and node.is_integer())
                if isinstance(node, bool) or not whole:
                    raise InvalidProblem(f"{reference}: {kind}: an id must be an integer, found {_kind(node)}")
                if node not in position:
                    raise InvalidProblem(f"{reference}: {kind}: there is no node with id {node!r} in the workload")
                device_of[position[node]] = device
                group = operators[position[node]].colocation
                if group is not None:
                    of_group.setdefault(group, device)
    placement = []
    for i, operator in enumerate(operators):
        device = device_of.get(i, of_group.get(operator.colocation or "", -1))
        if device < 0:
            raise InvalidProblem(f"{reference}: operator {operator.name!r} has no device, nor has its group")
        placement.append((device,))
    return tuple(placement)


def _records(value: object, what: str, most: int, reference: str) -> list[Record]:
    if not isinstance(value, list):
        raise InvalidProblem(f"{reference}: {what!r} must be a list, found {_kind(value)}")
    if len(value) > most:
        raise InvalidProblem(f"{reference}: {len(value):,} {what}, at most {most:,} are read")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            raise InvalidProblem(f"{reference}: {what}[{i}] must be an object, found {_kind(item)}")
    return value


def _positions(nodes: list[Record], reference: str) -> dict[int, int]:
    """Node id -> position."""
    position: dict[int, int] = {}
    for i, node in enumerate(nodes):
        _require(node, _NODE_FIELDS, f"{reference}: nodes[{i}]")
        name = _integer(node, "id", f"{reference}: nodes[{i}]")
        if name in position:
            raise InvalidProblem(f"{reference}: nodes[{position[name]}] and nodes[{i}] have the same id {name}")
        position[name] = i
    return position


def _operators(nodes: list[Record], reference: str) -> tuple[Operator, ...]:
    names = [str(node.get("name", f"node{node['id']}")) for node in nodes]
    times = Counter(names)
    operators = []
    for i, (node, name) in enumerate(zip(nodes, names, strict=True)):
        where = f"{reference}: nodes[{i}] ({_called(name)})"
        backward = _flag(node, "isBackwardNode", where)
        group = node.get("colorClass")
        if group is not None and (isinstance(group, bool) or not isinstance(group, int | str)):
            raise InvalidProblem(f"{where}: 'colorClass' must be an integer or a text, found {_kind(group)}")
        operators.append(
            Operator(
                name if times[name] == 1 else f"{name}#{node['id']}",
                phase=Phase.BACKWARD_INPUT if backward else Phase.FORWARD,
                colocation=None if group is None else str(group),
            )
        )
    return tuple(operators)


def _tensors(
    edges: list[Record], position: Mapping[int, int], operators: tuple[Operator, ...], reference: str
) -> tuple[tuple[Tensor, ...], tuple[float, ...]]:
    targets: dict[int, dict[int, None]] = {}
    cost_ms: dict[int, float] = {}
    nbytes: dict[int, float] = {}
    for i, edge in enumerate(edges):
        where = f"{reference}: edges[{i}]"
        _require(edge, _EDGE_FIELDS, where)
        ends = []
        for end in ("sourceId", "destId"):
            node = _integer(edge, end, where)
            if node not in position:
                raise InvalidProblem(f"{where}: {end} is {node}, but there is no node with that id")
            ends.append(position[node])
        source, target = ends
        cost = _number(edge, "cost", f"{where} (from {_called(operators[source].name)})")
        if cost_ms.setdefault(source, cost) != cost:
            raise InvalidProblem(
                f"{where}: operator {operators[source].name!r} has edges that cost {cost_ms[source]} and {cost} ms;"
                " all edges of one operator carry the same output and must cost the same"
            )
        if operators[source].phase is not Phase.FORWARD and operators[target].phase is Phase.FORWARD:
            raise InvalidProblem(
                f"{where}: backward operator {operators[source].name!r} feeds forward operator"
                f" {operators[target].name!r}; a backward operator may only feed backward ones"
            )
        targets.setdefault(source, {})[target] = None
        nbytes[source] = max(nbytes.get(source, 0.0), _number(edge, "size", where, 0.0))
    order = sorted(targets)
    tensors = tuple(Tensor(source, tuple(targets[source]), Amount(0.0, nbytes[source])) for source in order)
    return tensors, tuple(cost_ms[source] * MS for source in order)


def _cluster(value: Record, reference: str) -> Cluster:
    accelerators, cpus = (_integer(value, name, reference) for name in ("maxFPGAs", "maxCPUs"))
    for name, count in (("maxFPGAs", accelerators), ("maxCPUs", cpus)):
        if not 0 <= count <= MAX_DEVICES:
            raise InvalidProblem(f"{reference}: {name!r} must be from 0 to {MAX_DEVICES}, found {count}")
    memory = _number(value, "maxSizePerFPGA", reference)
    devices = [Device(f"GPU {i}", ACCELERATOR_KIND, memory) for i in range(accelerators)]
    devices += [Device(f"CPU {i}", CPU_KIND) for i in range(cpus)]
    # Transfers are stated per tensor, so the links only say that every pair is joined.
    return uniform_cluster(devices, math.inf)


def _require(record: Record, names: tuple[str, ...], where: str) -> None:
    for name in names:
        if name not in record:
            raise InvalidProblem(f"{where}: the field {name!r} is missing")


def _number(record: Record, name: str, where: str, default: float | None = None) -> float:
    value = record.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise InvalidProblem(f"{where}: {name!r} must be a finite number >= 0, found {_kind(value)}")
    return float(value)


def _integer(record: Record, name: str, where: str) -> int:
    value = record.get(name)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not isinstance(value, int | float) or not whole:
        raise InvalidProblem(f"{where}: {name!r} must be an integer, found {_kind(value)}")
    return int(value)


def _flag(record: Record, name: str, where: str) -> bool:
    value = record.get(name)
    if value not in (True, False, 0, 1):
        raise InvalidProblem(f"{where}: {name!r} must be true or false (or 1 or 0), found {_kind(value)}")
    return bool(value)


def _called(name: str) -> str:
    """A name as it fits into a line that is not about the name."""
    return " ".join(name[:80].split())


def _kind(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "null" if value is None else repr(value)[:60]
