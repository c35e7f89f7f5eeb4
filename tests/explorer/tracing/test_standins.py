"""Forwards as people write them for a GPU and for decoding: devices, autocast, odd outputs, rows chosen by value."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from solvers.errors import TraceError
from solvers.formats.workload import Workload
from tests.explorer.tracing.models import BATCH, WIDTH, Function, forward, names, trace
from tests.explorer.tracing.sharding.captures import captured


def dtypes(workload: Workload, op_type: str) -> set[str]:
    """Of what operators of that type return."""
    graph = workload.graph
    return {graph.tensors[graph.outputs[i][0]].dtype for i, o in enumerate(graph.operators[: len(forward(workload))])
            if o.op_type == op_type}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_of_a_gpu_casts_and_is_reported(dtype: torch.dtype) -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cuda", dtype):
                return self.layer(x).float().sum()

    workload = trace(Cast())
    assert dtypes(workload, "aten.linear") == {str(dtype).removeprefix("torch.")}
    assert any("autocast for cuda" in note for note in workload.notes)


def test_autocast_that_is_off_is_not_reported() -> None:
    def off(h: Tensor) -> Tensor:
        with torch.autocast("cuda", enabled=False):
            return h.relu()

    assert trace(Function(off)).notes == ()


def test_a_gpu_named_in_a_forward_is_the_one_device_there_is() -> None:
    def moved(h: Tensor) -> Tensor:
        mask = torch.zeros(h.shape, device="cuda") + torch.ones(WIDTH, device=torch.device("cuda", 0))
        return (h.cuda() * mask.to("cuda:0")).to(device="cuda")

    workload = trace(Function(moved))
    assert any("'cuda'" in note for note in workload.notes)
    assert "mul" in names(workload)


@dataclass
class Answer:
    loss: Tensor
    hidden: list[Tensor]
    name: str = "answer"


class DynamicCache:
    """Called as that of transformers: no pytree knows it."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


@pytest.mark.parametrize(
    "wrap",
    [
        lambda h: Answer(h.sum(), [h, h.relu()]),
        lambda h: SimpleNamespace(loss=h.sum(), more={"hidden": h.relu()}),
        lambda h: {"loss": h.sum(), "what": None, "count": 3},
    ],
)
def test_tensors_are_kept_whatever_they_come_in(wrap: object) -> None:
    class Wrapped(Function):
        def forward(self, x: Tensor) -> object:  # type: ignore[override]
            return wrap(self.first(x))  # type: ignore[operator]

    assert "sum" in names(trace(Wrapped(None)))


def test_a_cache_is_switched_off_on_the_copy_and_left_out_where_it_comes_back_all_the_same() -> None:
    class Decoder(Function):
        def __init__(self) -> None:
            super().__init__(None)
            self.config = SimpleNamespace(use_cache=True)

        def forward(self, x: Tensor, again: bool = False) -> object:  # type: ignore[override]
            h = self.first(x)
            return {"loss": h.sum(), "past": DynamicCache(h.exp()) if self.config.use_cache or again else None}

    module = Decoder()
    workload = trace(module)
    assert "exp" not in names(workload)
    assert workload.notes == ()
    assert module.config.use_cache
    question = trace_module(module, (torch.randn(BATCH, WIDTH),), example_kwargs={"again": True}, name="tiny")
    assert any("DynamicCache" in note for note in question.notes)


class Routed(nn.Module):
    """Each expert takes the rows whose score is positive."""

    def __init__(self, experts: int = 2) -> None:
        super().__init__()
        self.score = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        score = self.score(x)
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(score[:, number] > 0)
            out = out.index_add(0, rows, expert(x[rows]))
        return out.sum() + x[score[:, 0] > 0].sum()


def test_experts_take_the_stated_rows_in_proportion_to_the_samples() -> None:
    x = torch.randn(8, WIDTH)
    with pytest.raises(TraceError, match="--expert-rows"):
        trace_module(Routed(), (x,), name="tiny")
    workload = trace_module(Routed(), (x,), name="tiny", expert_rows=4)
    experts = [o for o in forward(workload) if o.name.startswith("experts.") and o.op_type == "aten.linear"]
    assert [o.flops.at(8) for o in experts] == [2 * 4 * WIDTH * WIDTH] * 2
    assert [o.flops.at(16) for o in experts] == [2 * 8 * WIDTH * WIDTH] * 2
    assert any("selects" in note or "select 4" in note for note in workload.notes)


def test_a_model_that_names_its_loss_is_trained_on_that_alone() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            scores = self.layer(x)
            return {"loss": scores.square().mean(), "logits": scores, "states": x.exp()}

    trained, served = (trace(Named(), torch.randn(BATCH, WIDTH), training=training) for training in (True, False))
    assert [note for note in trained.notes if "logits, states" in note]
    assert not [note for note in served.notes if "logits" in note]
    assert captured(Named(), (torch.randn(BATCH, WIDTH),))[0].outputs == ("mean",)
