"""Views, in-place calls and checks are no operators of their own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.explorer.tracing.models import BATCH, WIDTH, Function, demo, forward, names, trace


def test_a_view_cannot_be_cut_from_what_it_looks_into() -> None:
    workload = trace(Function(lambda h: h.view(BATCH, 2, WIDTH // 2).transpose(1, 2)[:, 0].relu()))
    assert names(workload) == ["first/linear", "relu", "sum"]


def test_a_reshape_that_must_copy_is_an_operator() -> None:
    workload = trace(Function(lambda h: h.t().reshape(-1).relu()))
    assert names(workload) == ["first/linear", "reshape", "relu", "sum"]


def test_only_the_slice_that_is_read_is_sent() -> None:
    workload = trace(Function(lambda h: h[:, :2].relu().sum() + h[:, 2:].sigmoid().sum()))
    sent = {t.shape: t.nbytes.per_sample for t in workload.graph.tensors if t.producer == 0 and t.consumers and t.shape}
    assert sent == {(BATCH, 2): 2 * 4, (BATCH, WIDTH - 2): (WIDTH - 2) * 4}


def test_an_operator_read_only_in_slices_still_tells_its_whole_output() -> None:
    graph = demo("gpt-small").graph
    qkv = graph.index_of()["blocks.0.attn.qkv/linear"]
    whole = graph.tensors[graph.outputs[qkv][0]]
    assert whole.shape == (4, 32, 96)
    assert whole.consumers == ()


def test_an_in_place_call_joins_what_it_changes() -> None:
    workload = trace(Function(lambda h: h.sigmoid().mul_(2.0)))
    assert names(workload) == ["first/linear", "sigmoid", "sum"]
    sigmoid = forward(workload)[1]
    assert sigmoid.flops.per_sample == (4 + 1) * WIDTH  # both calls


def test_an_in_place_call_on_what_it_depends_on_joins_the_whole_cycle() -> None:
    def change(h: Tensor) -> Tensor:
        doubled = h * 2
        once = torch.exp(doubled.detach())
        return doubled.add_(once)

    workload = trace(Function(change))
    assert names(workload) == ["first/linear", "mul", "sum"]


def test_counters_checks_and_evaluation_dropout_disappear() -> None:
    block = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Dropout(0.5))
    assert names(trace(Function(block))) == ["first/linear", "function.0/batch_norm", "function.1/dropout", "sum"]
    assert names(trace(Function(block), training=False)) == ["first/linear", "function.0/batch_norm", "sum"]


def test_a_block_without_gradients_is_part_of_the_graph() -> None:
    def scaled(h: Tensor) -> Tensor:
        with torch.no_grad():
            largest = h.abs().max()
        return h / largest

    workload = trace(Function(scaled))
    assert names(workload) == ["first/linear", "abs", "max", "div", "sum"]
    mirrored = {o.name for o in workload.graph.operators} - set(names(workload))
    assert mirrored == {"sum/grad_input", "div/grad_input", "first/linear/grad_weight", "first/linear/update"}


class Rotary(nn.Module):
    """Angles of positions: no input, no parameter."""

    def forward(self, count: int) -> Tensor:
        angles = torch.outer(torch.arange(count), torch.arange(WIDTH) * 0.1)
        return torch.stack([angles.cos(), angles.sin()])


class Masked(nn.Module):
    """A mask made of positions in the top module, angles made in another; both used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.rotary = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), Rotary()

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[1])
        torch.ones(3) + 1  # nobody reads it
        mask = (rows[:, None] >= rows[None]) & (rows[:, None] < rows[None] + 4)
        cos, sin = self.rotary(x.shape[1])
        for layer in (self.first, self.second):
            x = layer(x * cos + x * sin)
            x = (mask.float()[:, :, None] * x[:, None]).sum(2)
        return x.sum()


def test_the_auxiliary_calls_of_a_module_are_one_operator_that_may_be_copied() -> None:
    workload = trace(Masked(), torch.randn(BATCH, 6, WIDTH))
    plumbing = [o for o in forward(workload) if o.replicable]
    assert [o.module_path for o in plumbing] == ["", "rotary"]
    assert plumbing[1].name == "rotary/stack"
    graph = workload.graph
    assert not {o.op_type for o in forward(workload)} & {"aten.arange", "aten.ge", "aten.ones", "aten.cos"}
    readers = {
        reader for t in graph.tensors if t.producer == graph.index_of()["rotary/stack"] for reader in t.consumers
    }
    assert {graph.operators[reader].name for reader in readers} >= {"mul", "mul#2"}
