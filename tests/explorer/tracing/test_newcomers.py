"""Modules as people write them: masks, checkpoints, recurrent layers, attention with dropout, odd inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from explorer.tracing import load_pt2, trace_module
from explorer.tracing.capture import quiet
from solvers.errors import TraceError
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.problem.graph import Phase
from tests.explorer.tracing.models import BATCH, WIDTH, Function, trace

STEPS = 6


def saved(workload: Workload) -> float:
    return sum(operator.saved_bytes.at(workload.graph.samples) for operator in workload.graph.operators)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], layers: int = 1) -> None:
        super().__init__()
        self.layer = kind(WIDTH, WIDTH, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0].sum()


def test_a_fused_lstm_saves_its_gates_and_states() -> None:
    """Four gates, the cell state and the hidden state of each step at the least."""
    rows = BATCH * STEPS * WIDTH * 4
    workload = trace(Recurrent(nn.LSTM, 2), torch.randn(BATCH, STEPS, WIDTH))
    assert 2 * 6 * rows <= saved(workload) <= 2 * 10 * rows


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_in_a_file_saves_about_what_a_live_one_does(kind: type[nn.RNNBase], tmp_path: Path) -> None:
    module, x = Recurrent(kind, 2), torch.randn(BATCH, STEPS, WIDTH)
    with quiet():
        torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    assert saved(load_pt2(tmp_path / "m.pt2")) == pytest.approx(saved(trace(module, x)), rel=0.25)


class Unrolled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], WIDTH), torch.zeros(x.shape[0], WIDTH)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state[0].sum()


def test_a_fused_cell_is_one_operator_a_step_and_its_steps_share_a_device(tmp_path: Path) -> None:
    module, x = Unrolled(), torch.randn(BATCH, STEPS, WIDTH)
    live = trace(module, x)
    cells = [o for o in live.graph.operators if o.op_type == "aten.lstm_cell" and o.phase is Phase.FORWARD]
    assert len(cells) == STEPS
    assert len({o.colocation for o in cells}) == 1
    # Two products, and a few operations for each gate.
    assert {o.flops.per_sample for o in cells} == {2 * 8 * WIDTH**2 + 2 * 4 * WIDTH}
    with quiet():
        torch.export.save(torch.export.export(module, (x,), strict=False), tmp_path / "m.pt2")
    assert saved(load_pt2(tmp_path / "m.pt2")) == pytest.approx(saved(live), rel=0.02)


def test_a_recurrent_layer_sends_gradients_back_through_time_even_from_the_first_layer() -> None:
    graph = trace(Recurrent(nn.GRU), torch.randn(BATCH, STEPS, WIDTH)).graph
    of = {o.phase: o.flops.at(BATCH) for o in graph.operators if o.op_type == "aten.gru"}
    assert of[Phase.BACKWARD_WEIGHT] == 2 * of[Phase.FORWARD] > 0
    assert Phase.BACKWARD_INPUT not in of


def test_attention_with_dropout_does_not_save_its_scores() -> None:
    """As fused kernels on a GPU: bytes grow with the tokens, not with their square."""

    def at(tokens: int) -> float:
        def attend(h: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(h, h, h, dropout_p=0.1)

        return saved(trace(Function(attend), torch.randn(BATCH, 1, tokens, WIDTH)))

    assert at(128) == pytest.approx(2 * at(64))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.inner(x))


class Checkpointed(nn.Module):
    """Two checkpointed calls of blocks; a layer before and a sum after. The second, if reentrant, holds another call
    (the other variant cannot be exported then)."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Block() for _ in range(3))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.blocks[0], self.first(x), use_reentrant=self.reentrant)
        return checkpoint(self.both, x, use_reentrant=self.reentrant).square().sum()

    def both(self, x: Tensor) -> Tensor:
        inner = checkpoint(self.blocks[1], x, use_reentrant=True) if self.reentrant else self.blocks[1](x)
        return self.blocks[2](inner)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_calls_are_regions_that_run_again_and_a_note_says_so(reentrant: bool) -> None:
    workload = trace(Checkpointed(reentrant))
    regions = {o.name: o.checkpoint for o in workload.graph.operators if o.phase is Phase.FORWARD}
    assert regions == {
        "first/linear": "",
        "blocks.0.inner/linear": "checkpoint 0", "blocks.0/gelu": "checkpoint 0",
        "blocks.1.inner/linear": "checkpoint 1", "blocks.1/gelu": "checkpoint 1",
        "blocks.2.inner/linear": "checkpoint 1", "blocks.2/gelu": "checkpoint 1",
        "square": "", "sum": "",
    }  # fmt: skip
    assert workload.notes == (
        "activation checkpointing is honoured: of 2 regions only what comes in is kept until the backward, which runs"
        " the forward again first; --recompute none plans without",
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_model_has_the_sizes_and_the_hash_of_one_that_is_not(reentrant: bool) -> None:
    class Plain(Checkpointed):
        def forward(self, x: Tensor) -> Tensor:
            for block in (self.first, *self.blocks):
                x = block(x)
            return x.square().sum()

    assert graph_hash(trace(Checkpointed(reentrant)).graph) == graph_hash(trace(Plain(reentrant)).graph)


def test_inference_runs_nothing_again() -> None:
    workload = trace_module(Checkpointed(False), torch.randn(BATCH, WIDTH), name="m", training=False)
    assert {o.checkpoint for o in workload.graph.operators} == {""}
    assert not workload.notes


def test_a_transformer_takes_any_mask() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Transformer(WIDTH, 2, 1, 1, WIDTH, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.layer(x, x, tgt_mask=mask).sum()

    assert len(trace(Masked(), torch.randn(BATCH, STEPS, WIDTH)).graph) > 20


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, *, mask: Tensor, scale: float = 1.0) -> Tensor:
        return (self.layer(x).masked_fill(mask, 0.0) * scale).sum()


def test_arguments_may_be_given_by_position_and_by_name() -> None:
    x, mask = torch.randn(BATCH, WIDTH), torch.zeros(BATCH, WIDTH, dtype=torch.bool)
    both = trace_module(ByName(), (x,), example_kwargs={"mask": mask, "scale": 2.0}, name="tiny")
    named = trace_module(ByName(), {"x": x, "mask": mask, "scale": 2.0}, name="tiny")
    assert both.graph == named.graph


def test_a_file_may_hold_arguments_that_are_no_tensors(tmp_path: Path) -> None:
    x, mask = torch.randn(BATCH, WIDTH), torch.zeros(BATCH, WIDTH, dtype=torch.bool)
    torch.export.save(torch.export.export(ByName(), (x,), {"mask": mask, "scale": 2.0}), tmp_path / "m.pt2")
    assert load_pt2(tmp_path / "m.pt2").graph.samples == BATCH


class Deciding(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() if x.sum() > 0 else x.sigmoid()


def test_a_failed_trace_names_the_line_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TraceError, match=r"\(test_newcomers.py, line \d+, in forward\)"):
        trace(Deciding())
    assert capfd.readouterr() == ("", "")


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expert = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.expert(x[torch.where(x[:, 0] > 0)[0]]).sum()


def test_a_routing_whose_sizes_depend_on_values_gets_a_remedy() -> None:
    with pytest.raises(TraceError, match="give each result a fixed size"):
        trace(Routed())
