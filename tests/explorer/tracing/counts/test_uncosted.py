"""An operator that reads weights and has no formula is named; products of experts have one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from explorer.tracing.flops import PRODUCTS
from tests.explorer.tracing import grouped
from tests.explorer.tracing.models import BATCH, WIDTH, Function, forward, trace

EXPERTS, TOKENS = 4, 6


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    """Operators of somebody's own."""
    with torch.library._scoped_library("placement_test", "FRAGMENT") as made:
        yield made


def define(library: torch.library.Library, name: str) -> None:
    """(rows, a table of matrices, where each matrix's rows end) -> rows, without gradients."""
    library.define(f"{name}(Tensor input, Tensor weight, Tensor offs) -> Tensor")

    def shapes(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
        return input.new_empty(input.shape[0], weight.shape[-1])

    library.impl(name, shapes, "Meta")


class Experts(nn.Module):
    def __init__(self, call: object) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH))
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, WIDTH)
        ends = torch.arange(1, EXPERTS + 1, dtype=torch.int32) * (rows.shape[0] // EXPERTS)
        return self.call(rows, self.weight, ends)  # type: ignore[operator]


def test_a_product_of_experts_counts_every_row_once_and_its_load_is_reported() -> None:
    module = Experts(lambda rows, weight, ends: torch._grouped_mm(rows, weight, offs=ends))
    x = torch.randn(BATCH, 4 * WIDTH, WIDTH, dtype=torch.bfloat16)
    workload = trace_module(module, (x,), name="tiny", training=False, dtype="bf16")
    (product,) = [o for o in forward(workload) if "grouped_mm" in o.op_type]
    rows = BATCH * 4 * WIDTH
    assert product.flops.at(BATCH) == 2 * rows * WIDTH * 2 * WIDTH
    assert product.op_type in PRODUCTS
    shown = [note for note in workload.notes if "experts" in note]
    assert len(shown) == 1
    assert f"{rows // EXPERTS} rows" in shown[0]


def test_an_operator_that_reads_weights_without_a_formula_is_named(library: torch.library.Library) -> None:
    define(library, "mystery")
    module = Experts(lambda rows, weight, ends: torch.ops.placement_test.mystery(rows, weight, ends))
    workload = trace_module(module, (torch.randn(BATCH, TOKENS, WIDTH),), name="tiny", training=False)
    (note,) = [note for note in workload.notes if "no formula" in note]
    assert "placement_test.mystery" in note
    assert f"{EXPERTS * WIDTH * 2 * WIDTH:,}" in note


def test_the_fallback_of_transformers_is_a_product() -> None:
    module = Experts(grouped.product)
    workload = trace_module(module, (torch.randn(BATCH, TOKENS, WIDTH),), name="tiny", training=False)
    (product,) = [o for o in forward(workload) if "grouped_mm" in o.op_type]
    assert product.flops.at(BATCH) == 2 * BATCH * TOKENS * WIDTH * 2 * WIDTH


def test_norms_scales_and_lookups_have_a_formula() -> None:
    block = nn.Sequential(nn.LayerNorm(WIDTH), nn.PReLU(), nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, 3)))
    assert trace(Function(block)).notes == ()


def test_work_is_never_counted_on_a_weight_that_is_larger_than_the_result(library: torch.library.Library) -> None:
    """One operation an element of what goes in and comes out: the rows, not the table."""
    define(library, "mystery")
    module = Experts(lambda rows, weight, ends: torch.ops.placement_test.mystery(rows, weight, ends))
    workload = trace_module(module, (torch.randn(BATCH, TOKENS, WIDTH),), name="tiny", training=False)
    (operator,) = [o for o in forward(workload) if "mystery" in o.op_type]
    assert operator.flops.at(BATCH) == BATCH * TOKENS * 2 * WIDTH
