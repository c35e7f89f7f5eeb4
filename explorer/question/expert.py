"""A placement made by hand, read from a file for the planner ``expert``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.question.loading import read_file
from explorer.question.names import resolve_pins
from solvers.errors import InvalidProblem
from solvers.formats.json_text import parse_json
from solvers.formats.msr2020 import looks_like_msr2020, read_expert
from solvers.formats.workload import Workload
from solvers.planners.expert import Expert
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph
from solvers.problem.groups import together

MAX_NAMES = 200_000
MISSING_SHOWN = 5
"""Names in the message about operators without a device."""


def load_expert(path: str, workload: Workload, cluster: Cluster | None = None) -> Expert:
    """The planner that judges the placement in the file ``path``.

    The file is JSON: {"operator or module": device index}, where what is not named takes the device
    of what it must share one with; or, for a workload of MSR 2020, theirs: {"cpus": [{"nodes":
    [ids]}], "fpgas": [...]}. cluster: the devices to plan for (None: the workload's own). Raises
    InvalidProblem in one line.
    """
    value = parse_json(read_file(path), path)
    if not isinstance(value, dict):
        raise InvalidProblem(f'{path}: expected a JSON object {{"operator or module": device}}, found a {_kind(value)}')
    devices = cluster or workload.cluster
    if {"cpus", "fpgas"} <= value.keys():
        nodes = _msr2020(workload.reference)
        if nodes is None or devices is None:
            raise InvalidProblem(
                f"{path}: lists ids of an MSR 2020 workload, and {workload.reference} is none; give"
                ' {"operator or module": device}'
            )
        placement = read_expert(value, nodes, replace(workload, cluster=devices), path)
        return Expert(tuple(device for (device,) in placement))
    return Expert(_by_name(value, workload.graph, path))


def _msr2020(path: str) -> Mapping[str, object] | None:
    """The parsed workload file, for its ids; None if it is of another kind."""
    try:
        value = parse_json(read_file(path), path)
    except InvalidProblem:
        return None
    return value if isinstance(value, dict) and looks_like_msr2020(value) else None


def _by_name(value: Mapping[str, object], graph: OpGraph, path: str) -> tuple[int, ...]:
    if len(value) > MAX_NAMES:
        raise InvalidProblem(f"{path}: {len(value):,} names, at most {MAX_NAMES:,} are read")
    named: dict[str, int] = {}
    for name, device in value.items():
        if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < MAX_NAMES:
            raise InvalidProblem(f"{path}: {name[:80]!r}: expected the index of a device, found {str(device)[:40]!r}")
        named[name] = device
    try:
        devices = resolve_pins(graph, named)
    except InvalidProblem as error:
        raise InvalidProblem(f"{path}: {error}") from None
    placement = [devices.get(operator, -1) for operator in range(len(graph))]
    missing: list[str] = []
    for group in together(graph):
        taken = next((placement[operator] for operator in group if placement[operator] >= 0), -1)
        if taken < 0:
            missing.append(graph.operators[group[0]].name)
        for operator in group:
            placement[operator] = placement[operator] if placement[operator] >= 0 else taken
    if missing:
        named_first = ", ".join(repr(name) for name in missing[:MISSING_SHOWN])
        more = f" and {len(missing) - MISSING_SHOWN:,} more" if len(missing) > MISSING_SHOWN else ""
        has = "operators have" if len(missing) > 1 else "operator has"
        raise InvalidProblem(
            f"{path}: {len(missing):,} {has} no device, nor has a module around them: {named_first}{more}"
            ' ("" stands for what is in no module)'
        )
    return tuple(placement)


def _kind(value: object) -> str:
    return type(value).__name__
