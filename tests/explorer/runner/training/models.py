"""Models small enough to train in a test, and their data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.explorer.runner.model.models import WIDTH, halved

__all__ = ["SAMPLES", "adamw", "cross_entropy", "halved", "noisy", "other", "pairs", "scores", "vectors", "warm_up"]

LETTERS, CONTEXT = 11, 5
SAMPLES = 8
"""Of a mini-batch."""


class Scores(nn.Module):
    """Letters -> scores of the next one. The head is the table; a parameter and a table that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(LETTERS, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, LETTERS, bias=False)
        self.head.weight = self.table.weight
        self.spare = nn.Parameter(torch.arange(3.0))
        self.register_buffer("version", torch.tensor(7))

    def forward(self, letters: Tensor) -> Tensor:
        return self.head(self.body(self.table(letters)))


def scores() -> tuple[nn.Module, Tensor]:
    return Scores(), torch.zeros(4, CONTEXT, dtype=torch.int64)


class Noisy(nn.Module):
    """Letters and what follows -> loss; with two dropouts, a random rectifier and statistics of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(LETTERS, WIDTH)
        self.first, self.norm = nn.Linear(WIDTH * CONTEXT, 16), nn.BatchNorm1d(16)
        self.drop, self.second = nn.Dropout(0.3), nn.Linear(16, LETTERS)

    def forward(self, letters: Tensor, following: Tensor) -> Tensor:
        x = self.table(letters)
        x = F.scaled_dot_product_attention(x, x, x, dropout_p=0.2)
        x = self.norm(self.first(x.flatten(1)))
        x = F.rrelu(self.drop(x), training=True)
        return F.cross_entropy(self.second(x), following[:, -1])


def noisy() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return Noisy(), (torch.zeros(4, CONTEXT, dtype=torch.int64), torch.zeros(4, CONTEXT, dtype=torch.int64))


def other() -> tuple[nn.Module, Tensor]:
    """The body of `Scores` is wider here."""
    module = Scores()
    module.body = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(), nn.Linear(3 * WIDTH, WIDTH))
    return module, torch.zeros(4, CONTEXT, dtype=torch.int64)


def pairs(count: int, samples: int = SAMPLES, context: int = CONTEXT, seed: int = 3) -> Iterator[tuple[Any, Any]]:
    """Mini-batches of (letters, what follows)."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        text = torch.randint(LETTERS, (samples, context + 1), generator=draw)
        yield text[:, :-1], text[:, 1:]


def vectors(count: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield torch.randn(SAMPLES, WIDTH, generator=draw)


def cross_entropy(logits: Tensor, following: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def adamw(parameters: Any) -> torch.optim.Optimizer:
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.02)


def warm_up(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    first = torch.optim.lr_scheduler.LinearLR(optimizer, 0.25, total_iters=3)
    after = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2], gamma=0.5)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [first, after], [3])
