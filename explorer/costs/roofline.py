"""Compute times from a device's datasheet: a roofline with tile and wave quantisation. An estimate.

seconds = max(arithmetic, bytes / bandwidth), and never less than a launch. What makes a device less
efficient at small batches is quantisation, after NVIDIA's "Matrix Multiplication Background User's
Guide", section 3 (https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/):
a product is cut into tiles (a partial tile costs a whole one; a product narrower than the tile takes
narrower tiles where libraries have them), and tiles are computed in waves of one
tile per multiprocessor (a partial wave costs a whole one). Where there are fewer tiles than
multiprocessors, libraries cut the sum as well (split-K), which costs writing and reading partial sums.

What share of its peak a class of operators reaches is in `efficiency`, with sources, for all devices alike. Nothing is
fitted to any model or machine: measured costs are better wherever they can be had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.efficiency import SHARES, WorkClass
from explorer.costs.shapes import Shapes, Work, shapes
from explorer.costs.updates import over_traced
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import ComputeTable, Optimizer, Precision

SAMPLES = tuple(2**power for power in range(11))
"""Batch sizes of the table: 1 to 1024."""

ATTENTION_ROWS = 128
"""Queries of one head that one multiprocessor handles at a time (FlashAttention-2, section 3.3)."""

SPLITS = (1, 2, 4, 8, 16)
"""Numbers of pieces that the sum of a product may be cut into."""
LEAST_DEPTH = 512
"""No piece of a sum is shorter: below, filling and draining the pipeline shows (four steps of 128)."""
PARTIAL_SUM_BYTES = 8.0
"""Partial sums are fp32, written once and read once."""

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp32"}
"""Names of dtypes in a graph and in the catalogue."""


def dtype_of(graph: OpGraph) -> str:
    """The dtype most floating tensors of the graph have: "bf16", "fp16" or "fp32"."""
    return stated_dtype(graph) or "fp32"


def stated_dtype(graph: OpGraph) -> str | None:
    """The same, None for a graph that does not say (that of a workload file)."""
    found = Counter(DTYPES[tensor.dtype] for tensor in graph.tensors if tensor.dtype in DTYPES)
    return found.most_common(1)[0][0] if found else None


def label(kinds: Sequence[str], dtype: str) -> str:
    """For `Problem.costs_from`: "roofline estimate, H100-80GB, bf16"; a device that has no products in
    the dtype is named with the rate it is given."""
    rates = [DEVICES[kind].peak_flops_per_s for kind in kinds]
    lacking = [kind for kind, rate in zip(kinds, rates, strict=True) if dtype != "fp32" and rate[dtype] == rate["fp32"]]
    told = f" ({', '.join(lacking)}: no {dtype} products, at the fp32 rate)" if lacking else ""
    return f"roofline estimate, {', '.join(kinds)}, {dtype}{told}"


def estimate(
    graph: OpGraph,
    kinds: Sequence[str],
    dtype: str | None = None,
    optimizer: Optimizer = Optimizer.ADAM,
    precision: Precision = Precision.PURE,
) -> ComputeTable:
    """Seconds of every operator at 1 to 1024 samples on each of ``kinds`` (names of `DEVICES`).

    dtype picks the peak rate: "bf16", "fp16" or "fp32", by default that of the graph. Bytes are those
    of the graph as traced; an update, which is traced as Adam's, moves what a step of ``optimizer`` in ``precision``
    reads and writes (`updates`). In fp32, products run at the fp32 rate and convolutions at TF32's, which is
    what PyTorch does unless told otherwise. Raises InvalidProblem for an unknown kind or dtype.
    """
    for kind in kinds:
        if kind not in DEVICES:
            raise InvalidProblem(f"unknown device kind {kind!r}; the catalogue has: {', '.join(DEVICES)}")
    dtype = dtype_of(graph) if dtype is None else dtype
    if dtype not in DTYPES.values():
        raise InvalidProblem(f"unknown dtype {dtype!r}; expected bf16, fp16 or fp32")
    work = shapes(graph)
    samples = np.array(SAMPLES, dtype=np.float64)
    flops = _at(graph, "flops", samples)
    moved = _at(graph, "moved_bytes", samples) * over_traced(graph, optimizer, precision)[:, None]
    backward = np.array([operator.phase is not Phase.FORWARD for operator in graph.operators])
    growth = samples / graph.samples
    seconds = {kind: _seconds(DEVICES[kind], dtype, work, flops, moved, backward, growth) for kind in kinds}
    return ComputeTable(SAMPLES, seconds)


def _at(graph: OpGraph, what: str, samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape [operators, points]."""
    amounts = [getattr(operator, what) for operator in graph.operators]
    fixed = np.array([amount.fixed for amount in amounts])
    per_sample = np.array([amount.per_sample for amount in amounts])
    return fixed[:, None] + per_sample[:, None] * samples


def _seconds(
    device: DeviceKind,
    dtype: str,
    work: Shapes,
    flops: NDArray[np.float64],
    moved: NDArray[np.float64],
    backward: NDArray[np.bool_],
    growth: NDArray[np.float64],
) -> NDArray[np.float64]:
    """flops and moved are [operators, points], growth [points] = samples over the traced samples."""
    bandwidth = device.memory_bytes_per_s * SHARES[WorkClass.MEMORY]
    arithmetic = flops / device.peak_flops_per_s["fp32"]
    extra = np.zeros_like(flops)
    for kind, of in ((Work.PRODUCT, WorkClass.PRODUCTS), (Work.CONVOLUTION, WorkClass.CONVOLUTIONS)):
        rate = "tf32" if kind is Work.CONVOLUTION and dtype == "fp32" else dtype
        at = np.flatnonzero(work.work == kind)
        if at.size:
            peak = device.peak_flops_per_s[rate] * SHARES[of]
            arithmetic[at], extra[at] = _products(device, peak, bandwidth, work, at, flops[at], moved[at], growth)
    at = np.flatnonzero(work.work == Work.ATTENTION)
    if at.size:
        shares = SHARES[WorkClass.ATTENTION_BACKWARD], SHARES[WorkClass.ATTENTION]
        share = np.where(backward[at], *shares)[:, None]
        blocks = work.count[at, None] * growth * np.ceil(work.rows[at] / ATTENTION_ROWS)[:, None]
        waves = np.ceil(blocks / device.multiprocessors)
        arithmetic[at] = flops[at] / (device.peak_flops_per_s[dtype] * share)
        arithmetic[at] *= waves * device.multiprocessors / blocks
    return np.maximum(np.maximum(arithmetic, moved / bandwidth + extra), device.launch_s)


def _products(
    device: DeviceKind,
    peak: float,
    bandwidth: float,
    work: Shapes,
    at: NDArray[np.int64],
    flops: NDArray[np.float64],
    moved: NDArray[np.float64],
    growth: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(arithmetic, extra seconds of memory) of the products at positions ``at``, each [operators, points]:
    those of the number of pieces that takes least time."""

    def grown(value: NDArray[np.float64], grows: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.where(grows[at, None], value[at, None] * growth, value[at, None])

    count = grown(work.count, work.count_grows)
    rows = grown(work.rows, work.rows_grow)
    depth = grown(work.depth, work.depth_grows)
    columns = work.columns[at, None]
    tile_rows, tile_columns = (
        _side(length, side, device.narrowest) for length, side in zip((rows, columns), device.tile, strict=True)
    )
    tiles = count * np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns)
    # More than one product (both gradients of a product of activations) takes as many times longer.
    times = flops / (2.0 * count * rows * columns * depth)
    tile_seconds = times * 2.0 * tile_rows * tile_columns * depth * device.multiprocessors / peak
    best = np.full_like(tiles, np.inf)
    arithmetic, extra = np.zeros_like(tiles), np.zeros_like(tiles)
    for pieces in SPLITS:
        busy = np.ceil(tiles * pieces / device.multiprocessors) / pieces * tile_seconds
        partial = 0.0 if pieces == 1 else pieces * PARTIAL_SUM_BYTES * times * count * rows * columns / bandwidth
        total = np.maximum(busy, moved / bandwidth + partial)
        better = (total < best) & ((depth >= pieces * LEAST_DEPTH) | (pieces == 1))
        best = np.where(better, total, best)
        arithmetic = np.where(better, busy, arithmetic)
        extra = np.where(better, partial, extra)
    return arithmetic, extra


def _side(length: NDArray[np.float64], side: int, narrowest: int) -> NDArray[np.float64]:
    """The side of the tile for each length: halved while it still covers the length and the library has it."""
    chosen = np.full_like(length, side)
    while side // 2 >= narrowest:
        side //= 2
        chosen = np.where(length <= side, side, chosen)
    return chosen
