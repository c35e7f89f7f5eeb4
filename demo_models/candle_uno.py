"""Dose response of tumours (CANDLE Uno): parallel branches, one a feature, joined before the regression.

The sizes are those of GraphPipe (Jeon et al., ASPLOS 2025): seven branches of four layers of width 4096,
then layers of the same width.

What that leaves open is as in the benchmark (ECP-CANDLE/Benchmarks, Pilot1/Uno): its seven inputs and
their widths (README.md), ReLU after every layer, mean squared error. There, both drugs share their
encoders and a dose goes to the join as it is; here every input has four layers of its own. Four layers
after the join are those of FlexFlow's Uno (flexflow/FlexFlow, examples/cpp/candle_uno/candle_uno.cc), on
which GraphPipe is built and where the drugs do not share encoders either.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class UnoSize:
    """inputs: the width of each branch's feature. layers (of a branch, and after the join) and their
    width, batch = samples."""

    inputs: tuple[int, ...]
    layers: int
    width: int
    batch: int


SIZES = {
    # Gene expression of the cell line; descriptors and fingerprints of either drug; dose of either drug.
    "real": UnoSize(inputs=(942, 5270, 2048, 5270, 2048, 1, 1), layers=4, width=4096, batch=4),
    "small": UnoSize(inputs=(12, 24, 16, 24, 16, 1, 1), layers=2, width=32, batch=4),
}


def layers(inputs: int, width: int, count: int) -> nn.Sequential:
    """Fully connected layers with ReLU: [batch, inputs] -> [batch, width]."""
    widths = [inputs, *[width] * count]
    return nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())))


class Uno(nn.Module):
    """(the feature of each branch [batch, its width] ..., growth [batch]) -> mean squared error."""

    def __init__(self, size: UnoSize) -> None:
        super().__init__()
        self.branches = nn.ModuleList(layers(inputs, size.width, size.layers) for inputs in size.inputs)
        self.post = layers(len(size.inputs) * size.width, size.width, size.layers)
        self.head = nn.Linear(size.width, 1)

    def forward(self, *inputs: Tensor) -> Tensor:
        *features, growth = inputs
        joined = torch.cat([branch(x) for branch, x in zip(self.branches, features, strict=True)], 1)
        return F.mse_loss(self.head(self.post(joined)).squeeze(1), growth)


def build(size: UnoSize) -> tuple[Uno, tuple[Tensor, ...]]:
    """The module and its example inputs (the feature of each branch, growth)."""
    features = [torch.randn(size.batch, inputs) for inputs in size.inputs]
    return Uno(size), (*features, torch.randn(size.batch))
