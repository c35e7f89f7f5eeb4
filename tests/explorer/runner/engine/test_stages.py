"""A segment's forward, and where its backward begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, fx, nn

from explorer.runner.engine.stages import SegmentStage
from explorer.runner.model.program import Output, SegmentProgram
from explorer.runner.model.segment_module import Input, Kind

WEIGHT = 0.5


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    """A process group of this process, since torch's stages ask for their rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


def stage_of(module: nn.Module, recompute: bool = False) -> SegmentStage:
    """x -> an output of the model."""
    program = SegmentProgram(
        cast(fx.GraphModule, module),
        (Input(Kind.TENSOR, 0, (), torch.float32),),
        (Output(Kind.MODEL, 3, (), torch.float32),),
    )
    return SegmentStage(program, 0, 0, 1, torch.device("cpu"), [True], WEIGHT, recompute)


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.norm(x).square(),)


@pytest.mark.parametrize("recompute", [False, True])
def test_statistics_count_a_batch_once(recompute: bool) -> None:
    x = torch.tensor([[1.0, 5.0], [3.0, 7.0]])
    stage = stage_of(Normed(), recompute)
    stage.forward(0, [x], True)
    stage.backward(0, {})
    norm: Any = stage.program.module.norm
    assert norm.running_mean.tolist() == pytest.approx([0.2, 0.6])
    assert int(norm.num_batches_tracked) == 1


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (2 * x,)


def test_the_backward_begins_at_the_loss() -> None:
    stage = stage_of(Doubled())
    stage.loss_of = lambda micro_batch, position, output: (output * output).sum() + micro_batch * position
    stage.forward(2, [torch.tensor([1.0, 3.0])], True)
    (gradient,) = stage.backward(2, {})
    assert stage.losses == {2: WEIGHT * (4.0 + 36.0 + 6.0)}
    assert cast(Tensor, gradient).tolist() == [WEIGHT * 8.0, WEIGHT * 24.0]


def test_an_output_without_a_loss_is_not_trained_on() -> None:
    stage = stage_of(Doubled())
    stage.loss_of = lambda *_: None
    stage.forward(0, [torch.tensor([1.0])], True)
    assert stage.losses == {}
    assert stage.backward(0, {}) == (None,)


def test_a_call_is_made_as_one_says_when_it_is_recomputed_too() -> None:
    called = []

    def calling(micro_batch: int, module: nn.Module, x: Tensor) -> Any:
        called.append(micro_batch)
        return module(x)

    stage = stage_of(Normed(), recompute=True)
    stage.calling = calling
    for micro_batch in (0, 1):
        stage.forward(micro_batch, [torch.rand(2, 2)], True)
    stage.backward(0, {})
    assert called == [0, 1, 0]
