"""A cluster and a table of compute times, to and from JSON values. null stands for infinity."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.formats.json_fields import MAX_INTEGER, Field
from solvers.formats.json_text import finite_or_none
from solvers.formats.number_runs import ONE_BY_ONE, read_runs, runs
from solvers.formats.records import nullable, reader_of, record_json
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.links import MAX_GROUPS, LinkClass, Tiers
from solvers.problem.problem import ComputeTable

MAX_DEVICES = 16_384
MAX_LINKS = 1_000_000
MAX_OPERATORS = 1_000_000
MAX_BATCH_SIZES = 64
MAX_KINDS = 256
MAX_SECONDS = 1e100
"""Of a time: what sums and products of longer ones give may be no number."""
ORIGINS = "mie"
"""Of the values of `Origin`: measured, interpolated, estimated."""


_read_device = reader_of(
    Device,
    memory_bytes=Field.number_or_infinity,
    flops_per_s=Field.number_or_infinity,
    memory_bytes_per_s=Field.number_or_infinity,
    concurrency=nullable(lambda field: field.integer(1, 1)),
    node=lambda field: field.integer(0, MAX_DEVICES),
)
read_link = reader_of(Link, bandwidth_bytes_per_s=Field.number_or_infinity)
_read_class = reader_of(LinkClass, bandwidth_bytes_per_s=Field.number_or_infinity)

BY_CLASS = 2
"""The version of a cluster whose devices and links are stated by class; one that names each has none."""
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})")


def cluster_json(cluster: Cluster) -> dict[str, object]:
    """The cluster as a JSON value; `read_cluster` returns an equal one. Many devices and links are listed by class."""
    if isinstance(cluster.links, Tiers) and len(cluster) > ONE_BY_ONE:
        return {"version": BY_CLASS, "devices": _device_runs(cluster.devices), "links": _tiers_json(cluster.links)}
    return {"devices": [_device_json(device) for device in cluster.devices], "links": record_json(list(cluster.links))}


def _device_json(device: Device) -> dict[str, object]:
    """Without ``members`` where groups do not differ in it, as files were before they could."""
    written = record_json(device)
    return {name: value for name, value in written.items() if name != "members" or value}


def _device_runs(devices: Sequence[Device]) -> list[dict[str, object]]:
    """Devices that differ in nothing but node and the number at the end of the name, counted on, as one."""
    written: list[dict[str, object]] = []
    nodes: list[list[int]] = []
    before: Device | None = None
    for device in devices:
        if before is not None and _follows(before, device):
            nodes[-1].append(device.node)
        else:
            written.append(_device_json(device))
            nodes.append([device.node])
        before = device
    counted = zip(written, nodes, strict=True)
    return [one if len(on) == 1 else one | {"count": len(on), "node": runs(on)} for one, on in counted]


def _follows(before: Device, device: Device) -> bool:
    match = _NUMBERED.fullmatch(before.name)
    if match is None or device.name != f"{match[1]}{int(match[2]) + 1}":
        return False
    return replace(before, name=device.name, node=device.node) == device


def _tiers_json(tiers: Tiers) -> dict[str, object]:
    """Classes once, and of pairs of groups the position of their class."""
    classes = list(dict.fromkeys(of for row in (tiers.within, *tiers.between) for of in row if of is not None))
    number: dict[LinkClass | None, int | None] = {None: None} | {of: i for i, of in enumerate(classes)}
    return {
        "classes": record_json(classes),
        "numbers": runs(tiers.numbers),
        "nodes": runs(tiers.nodes),
        "groups": runs(tiers.groups),
        "within": [number[of] for of in tiers.within],
        "between": [[number[of] for of in row] for row in tiers.between],
    }


def read_cluster(field: Field) -> Cluster:
    """Raises InvalidProblem."""
    parts = field.fields(("devices",), ("links", "version"))
    if "version" in parts:
        parts["version"].integer(BY_CLASS, BY_CLASS)
        devices = _read_device_runs(parts["devices"])
        if "links" not in parts:
            field.refuse("links")
        tiers = _read_tiers(parts["links"])
        return field.located(lambda: Cluster(devices, tiers))
    devices = tuple(_read_device(item) for item in parts["devices"].items(MAX_DEVICES))
    links = tuple(read_link(item) for item in parts["links"].items(MAX_LINKS)) if "links" in parts else ()
    return field.located(lambda: Cluster(devices, links))


def _read_device_runs(field: Field) -> tuple[Device, ...]:
    devices: list[Device] = []
    for item in field.items(MAX_DEVICES):
        counted = dict(item.value) if isinstance(item.value, dict) else {}
        if "count" not in counted:
            devices.append(_read_device(item))
            continue
        count = Field(counted.pop("count"), item, "count").integer(1, MAX_DEVICES - len(devices))
        nodes = read_runs(Field(counted.pop("node", 0), item, "node"), count, MAX_DEVICES)
        first = _read_device(item._replace(value=counted))
        match = _NUMBERED.fullmatch(first.name)
        if match is None or len(nodes) != count:
            item.refuse(f"a name that ends in a number, and {count:,} nodes")
        devices += (replace(first, name=f"{match[1]}{int(match[2]) + i}", node=node) for i, node in enumerate(nodes))
    return tuple(devices)


def _read_tiers(field: Field) -> Tiers:
    parts = field.fields(("classes", "numbers", "nodes", "groups", "within", "between"))
    classes = [_read_class(item) for item in parts["classes"].items(MAX_LINKS)]

    def of(item: Field) -> LinkClass | None:
        return None if item.is_null else classes[item.integer(0, len(classes) - 1)]

    within = tuple(of(item) for item in parts["within"].items(MAX_GROUPS))
    rows = parts["between"].items(MAX_GROUPS, exactly=len(within))
    between = tuple(tuple(of(item) for item in row.items(MAX_GROUPS, exactly=len(within))) for row in rows)
    numbers, nodes, groups = (
        read_runs(parts[name], MAX_DEVICES, MAX_INTEGER) for name in ("numbers", "nodes", "groups")
    )
    return field.located(lambda: Tiers(numbers, nodes, groups, within, between))


def compute_json(compute: ComputeTable) -> dict[str, object]:
    """Seconds per kind and operator, a column per batch size; and of kinds whose times are of several origins, a
    letter for each of them, a text per operator (see `ORIGINS`)."""
    seconds = {
        kind: [[finite_or_none(float(value)) for value in row] for row in table]
        for kind, table in compute.seconds.items()
    }
    origins = {kind: ["".join(ORIGINS[value] for value in row) for row in t] for kind, t in compute.origins.items()}
    return {"samples": list(compute.samples), "seconds": seconds, **({"origins": origins} if origins else {})}


def read_compute(field: Field, operators: int) -> ComputeTable:
    """The table of a graph of ``operators``. Raises InvalidProblem."""
    parts = field.fields(("samples", "seconds"), ("origins",))
    samples = tuple(item.integer(1) for item in parts["samples"].items(MAX_BATCH_SIZES))
    seconds = {}
    for kind, rows in parts["seconds"].mapping(MAX_KINDS).items():
        table = np.full((operators, len(samples)), math.inf)
        for i, row in enumerate(rows.items(MAX_OPERATORS, exactly=operators)):
            for j, value in enumerate(row.items(MAX_BATCH_SIZES, exactly=len(samples))):
                table[i, j] = value.number_or_infinity()
                if MAX_SECONDS < table[i, j] < math.inf:
                    value.refuse(f"at most {MAX_SECONDS:g} s, or null")
        seconds[kind] = table
    origins = {}
    for kind, rows in (parts["origins"].mapping(MAX_KINDS) if "origins" in parts else {}).items():
        letters = [_letters(row, len(samples)) for row in rows.items(MAX_OPERATORS, exactly=operators)]
        origins[kind] = np.array(letters, dtype=np.uint8).reshape(operators, len(samples))
    return field.located(lambda: ComputeTable(samples, seconds, origins))


def _letters(field: Field, points: int) -> list[int]:
    text = field.text(MAX_BATCH_SIZES)
    if len(text) != points or set(text) - set(ORIGINS):
        field.refuse(f"{points} letters of {ORIGINS} (measured, interpolated, estimated)")
    return [ORIGINS.index(letter) for letter in text]
