"""Small random models, each a DAG of layers with skips, joins and several heads: ``random_models:dag7``. Those of
``random_models:odd7`` keep states and draw: norms of the batch under several names, dropout in autocast and without,
parameters that no loss reaches, counters."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 6
BATCH = 4
PLAIN = ("linear", "linear", "norm", "gelu", "add", "mul", "join", "split")
ODD = ("shared", "free", "batch", "rough", "drop", "aside")
"""A layer with statistics of the batch that has two names, or more; such statistics without parameters; those of one
name; a layer and dropout in autocast; dropout; a layer whose output gives no gradient back."""


class Dag(nn.Module):
    """(features [batch, width], words int64 [batch, 3], targets [batch, width]) -> a loss."""

    def __init__(self, seed: int, kinds: tuple[str, ...] = PLAIN) -> None:
        super().__init__()
        choose = random.Random(seed)
        if kinds != PLAIN:
            self.shared = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
            self.free = nn.BatchNorm1d(WIDTH, affine=False)
            self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.table = nn.Embedding(9, WIDTH)
        self.steps: list[tuple[str, int, int]] = []
        self.layers = nn.ModuleList()
        for made in range(choose.randint(6, 14)):
            kind = choose.choice(kinds)
            # Mostly the latest results, at times an old one: chains with skips.
            one = choose.randrange(max(0, made - 1), made + 2)
            other = choose.randrange(made + 2)
            self.steps.append((kind, one, other))
            wide = 2 * WIDTH if kind in ("join", "split") else WIDTH
            self.layers.append(
                nn.Linear(WIDTH, wide) if kind in ("linear", "split", "rough", "aside")
                else getattr(self, kind) if kind in ("shared", "free")
                else nn.BatchNorm1d(WIDTH) if kind == "batch"
                else nn.Linear(wide, WIDTH) if kind == "join"
                else nn.LayerNorm(WIDTH) if kind == "norm"
                else nn.Identity()
            )  # fmt: skip

    def forward(self, features: Tensor, words: Tensor, targets: Tensor) -> Tensor:
        if hasattr(self, "passes"):
            self.passes += 1
        values = [features, self.table(words).mean(1)]
        for (kind, one, other), layer in zip(self.steps, self.layers, strict=True):
            a, b = values[one], values[other]
            if kind == "join":
                values.append(layer(torch.cat([a, b], -1)))
            elif kind == "split":
                left, right = layer(a).chunk(2, -1)
                values.append(left * torch.tanh(right))
            elif kind == "rough":
                with torch.autocast("cpu", torch.bfloat16):
                    rough = F.dropout(layer(a).relu(), 0.2)
                values.append(a + rough.float())
            elif kind == "drop":
                values.append(F.dropout(a, 0.2))
            elif kind == "aside":
                values.append(a + layer(a).detach())
            elif kind in ("add", "mul"):
                values.append(a + b if kind == "add" else a * torch.sigmoid(b))
            else:
                values.append(F.gelu(a) if kind == "gelu" else layer(a))
        return ((values[-1] + 0.5 * values[-2] - targets) ** 2).mean()


def __getattr__(name: str) -> Callable[[], tuple[Dag, tuple[Tensor, Tensor, Tensor]]]:
    kinds = {"dag": PLAIN, "odd": (*PLAIN[1:], *ODD)}.get(name[:3])
    if kinds is None:
        raise AttributeError(name)

    def build() -> tuple[Dag, tuple[Tensor, Tensor, Tensor]]:
        words = torch.randint(9, (BATCH, 3))
        return Dag(int(name[3:]), kinds), (torch.randn(BATCH, WIDTH), words, torch.randn(BATCH, WIDTH))

    return build
