"""Small random models, each a DAG of layers with skips, joins and several heads: ``random_models:dag7``."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH = 6
BATCH = 4


class Dag(nn.Module):
    """(features [batch, width], words int64 [batch, 3], targets [batch, width]) -> a loss."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choose = random.Random(seed)
        self.table = nn.Embedding(9, WIDTH)
        self.steps: list[tuple[str, int, int]] = []
        self.layers = nn.ModuleList()
        for made in range(choose.randint(6, 14)):
            kind = choose.choice(["linear", "linear", "norm", "gelu", "add", "mul", "join", "split"])
            # Mostly the latest results, at times an old one: chains with skips.
            one = choose.randrange(max(0, made - 1), made + 2)
            other = choose.randrange(made + 2)
            self.steps.append((kind, one, other))
            wide = 2 * WIDTH if kind in ("join", "split") else WIDTH
            self.layers.append(
                nn.Linear(WIDTH, wide) if kind in ("linear", "split")
                else nn.Linear(wide, WIDTH) if kind == "join"
                else nn.LayerNorm(WIDTH) if kind == "norm"
                else nn.Identity()
            )  # fmt: skip

    def forward(self, features: Tensor, words: Tensor, targets: Tensor) -> Tensor:
        values = [features, self.table(words).mean(1)]
        for (kind, one, other), layer in zip(self.steps, self.layers, strict=True):
            a, b = values[one], values[other]
            if kind == "join":
                values.append(layer(torch.cat([a, b], -1)))
            elif kind == "split":
                left, right = layer(a).chunk(2, -1)
                values.append(left * torch.tanh(right))
            elif kind in ("add", "mul"):
                values.append(a + b if kind == "add" else a * torch.sigmoid(b))
            else:
                values.append(torch.nn.functional.gelu(a) if kind == "gelu" else layer(a))
        return ((values[-1] + 0.5 * values[-2] - targets) ** 2).mean()


def __getattr__(name: str) -> Callable[[], tuple[Dag, tuple[Tensor, Tensor, Tensor]]]:
    if not name.startswith("dag"):
        raise AttributeError(name)
    seed = int(name.removeprefix("dag"))

    def build() -> tuple[Dag, tuple[Tensor, Tensor, Tensor]]:
        words = torch.randint(9, (BATCH, 3))
        return Dag(seed), (torch.randn(BATCH, WIDTH), words, torch.randn(BATCH, WIDTH))

    return build
