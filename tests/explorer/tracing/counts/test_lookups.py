"""A table is read, and its gradient written, by the row: sizes of embeddings and of bags of them, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.costs import estimate
from explorer.tracing import load_pt2, trace_module
from explorer.tracing.capture import quiet
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, Phase
from tests.explorer.tracing.models import demo

ROWS, WIDTH, BAG, SAMPLES = 1000, 16, 25, 4
"""A table of ROWS x WIDTH in fp32, of which each sample looks up BAG rows."""
TABLE_BYTES = 4 * ROWS * WIDTH
ROW_BYTES = 4 * WIDTH
BAG_BYTES = BAG * ROW_BYTES
"""The rows that one sample looks up."""
INDEX_BYTES = 8 * BAG
OFFSET_BYTES = 8
KEPT_BYTES = 2 * 8
"""For every bag, its size and the position of its largest element: made even where a sum needs neither."""


class Bag(nn.Module):
    """The sum of the rows of each sample, int64 [batch, BAG] -> their sum."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=sparse)

    def forward(self, rows: Tensor) -> Tensor:
        return self.table(rows).sum()


class Rows(nn.Module):
    """The same rows, each an output of its own."""

    def __init__(self, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH, sparse=sparse)

    def forward(self, rows: Tensor) -> Tensor:
        return self.table(rows).sum()


INPUTS = (torch.zeros(SAMPLES, BAG, dtype=torch.int64),)


def trace(module: nn.Module, dtype: str | None = None) -> Workload:
    return trace_module(module, INPUTS, name="bag", dtype=dtype)


def of_the_table(workload: Workload) -> dict[Phase, Operator]:
    """Its forward, gradient and update (not the positions at which bags begin)."""
    operators = workload.graph.operators
    forward = next(i for i, operator in enumerate(operators) if operator.param_bytes)
    return {o.phase: o for i, o in enumerate(operators) if forward in (i, o.forward_of)}


def test_a_bag_reads_its_rows_and_not_the_table() -> None:
    forward = of_the_table(trace(Bag()))[Phase.FORWARD]
    assert forward.param_bytes == TABLE_BYTES
    read = BAG_BYTES + INDEX_BYTES + OFFSET_BYTES
    assert forward.moved_bytes == Amount(per_sample=read + ROW_BYTES + KEPT_BYTES)


def test_a_bag_adds_up_its_rows_and_going_back_adds_to_as_many() -> None:
    table = of_the_table(trace(Bag()))
    assert table[Phase.FORWARD].flops == table[Phase.BACKWARD_WEIGHT].flops == Amount(per_sample=BAG * WIDTH)


def test_weights_of_the_rows_are_multiplied() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(ROWS, WIDTH, mode="sum")

        def forward(self, rows: Tensor, weights: Tensor) -> Tensor:
            return self.table(rows, per_sample_weights=weights).sum()

    workload = trace_module(Weighted(), (*INPUTS, torch.zeros(SAMPLES, BAG)), name="weighted")
    assert of_the_table(workload)[Phase.FORWARD].flops == Amount(per_sample=2 * BAG * WIDTH)


def test_a_dense_gradient_is_zeroed_whole_and_its_rows_are_written() -> None:
    workload = trace(Bag())
    gradient = of_the_table(workload)[Phase.BACKWARD_WEIGHT]
    read = ROW_BYTES + KEPT_BYTES + INDEX_BYTES + OFFSET_BYTES
    assert gradient.moved_bytes == Amount(fixed=TABLE_BYTES, per_sample=read + BAG_BYTES)
    assert gradient_bytes(workload) == Amount(fixed=TABLE_BYTES)


def test_a_sparse_gradient_is_its_rows_and_their_positions() -> None:
    workload = trace(Bag(sparse=True))
    gradient = of_the_table(workload)[Phase.BACKWARD_WEIGHT]
    read = ROW_BYTES + KEPT_BYTES + INDEX_BYTES + OFFSET_BYTES
    assert gradient.moved_bytes == Amount(per_sample=read + BAG_BYTES)
    assert gradient_bytes(workload) == Amount(per_sample=BAG_BYTES + INDEX_BYTES)


def test_an_update_goes_through_the_whole_table_whatever_its_gradient() -> None:
    dense, sparse = (of_the_table(trace(Bag(sparse)))[Phase.UPDATE] for sparse in (False, True))
    assert dense == sparse
    assert dense.moved_bytes == Amount(fixed=7 * TABLE_BYTES)


def gradient_bytes(workload: Workload) -> Amount:
    graph = workload.graph
    (tensor,) = (t for t in graph.tensors if graph.operators[t.producer].phase is Phase.BACKWARD_WEIGHT)
    return tensor.nbytes


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_not_summed_are_read_and_written(sparse: bool) -> None:
    table = of_the_table(trace(Rows(sparse)))
    assert table[Phase.FORWARD].flops == Amount()
    assert table[Phase.FORWARD].moved_bytes == Amount(per_sample=2 * BAG_BYTES + INDEX_BYTES)
    fixed = 0 if sparse else TABLE_BYTES
    assert table[Phase.BACKWARD_WEIGHT].moved_bytes == Amount(fixed=fixed, per_sample=2 * BAG_BYTES + INDEX_BYTES)


def test_a_bag_saves_where_its_bags_begin_and_no_row() -> None:
    forward = of_the_table(trace(Bag()))[Phase.FORWARD]
    assert forward.saved_bytes == Amount(per_sample=OFFSET_BYTES + KEPT_BYTES)


def test_half_precision_halves_rows_and_not_indices() -> None:
    half = of_the_table(trace(Bag(), "bf16"))
    read = BAG_BYTES / 2 + INDEX_BYTES + OFFSET_BYTES
    assert half[Phase.FORWARD].param_bytes == TABLE_BYTES / 2
    # A fake run in bf16 also returns the bag of each index, as a GPU does in any dtype.
    assert half[Phase.FORWARD].moved_bytes == Amount(per_sample=read + ROW_BYTES / 2 + KEPT_BYTES + INDEX_BYTES)


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_bag_in_a_file_is_sized_as_a_live_one(sparse: bool, lowered: bool, tmp_path: Path) -> None:
    with quiet():
        program = torch.export.export(Bag(sparse), INPUTS)
        torch.export.save(program.run_decompositions() if lowered else program, tmp_path / "bag.pt2")
    from_file, live = of_the_table(load_pt2(tmp_path / "bag.pt2")), of_the_table(trace(Bag(sparse)))
    for phase, operator in live.items():
        assert from_file[phase].flops == operator.flops
        assert from_file[phase].moved_bytes == operator.moved_bytes
        assert from_file[phase].saved_bytes == operator.saved_bytes


def test_a_lookup_takes_the_time_of_its_rows_and_no_more_with_a_larger_table() -> None:
    small, large = (
        estimate(trace_module(nn_bag(rows), INPUTS, name="bag").graph, ["V100-16GB"]).seconds["V100-16GB"]
        for rows in (ROWS, 1000 * ROWS)
    )
    assert (small[:2] == large[:2]).all()  # where bags begin, and the bag


def nn_bag(rows: int) -> nn.Module:
    with torch.device("meta"):
        module = Bag()
        module.table = nn.EmbeddingBag(rows, WIDTH, mode="sum")
    return module


def test_the_tables_of_dlrm_cost_a_sample_their_hundred_rows() -> None:
    workload = demo("dlrm")
    bags = [o for o in workload.graph.operators if o.op_type == "aten.embedding_bag"]
    by_phase = {phase: [o for o in bags if o.phase is phase] for phase in Phase}
    assert all(o.param_bytes == 256e6 for o in by_phase[Phase.FORWARD])
    for phase in (Phase.FORWARD, Phase.BACKWARD_WEIGHT):
        assert len(by_phase[phase]) == 7
        # 100 rows of 256 bytes, 100 indices, one row made or read, where the bag begins, and two numbers kept.
        assert {o.moved_bytes for o in by_phase[phase]} == {Amount(per_sample=25600 + 800 + 256 + 8 + 16)}
        assert {o.flops for o in by_phase[phase]} == {Amount(per_sample=6400)}


def test_a_layer_of_dlrm_reads_its_matrix_once_for_any_batch() -> None:
    (layer,) = (o for o in demo("dlrm").graph.operators if o.name == "dense.3.2/linear")
    assert layer.flops == Amount(per_sample=2 * 4096**2)
    assert layer.moved_bytes == Amount(fixed=4 * (4096**2 + 4096), per_sample=4 * (4096 + 4096))
    assert layer.saved_bytes == Amount()  # what it reads, the ReLU before it saved


def test_functions_find_rows_too() -> None:
    """A row chosen by an index costs as much as one looked up."""

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(ROWS, WIDTH))

        def forward(self, rows: Tensor) -> Tensor:
            return F.relu(self.table[rows]).sum()

    forward = of_the_table(trace(Chosen()))[Phase.FORWARD]
    assert forward.moved_bytes == Amount(per_sample=2 * BAG_BYTES + INDEX_BYTES)
