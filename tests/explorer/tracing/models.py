"""Tiny modules, one trait each, and traces that several tests share."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.question.graphs.demos import traced_before
from explorer.tracing import trace_demo, trace_module
from solvers.formats.workload import Workload
from solvers.problem.graph import Operator, Phase

WIDTH = 8
BATCH = 2


@lru_cache(maxsize=64)
def demo(name: str, training: bool = True, batch: int | None = None) -> Workload:
    return trace_demo(name, training=training, batch=batch)


@lru_cache(maxsize=64)
def shipped(name: str) -> Workload:
    """A demo for training as it was traced before, which takes seconds for a large one: `test_demos` says
    whether tracing still gives the same."""
    workload = traced_before(name, True, None)
    assert workload is not None
    return workload


def trace(module: nn.Module, *inputs: Tensor, training: bool = True) -> Workload:
    return trace_module(module, inputs or (torch.randn(BATCH, WIDTH),), name="tiny", training=training)


def forward(workload: Workload) -> list[Operator]:
    return [operator for operator in workload.graph.operators if operator.phase is Phase.FORWARD]


def names(workload: Workload) -> list[str]:
    return [operator.name for operator in forward(workload)]


class Function(nn.Module):
    """A linear layer, then a function of its output; the loss is the sum."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.first(x)).sum()  # type: ignore[operator]


class Tied(nn.Module):
    """An embedding whose table is also the head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, WIDTH)
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.middle(self.table(tokens))), tokens)


class Diamond(nn.Module):
    """One tensor with two consumers that meet again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.left = nn.Linear(WIDTH, WIDTH)
        self.right = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return (self.left(h) * self.right(h)).sum()
