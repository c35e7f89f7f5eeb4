"""A multi-modal transformer: parallel branches, one a modality, joined before the head.

The sizes are those of the multi-modal model in GraphPipe (Jeon et al., ASPLOS 2025):
four branches of eight layers, width 1024, feed-forward 4096, 16 heads, 256 positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class MultimodalSize:
    """branches, layers per branch, width (a multiple of heads), positions per sample, batch = samples."""

    branches: int
    layers: int
    width: int
    heads: int
    positions: int
    classes: int
    batch: int


SIZES = {
    "real": MultimodalSize(branches=4, layers=8, width=1024, heads=16, positions=256, classes=1000, batch=4),
    "small": MultimodalSize(branches=4, layers=2, width=32, heads=4, positions=16, classes=10, batch=4),
}


class Layer(nn.Module):
    """A post-norm transformer encoder layer (Vaswani et al. 2017): [batch, positions, width] -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.proj = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, positions, width = x.shape
        heads = (batch, positions, self.heads, width // self.heads)
        q, k, v = (part(x).view(heads).transpose(1, 2) for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, positions, width)
        x = self.norm1(x + self.proj(y))
        return self.norm2(x + self.down(F.relu(self.up(x))))


MODALITIES = ("vision", "text", "audio", "video", "depth", "thermal", "motion", "touch")
"""Names for the branches: what each of them would read."""


class Branch(nn.Module):
    def __init__(self, size: MultimodalSize) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer(size.width, size.heads) for _ in range(size.layers)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Multimodal(nn.Module):
    """(features of each branch [batch, positions, width] ..., labels int64 [batch]) -> mean cross-entropy."""

    def __init__(self, size: MultimodalSize) -> None:
        super().__init__()
        names = (*MODALITIES, *(f"modality{i}" for i in range(len(MODALITIES), size.branches)))
        self.branches = nn.ModuleDict({name: Branch(size) for name in names[: size.branches]})
        self.join = nn.Linear(size.branches * size.width, size.width)
        self.head = nn.Linear(size.width, size.classes)

    def forward(self, *inputs: Tensor) -> Tensor:
        *features, labels = inputs
        joined = torch.cat([branch(x) for branch, x in zip(self.branches.values(), features, strict=True)], 2)
        x = F.relu(self.join(joined)).mean(1)
        return F.cross_entropy(self.head(x), labels)


def build(size: MultimodalSize) -> tuple[Multimodal, tuple[Tensor, ...]]:
    """The module and its example inputs (features of each branch, labels)."""
    features = [torch.randn(size.batch, size.positions, size.width) for _ in range(size.branches)]
    return Multimodal(size), (*features, torch.randint(size.classes, (size.batch,)))
