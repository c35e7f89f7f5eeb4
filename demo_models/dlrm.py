"""A recommendation model (DLRM, Naumov et al. 2019) of parallel dense and sparse branches, joined before the score.

The sizes are those of GraphPipe (Jeon et al., ASPLOS 2025): seven dense branches of four layers of
width 4096, each with features of its own; seven sparse branches, each a table of a million rows of
width 64 with a hundred of them summed for every sample; layers of width 4096 after the join.

What that leaves open is as in the DLRM benchmark (facebookresearch/dlrm, dlrm_s_pytorch.py): ReLU after
every layer, embedding bags with sparse gradients, binary cross-entropy (of the logit). The 2048 features
of a dense branch, the four layers after the join and the join by concatenation are those of FlexFlow's
DLRM with such tables (flexflow/FlexFlow, examples/cpp/DLRM/run_summit.sh), on which GraphPipe is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class DLRMSize:
    """Branches of each sort, dense features per sample, layers (of a dense branch, and after the join)
    and their width, rows and row width of each table, bag = rows per sample, batch = samples."""

    dense: int
    sparse: int
    features: int
    layers: int
    width: int
    rows: int
    row_width: int
    bag: int
    batch: int


SIZES = {
    "real": DLRMSize(
        dense=7, sparse=7, features=2048, layers=4, width=4096, rows=1_000_000, row_width=64, bag=100, batch=4
    ),
    "small": DLRMSize(dense=3, sparse=3, features=16, layers=2, width=32, rows=100, row_width=8, bag=5, batch=4),
}


def layers(inputs: int, width: int, count: int) -> nn.Sequential:
    """Fully connected layers with ReLU: [batch, inputs] -> [batch, width]."""
    widths = [inputs, *[width] * count]
    return nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())))


class DLRM(nn.Module):
    """(features of each dense branch [batch, features] ..., rows of each sparse branch, int64 [batch, bag] ...,
    clicks 0.0 or 1.0 [batch]) -> mean binary cross-entropy."""

    def __init__(self, size: DLRMSize) -> None:
        super().__init__()
        self.dense = nn.ModuleList(layers(size.features, size.width, size.layers) for _ in range(size.dense))
        self.sparse = nn.ModuleList(
            nn.EmbeddingBag(size.rows, size.row_width, mode="sum", sparse=True) for _ in range(size.sparse)
        )
        self.post = layers(size.dense * size.width + size.sparse * size.row_width, size.width, size.layers)
        self.score = nn.Linear(size.width, 1)

    def forward(self, *inputs: Tensor) -> Tensor:
        *given, clicks = inputs
        joined = torch.cat([branch(x) for branch, x in zip((*self.dense, *self.sparse), given, strict=True)], 1)
        return F.binary_cross_entropy_with_logits(self.score(self.post(joined)).squeeze(1), clicks)


def build(size: DLRMSize) -> tuple[DLRM, tuple[Tensor, ...]]:
    """The module and its example inputs (features of each dense branch, rows of each sparse one, clicks)."""
    features = [torch.randn(size.batch, size.features) for _ in range(size.dense)]
    rows = [torch.randint(size.rows, (size.batch, size.bag)) for _ in range(size.sparse)]
    return DLRM(size), (*features, *rows, torch.randint(2, (size.batch,)).float())
