"""Measured kernels as tables of CSV have them, with the ideal seconds that the data sheet gives each."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.efficiency import SHARES, WorkClass
from explorer.costs.roofline import CAUSAL_SHARE, in_waves, product_seconds
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Bools, Floats

MEASURED = {
    "a100": "A100-80GB",
    "h100": "H100-80GB",
    "h200": "H200-141GB",
    "b200": "B200-180GB",
    "l40s": "L40S-48GB",
}
"""How files name devices of the catalogue."""

DTYPE = "bf16"
BYTES = 2.0
"""Of a number of the kernels measured."""
NO_SHAPE = ("operator", "milliseconds")


@dataclass(frozen=True, slots=True)
class Kernels:
    """Measured kernels of one class on one device, [kernels].

    ideal_s: seconds at the rates of the data sheet.
    by_shares_s: seconds by the shares of `efficiency` alone.
    measured_s: seconds that they took.
    fitted: those that are fitted; the others are held out: every second shape by size, so every fit divides alike.
    sequence, width: tokens and width of a head, of attention; 1 elsewhere.
    """

    device: str
    work: WorkClass
    ideal_s: Floats
    by_shares_s: Floats
    measured_s: Floats
    fitted: Bools
    sequence: Floats
    width: Floats


def read_kernels(folder: Path) -> Iterator[Kernels]:
    """All kernels of a folder: ``gemm_NAME.csv.gz`` (m, n, k, milliseconds), ``attention_NAME.csv.gz`` (batch,
    sequence, heads, kv_heads, head_dim, milliseconds) and ``layer_operators_NAME.csv.gz``, NAME one of `MEASURED`.

    Raises InvalidProblem for a folder without any, or a table without a column that is needed.
    """
    files = 0
    for name, kind in MEASURED.items():
        device = DEVICES[kind]
        for stem, read in (("gemm", _products), ("attention", _attention), ("layer_operators", _layer_operators)):
            path = folder / f"{stem}_{name}.csv.gz"
            if path.is_file():
                files += 1
                yield from _read(path, device, read)
    if not files:
        raise InvalidProblem(f"{folder}: no measured kernels (gemm_h100.csv.gz, ...) are in this folder")


def _read(
    path: Path, device: DeviceKind, read: Callable[[DeviceKind, list[dict[str, str]]], Iterator[Kernels]]
) -> list[Kernels]:
    rows = rows_of(path)
    try:
        return list(read(device, rows))
    except (KeyError, ValueError) as error:
        raise InvalidProblem(f"{path}: {error}: expected the columns that --help names") from None


def rows_of(path: Path, columns: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """The rows of a gzipped CSV. Raises InvalidProblem for what is none, or lacks one of ``columns``."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidProblem(f"{path}: cannot be read as gzipped CSV: {error}") from None
    if rows and (missing := [column for column in columns if column not in rows[0]]):
        raise InvalidProblem(f"{path}: {missing[0]!r}: expected the columns that --help names")
    return rows


def _products(device: DeviceKind, rows: list[dict[str, str]]) -> Iterator[Kernels]:
    m, n, k = (_numbers(rows, column) for column in ("m", "n", "k"))
    moved = BYTES * (m * k + k * n + m * n)
    shares = SHARES[WorkClass.PRODUCTS], SHARES[WorkClass.MEMORY]
    ideal, by_shares = (product_seconds(device, DTYPE, m, n, k, moved, of) for of in ((1.0, 1.0), shares))
    yield _kernels(device, WorkClass.PRODUCTS, rows, ideal, by_shares)


def _attention(device: DeviceKind, rows: list[dict[str, str]]) -> Iterator[Kernels]:
    names = ("batch", "sequence", "heads", "kv_heads", "head_dim")
    batch, sequence, heads, kv_heads, width = (_numbers(rows, column) for column in names)
    flops = CAUSAL_SHARE * 4.0 * batch * heads * sequence**2 * width
    moved = BYTES * 2.0 * batch * sequence * width * (heads + kv_heads)
    arithmetic, memory = flops / device.peak_flops_per_s[DTYPE], moved / device.memory_bytes_per_s
    waves = in_waves(device, batch * heads, sequence)
    by_shares = np.maximum(arithmetic * waves / SHARES[WorkClass.ATTENTION], memory / SHARES[WorkClass.MEMORY])
    yield _kernels(device, WorkClass.ATTENTION, rows, np.maximum(arithmetic, memory), by_shares, sequence, width)


LAYER_OPERATORS = {
    "add": (WorkClass.ELEMENTWISE, 3),
    "input_layernorm": (WorkClass.NORM, 2),
    "post_attention_layernorm": (WorkClass.NORM, 2),
    "emb": (WorkClass.EMBEDDING, 2),
}
"""Operators of a layer whose kernels are those of single operators of a graph: class, and how often they go through
[tokens, hidden]. The others are left out: products are measured apart, and fused kernels (rotation, gated activation)
are none of an operator's."""


def _layer_operators(device: DeviceKind, rows: list[dict[str, str]]) -> Iterator[Kernels]:
    for work in (WorkClass.ELEMENTWISE, WorkClass.NORM, WorkClass.EMBEDDING):
        named = {name: passes for name, (each, passes) in LAYER_OPERATORS.items() if each is work}
        # The same kernel is there again for every model of that width and every degree of tensor parallelism.
        of = [
            {column: row[column] for column in ("operator", "tokens", "hidden", "milliseconds")}
            for row in rows
            if row["operator"] in named
        ]
        passes = np.array([float(named[row["operator"]]) for row in of])
        moved = BYTES * passes * _numbers(of, "tokens") * _numbers(of, "hidden")
        ideal = moved / device.memory_bytes_per_s
        yield _kernels(device, work, of, ideal, ideal / SHARES[work])


def _kernels(
    device: DeviceKind,
    work: WorkClass,
    rows: list[dict[str, str]],
    ideal_s: Floats,
    by_shares_s: Floats,
    sequence: Floats | None = None,
    width: Floats | None = None,
) -> Kernels:
    """Without those whose time was not measured (0)."""
    measured_s = _numbers(rows, "milliseconds") * 1e-3
    shapes = [tuple(value for column, value in row.items() if column not in NO_SHAPE) for row in rows]
    by_size = sorted(set(zip(ideal_s.tolist(), shapes, strict=True)))
    rank = {shape: position for position, (_, shape) in enumerate(by_size)}
    fitted = np.array([rank[shape] % 2 == 0 for shape in shapes], dtype=np.bool_)
    ones = np.ones(len(rows))
    of_sequence, of_width = ones if sequence is None else sequence, ones if width is None else width
    timed = measured_s > 0
    return Kernels(
        device.name,
        work,
        ideal_s[timed],
        np.maximum(by_shares_s, device.launch_s)[timed],
        measured_s[timed],
        fitted[timed],
        of_sequence[timed],
        of_width[timed],
    )


def _numbers(rows: list[dict[str, str]], column: str) -> Floats:
    return np.array([float(row[column]) for row in rows])
