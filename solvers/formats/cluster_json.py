"""A cluster and a table of compute times, to and from JSON values. null stands for infinity."""

from __future__ import annotations

import math

import numpy as np

from solvers.formats.json_fields import Field
from solvers.formats.json_text import finite_or_none
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.problem import ComputeTable

MAX_DEVICES = 4096
MAX_LINKS = 1_000_000
MAX_OPERATORS = 1_000_000
MAX_BATCH_SIZES = 64
MAX_KINDS = 256
MAX_SECONDS = 1e100
"""Of a time: what sums and products of longer ones give may be no number."""
ORIGINS = "mie"
"""Of the values of `Origin`: measured, interpolated, estimated."""


def cluster_json(cluster: Cluster) -> dict[str, object]:
    """The cluster as a JSON value; `read_cluster` gives an equal one back."""
    devices = [
        {
            "name": device.name,
            "kind": device.kind,
            "memory_bytes": finite_or_none(device.memory_bytes),
            "flops_per_s": finite_or_none(device.flops_per_s),
            "memory_bytes_per_s": finite_or_none(device.memory_bytes_per_s),
            "concurrency": device.concurrency,
            "node": device.node,
        }
        for device in cluster.devices
    ]
    links = [
        {
            "src": link.src,
            "dst": link.dst,
            "bandwidth_bytes_per_s": finite_or_none(link.bandwidth_bytes_per_s),
            "latency_s": link.latency_s,
            "resource": link.resource,
        }
        for link in cluster.links
    ]
    return {"devices": devices, "links": links}


def read_cluster(field: Field) -> Cluster:
    """Raises InvalidProblem."""
    parts = field.fields(("devices",), ("links",))
    devices = tuple(_read_device(item) for item in parts["devices"].items(MAX_DEVICES))
    links = tuple(_read_link(item) for item in parts["links"].items(MAX_LINKS)) if "links" in parts else ()
    return field.located(lambda: Cluster(devices, links))


def _read_device(field: Field) -> Device:
    parts = field.fields(("name", "kind"), ("memory_bytes", "flops_per_s", "memory_bytes_per_s", "concurrency", "node"))
    unlimited = Field(None, field.where)
    concurrency = parts.get("concurrency")
    return Device(
        parts["name"].text(),
        parts["kind"].text(),
        parts.get("memory_bytes", unlimited).number_or_infinity(),
        parts.get("flops_per_s", unlimited).number_or_infinity(),
        parts.get("memory_bytes_per_s", unlimited).number_or_infinity(),
        1 if concurrency is None else None if concurrency.is_null else concurrency.integer(1, 1),
        parts["node"].integer(0, MAX_DEVICES) if "node" in parts else 0,
    )


def _read_link(field: Field) -> Link:
    parts = field.fields(("src", "dst", "bandwidth_bytes_per_s"), ("latency_s", "resource"))
    return Link(
        parts["src"].integer(),
        parts["dst"].integer(),
        parts["bandwidth_bytes_per_s"].number_or_infinity(),
        parts["latency_s"].number() if "latency_s" in parts else 0.0,
        parts["resource"].text() if "resource" in parts else "",
    )


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
