"""Compute times from a device's data sheet and from kernels that others measured on it. An estimate.

Ideal seconds = max(arithmetic, bytes / bandwidth) at the rates of the data sheet; a kernel takes them times the
slowdown that kernels of its class and size were measured to have (`curves`), or where none were, over the share of
these rates that its class is assumed to reach (`efficiency`); and never less than a launch. What makes a device less
efficient at small batches is quantisation, after NVIDIA's "Matrix Multiplication Background User's Guide", section 3
(https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/):
a product is cut into tiles (a partial tile costs a whole one; a product narrower than the tile takes
narrower tiles where libraries have them), and tiles are computed in waves of one
tile per multiprocessor (a partial wave costs a whole one). Where there are fewer tiles than
multiprocessors, libraries cut the sum as well (split-K), which costs writing and reading partial sums.

Nothing is fitted to a model or an iteration: your own measured costs are better wherever they can be had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.costs.curves import AttentionCurve, Curve, curves
from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.efficiency import SHARES, WorkClass
from explorer.costs.shapes import Shapes, ring_rounds, shapes
from explorer.costs.stack import Kernels, Stack, kernels_of
from explorer.costs.updates import over_traced
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Optimizer, Precision

SAMPLES = tuple(2**power for power in range(11))
"""Batch sizes of the table: 1 to 1024."""

ATTENTION_ROWS = 128
"""Queries of one head that one multiprocessor handles at a time (FlashAttention-2, section 3.3)."""

CAUSAL_SHARE = 0.5
"""Of attention's arithmetic that is left where a causal mask hides the other half (FlashAttention-2, section 3.1)."""

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
    dtypes = Counter(DTYPES[tensor.dtype] for tensor in graph.tensors if tensor.dtype in DTYPES)
    return dtypes.most_common(1)[0][0] if dtypes else None


def label(kinds: Sequence[str], dtype: str, stack: Stack = Stack.TRACED) -> str:
    """For `Problem.costs_from`: "roofline estimate, H100-80GB, bf16, eager"; a device that has no products in
    the dtype is named with the rate it is given."""
    rates = [DEVICES[kind].peak_flops_per_s for kind in kinds]
    lacking = [kind for kind, rate in zip(kinds, rates, strict=True) if dtype != "fp32" and rate[dtype] == rate["fp32"]]
    fallback = f" ({', '.join(lacking)}: no {dtype} products, at the fp32 rate)" if lacking else ""
    runs = "" if stack is Stack.TRACED else f", {stack.value}"
    return f"roofline estimate, {', '.join(kinds)}, {dtype}{runs}{fallback}"


def runs_named(costs_from: str) -> bool:
    """Whether a label names a stack, which one of times as traced does not."""
    return any(f", {stack.value}" in costs_from for stack in Stack if stack is not Stack.TRACED)


def estimate(
    graph: OpGraph,
    kinds: Sequence[str],
    dtype: str | None = None,
    optimizer: Optimizer = Optimizer.ADAM,
    precision: Precision = Precision.PURE,
    stack: Stack = Stack.TRACED,
    *,
    accumulates: bool = True,
) -> ComputeTable:
    """Seconds of every operator at 1 to 1024 samples on each of ``kinds`` (names of `DEVICES`).

    dtype picks the peak rate: "bf16", "fp16" or "fp32", by default that of the graph. Bytes are those
    of the graph as traced; an update, which is traced as Adam's, moves what a step of ``optimizer`` in ``precision``
    reads and writes (`updates`). In fp32, products run at the fp32 rate and convolutions at TF32's, which is
    what PyTorch does by default. stack: what runs them (`kernels_of`, of which accumulates is a part).
    Raises InvalidProblem for an unknown kind or dtype.
    """
    for kind in kinds:
        if kind not in DEVICES:
            raise InvalidProblem(f"unknown device kind {kind!r}; the catalogue has: {', '.join(DEVICES)}")
    dtype = dtype_of(graph) if dtype is None else dtype
    if dtype not in DTYPES.values():
        raise InvalidProblem(f"unknown dtype {dtype!r}; expected bf16, fp16 or fp32")
    work = shapes(graph)
    samples = np.array(SAMPLES, dtype=np.float64)
    masked = np.array([CAUSAL_SHARE if operator.causal else 1.0 for operator in graph.operators])
    flops = _at(np.array([(o.flops.fixed, o.flops.per_sample) for o in graph.operators]), samples) * masked[:, None]
    kernels = kernels_of(graph, work, stack, precision, optimizer, accumulates=accumulates)
    moved = _at(kernels.own, samples) * over_traced(graph, optimizer, precision)[:, None]
    growth = samples / graph.samples
    seconds = {}
    rounds = ring_rounds(graph)[:, None]
    for kind in kinds:
        each = _seconds(DEVICES[kind], dtype, work, flops / rounds, moved / rounds, growth, kernels.own_launches)
        own = each * rounds
        seconds[kind] = own if stack is Stack.TRACED else own + _beside(DEVICES[kind], dtype, kernels, samples)
    return ComputeTable(SAMPLES, seconds)


def _at(amounts: Floats, samples: Floats) -> Floats:
    """Of amounts, [operators, 2]: fixed, and that of a sample; shape [operators, points]."""
    at: Floats = amounts[:, :1] + amounts[:, 1:] * samples
    return at


def _beside(device: DeviceKind, dtype: str, kernels: Kernels, samples: Floats) -> Floats:
    """Seconds of elementwise kernels beside each operator's own, [operators, points]."""
    launches = kernels.beside_launches[:, None]
    nbytes = _at(kernels.beside, samples) / np.maximum(launches, 1.0)
    each = _streamed(device, dtype, nbytes)
    curve = measured_curve(device, dtype, WorkClass.ELEMENTWISE)
    if isinstance(curve, Curve):
        each = np.where(launches > 0, curve.seconds(nbytes / device.memory_bytes_per_s), each)
    seconds: Floats = np.maximum(each * np.maximum(launches, 1.0), launches * device.launch_s)
    return np.where(nbytes > 0, seconds, 0.0)


def _streamed(device: DeviceKind, dtype: str, nbytes: Floats) -> Floats:
    """Seconds of bytes that a kernel goes through beside those that it was launched for."""
    curve = measured_curve(device, dtype, WorkClass.ELEMENTWISE)
    share = 1 / curve.slowdown[-1] if isinstance(curve, Curve) else SHARES[WorkClass.ELEMENTWISE]
    seconds: Floats = nbytes / (device.memory_bytes_per_s * share)
    return seconds


def measured_curve(device: DeviceKind, dtype: str, work: WorkClass) -> Curve | AttentionCurve | None:
    """The curve of a class on a device, or its kin's; None where no kernels of it were measured. Kernels with
    arithmetic were measured in 16 bit on tensor cores; those that memory bounds take their bytes in any dtype."""
    if work in (WorkClass.PRODUCTS, WorkClass.ATTENTION, WorkClass.ATTENTION_BACKWARD):
        rates = device.peak_flops_per_s
        if dtype == "fp32" or rates[dtype] == rates["fp32"]:
            return None
    return curves().of(device.name, WorkClass.ATTENTION if work is WorkClass.ATTENTION_BACKWARD else work)


def product_seconds(
    device: DeviceKind,
    dtype: str,
    rows: Floats,
    columns: Floats,
    depth: Floats,
    moved: Floats,
    shares: tuple[float, float],
) -> Floats:
    """Seconds of products of matrices at shares of the peak and of the bandwidth, [products]."""
    count, no = np.ones(len(rows)), np.zeros(len(rows), dtype=np.bool_)
    work = Shapes(np.full(len(rows), WorkClass.PRODUCTS, dtype=np.str_), count, rows, columns, depth, no, no, no)
    flops, moved = (2.0 * rows * columns * depth)[:, None], moved[:, None]
    peak, bandwidth = device.peak_flops_per_s[dtype] * shares[0], device.memory_bytes_per_s * shares[1]
    at = np.arange(len(rows))
    arithmetic, partial_sums_s = _products(device, peak, bandwidth, work, at, flops, moved, np.ones(1))
    return np.maximum(arithmetic, moved / bandwidth + partial_sums_s)[:, 0]


def in_waves(device: DeviceKind, heads: Floats, queries: Floats) -> Floats:
    """How much longer attention takes for its last wave of blocks of queries, which is not full.
    heads: of all samples."""
    blocks = heads * np.ceil(queries / ATTENTION_ROWS)
    return np.ceil(blocks / device.multiprocessors) * device.multiprocessors / blocks


def _seconds(
    device: DeviceKind,
    dtype: str,
    work: Shapes,
    flops: Floats,
    moved: Floats,
    growth: Floats,
    launches: Floats,
) -> Floats:
    """flops and moved are [operators, points], growth [points] = samples over the traced samples. launches: of every
    operator; one without any is a part of another's kernel."""
    seconds = np.empty_like(flops)
    single = (work.work == WorkClass.ATTENTION) & (work.rows == 1)
    seconds[single] = _one_query(device, dtype, flops[single], moved[single])
    for each in np.unique(work.work[~single]):
        of, at = WorkClass(each), np.flatnonzero((work.work == each) & ~single)
        seconds[at] = _of_class(device, dtype, of, work, at, flops[at], moved[at], growth)
    seconds = np.maximum(seconds, launches[:, None] * device.launch_s)
    return np.where(launches[:, None] > 0, seconds, _streamed(device, dtype, moved))


def _one_query(device: DeviceKind, dtype: str, flops: Floats, moved: Floats) -> Floats:
    """Seconds of attention with one query a head, [operators, points]: it streams the cache, which kernels divide among
    all multiprocessors along its tokens (Dao et al., Flash-Decoding, 2023). No such kernels were measured, and those of
    whole sequences say nothing of them: the shares of `efficiency` are assumed."""
    arithmetic = flops / (device.peak_flops_per_s[dtype] * SHARES[WorkClass.ATTENTION])
    seconds: Floats = np.maximum(arithmetic, moved / (device.memory_bytes_per_s * SHARES[WorkClass.MEMORY]))
    return seconds


def _of_class(
    device: DeviceKind,
    dtype: str,
    of: WorkClass,
    work: Shapes,
    at: NDArray[np.int64],
    flops: Floats,
    moved: Floats,
    growth: Floats,
) -> Floats:
    """Seconds of the operators of one class, at positions ``at``, by the curve that was measured of it; where there is
    none, by the share of the data sheet's rates that is assumed of the class. All [operators, points]."""
    curve = measured_curve(device, dtype, of)
    share, memory_share = (SHARES[of], SHARES[WorkClass.MEMORY]) if curve is None else (1.0, 1.0)
    bandwidth = device.memory_bytes_per_s * memory_share
    if of in (WorkClass.PRODUCTS, WorkClass.CONVOLUTIONS):
        rate = "tf32" if of is WorkClass.CONVOLUTIONS and dtype == "fp32" else dtype
        peak = device.peak_flops_per_s[rate] * share
        arithmetic, partial_sums_s = _products(device, peak, bandwidth, work, at, flops, moved, growth)
        ideal = np.maximum(arithmetic, moved / bandwidth + partial_sums_s)
    elif of in (WorkClass.ATTENTION, WorkClass.ATTENTION_BACKWARD):
        ideal = flops / (device.peak_flops_per_s[dtype] * share)
        if curve is None:
            ideal *= in_waves(device, work.count[at, None] * growth, work.rows[at, None])
        ideal = np.maximum(ideal, moved / bandwidth)
    else:
        ideal = np.maximum(flops / device.peak_flops_per_s["fp32"], moved / bandwidth)
    if isinstance(curve, AttentionCurve):
        # Of the backward no kernels were measured: it reaches less of the peak than the forward, as is assumed of them.
        less = SHARES[WorkClass.ATTENTION] / SHARES[of]
        return less * curve.seconds(ideal, work.rows[at], work.columns[at])
    return ideal if curve is None else curve.seconds(ideal)


def _products(
    device: DeviceKind,
    peak: float,
    bandwidth: float,
    work: Shapes,
    at: NDArray[np.int64],
    flops: Floats,
    moved: Floats,
    growth: Floats,
) -> tuple[Floats, Floats]:
    """(arithmetic, extra seconds of memory) of the products at positions ``at``, each [operators, points]:
    those of the number of pieces that takes least time."""

    def grown(value: Floats, grows: NDArray[np.bool_]) -> Floats:
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


def _side(length: Floats, side: int, narrowest: int) -> Floats:
    """The side of the tile for each length: halved while it still covers the length and the library has it."""
    chosen = np.full_like(length, side)
    while side // 2 >= narrowest:
        side //= 2
        chosen = np.where(length <= side, side, chosen)
    return chosen
