"""The roofline: bounded below by the datasheet, monotone in the samples, less efficient when small."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.costs import DEVICES, dtype_of, estimate, label
from explorer.costs.roofline import CAUSAL_SHARE, product_seconds
from solvers.errors import InvalidProblem
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from tests.explorer.tracing.models import shipped

MODELS = ["gpt", "resnet50", "inception", "gnmt", "multimodal", "dlrm", "candle_uno", "rnnlm", "transformer", "nasnet"]
KINDS = list(DEVICES)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", MODELS)
def test_more_samples_take_no_less_time_and_no_more_time_each(name: str) -> None:
    table = estimate(shipped(name).graph, KINDS, "bf16")
    for seconds in table.seconds.values():
        assert (np.diff(seconds, axis=1) >= -1e-12 * seconds[:, 1:]).all()
        each = seconds / np.array(table.samples)
        assert (np.diff(each, axis=1) <= 1e-12 * each[:, 1:]).all()


@pytest.mark.first(3)
@pytest.mark.parametrize("name", MODELS)
def test_no_operator_is_faster_than_the_datasheet_or_a_launch(name: str) -> None:
    graph = shipped(name).graph
    table = estimate(graph, KINDS, "bf16")
    for kind, seconds in table.seconds.items():
        device = DEVICES[kind]
        peak = max(device.peak_flops_per_s.values())
        for point, samples in enumerate(table.samples):
            flops = np.array([o.flops.at(samples) * (CAUSAL_SHARE if o.causal else 1.0) for o in graph.operators])
            moved = np.array([o.moved_bytes.at(samples) for o in graph.operators])
            least = np.maximum(np.maximum(flops / peak, moved / device.memory_bytes_per_s), device.launch_s)
            assert (seconds[:, point] >= least * (1 - 1e-12)).all()


def test_a_training_step_reaches_a_share_of_the_peak_that_machines_reach() -> None:
    """Large transformers reach 30 to 75 % of an A100 (Megatron-LM: 44 to 52 % of 312 TFLOP/s), small batches less."""
    graph = shipped("gpt").graph
    table = estimate(graph, ["A100-80GB"], "bf16")
    flops = np.array([sum(o.flops.at(s) for o in graph.operators) for s in table.samples])
    share = flops / table.seconds["A100-80GB"].sum(axis=0) / 312e12
    assert 0.3 < share[-1] < 0.8
    assert share[0] < share[-1]


def product(rows: int, columns: int, depth: int, scales: bool = True) -> OpGraph:
    """One linear operator: at one sample, rows x depth times depth x columns, in bf16."""
    flops, moved = 2.0 * rows * columns * depth, 2.0 * (rows * depth + depth * columns + rows * columns)
    operator = Operator(
        "linear",
        op_type="aten.linear",
        flops=Amount(per_sample=flops) if scales else Amount(fixed=flops),
        moved_bytes=Amount(fixed=moved),
    )
    return OpGraph((operator,), (Tensor(0, (), Amount(fixed=2.0 * rows * columns), (rows, columns), "bfloat16"),))


def seconds_of(graph: OpGraph, kind: str = "A100-80GB") -> float:
    return float(estimate(graph, [kind]).seconds[kind][0, 0])


def test_a_partial_tile_costs_a_whole_one() -> None:
    assert seconds_of(product(129, 8192, 8192)) == pytest.approx(seconds_of(product(256, 8192, 8192)), rel=0.05)


def test_one_tile_beyond_a_wave_costs_up_to_a_wave_more() -> None:
    # 108 multiprocessors: 12 x 9 tiles fill one wave; a short sum is not worth splitting.
    rows, depth = np.full(2, 12.0 * 128), np.full(2, 512.0)
    columns = np.array([9.0, 10.0]) * 128
    moved = np.zeros(2)
    full, beyond = product_seconds(DEVICES["A100-80GB"], "bf16", rows, columns, depth, moved, (1.0, 1.0))
    assert beyond / full == pytest.approx(2.0, rel=0.05)
    full, beyond = (seconds_of(product(12 * 128, columns * 128, 512)) for columns in (9, 10))
    assert beyond / full > 1.5


def test_a_narrow_product_is_bound_by_reading_its_matrix() -> None:
    """Up to 32 samples of a layer of 4096 x 4096: in fp32, too, the matrix takes most of the time."""
    reading = 4 * 4096**2 / (900e9 * 0.83)
    seconds = estimate(layer(4096), ["V100-16GB"]).seconds["V100-16GB"][0]
    assert seconds[:6] == pytest.approx([reading] * 6, rel=0.25)


def test_a_product_half_as_wide_as_a_tile_takes_half_as_long() -> None:
    seconds = estimate(layer(4096), ["V100-16GB"]).seconds["V100-16GB"][0]  # at 1, 2, 4, ... samples
    assert seconds[6] == pytest.approx(seconds[7] / 2, rel=0.05)
    assert seconds[5] == pytest.approx(seconds[6] / 2, rel=0.1)


def layer(width: int) -> OpGraph:
    """One linear operator in fp32 of as many rows as samples."""
    operator = Operator(
        "linear",
        op_type="aten.linear",
        flops=Amount(per_sample=2.0 * width**2),
        moved_bytes=Amount(fixed=4.0 * width**2, per_sample=8.0 * width),
    )
    return OpGraph((operator,), (Tensor(0, (), Amount(per_sample=4.0 * width), (1, width), "float32"),))


def test_few_tiles_with_a_long_sum_are_split_over_multiprocessors() -> None:
    whole = 2.0 * 128 * 128 * 65536 * 108 / (312e12 * 0.8)  # one multiprocessor alone
    assert seconds_of(product(128, 128, 65536)) < whole / 4


def test_an_operator_without_work_costs_a_launch() -> None:
    graph = OpGraph((Operator("nothing"),), ())
    assert seconds_of(graph) == DEVICES["A100-80GB"].launch_s


def test_an_update_takes_the_same_time_at_any_batch() -> None:
    graph = shipped("gpt").graph
    seconds = estimate(graph, ["H100-80GB"], "bf16").seconds["H100-80GB"]
    updates = [i for i, o in enumerate(graph.operators) if o.phase is Phase.UPDATE]
    assert (seconds[updates] == seconds[updates][:, :1]).all()


def test_a_newer_device_is_no_slower() -> None:
    table = estimate(shipped("gpt").graph, ["A100-80GB", "H100-80GB", "H200-141GB"], "bf16").seconds
    assert table["A100-80GB"].sum() > table["H100-80GB"].sum() > table["H200-141GB"].sum()


def test_the_dtype_is_that_of_the_graph_unless_given() -> None:
    graph = shipped("gpt-small").graph
    assert dtype_of(graph) == "fp32"
    assert dtype_of(product(1, 1, 1)) == "bf16"
    slow, fast = (estimate(shipped("gpt").graph, ["A100-80GB"], dtype) for dtype in (None, "bf16"))
    assert slow.seconds["A100-80GB"].sum() > 4 * fast.seconds["A100-80GB"].sum()


def test_an_unknown_kind_or_dtype_is_answered_with_those_there_are() -> None:
    graph = shipped("gpt-small").graph
    with pytest.raises(InvalidProblem, match="V100-16GB"):
        estimate(graph, ["A100"])
    with pytest.raises(InvalidProblem, match="bf16, fp16 or fp32"):
        estimate(graph, ["cpu"], "int8")


def test_the_label_says_that_it_is_an_estimate() -> None:
    assert label(["H100-80GB"], "bf16") == "roofline estimate, H100-80GB, bf16"
