"""Inception v3 (Szegedy et al. 2015, "Rethinking the Inception Architecture"), without the auxiliary head.

The topology and widths are those of the published network; ``divisor`` thins every layer for the
small twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class InceptionSize:
    """Every width is divided by divisor; image is the side in pixels (>= 75); batch = samples."""

    divisor: int
    classes: int
    image: int
    batch: int


SIZES = {
    "real": InceptionSize(divisor=1, classes=1000, image=299, batch=4),
    "small": InceptionSize(divisor=8, classes=10, image=75, batch=4),
}

Kernel = int | tuple[int, int]


class Conv(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Kernel, stride: int = 1, padding: Kernel = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class MeanPool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, stride=1, padding=1)


class MaxPool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 3, stride=2)


class Branches(nn.Module):
    """Parallel branches of one input, concatenated along the channels."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def block_35(n: Callable[[int], int], inputs: int, pool: int) -> Branches:
    """Figure 5 of the paper, on the 35 x 35 grid."""
    return Branches(
        [
            Conv(inputs, n(64), 1),
            nn.Sequential(Conv(inputs, n(48), 1), Conv(n(48), n(64), 5, padding=2)),
            nn.Sequential(Conv(inputs, n(64), 1), Conv(n(64), n(96), 3, padding=1), Conv(n(96), n(96), 3, padding=1)),
            nn.Sequential(MeanPool(), Conv(inputs, pool, 1)),
        ]
    )


def reduce_35(n: Callable[[int], int], inputs: int) -> Branches:
    """35 x 35 -> 17 x 17."""
    return Branches(
        [
            Conv(inputs, n(384), 3, stride=2),
            nn.Sequential(Conv(inputs, n(64), 1), Conv(n(64), n(96), 3, padding=1), Conv(n(96), n(96), 3, stride=2)),
            MaxPool(),
        ]
    )


def block_17(n: Callable[[int], int], inputs: int, inner: int) -> Branches:
    """Figure 6, on the 17 x 17 grid: 7 x 7 convolutions factored into 1 x 7 and 7 x 1."""
    row: dict[str, Kernel] = {"kernel": (1, 7), "padding": (0, 3)}
    column: dict[str, Kernel] = {"kernel": (7, 1), "padding": (3, 0)}
    return Branches(
        [
            Conv(inputs, n(192), 1),
            nn.Sequential(Conv(inputs, inner, 1), Conv(inner, inner, **row), Conv(inner, n(192), **column)),
            nn.Sequential(
                Conv(inputs, inner, 1),
                Conv(inner, inner, **column),
                Conv(inner, inner, **row),
                Conv(inner, inner, **column),
                Conv(inner, n(192), **row),
            ),
            nn.Sequential(MeanPool(), Conv(inputs, n(192), 1)),
        ]
    )


def reduce_17(n: Callable[[int], int], inputs: int) -> Branches:
    """17 x 17 -> 8 x 8."""
    return Branches(
        [
            nn.Sequential(Conv(inputs, n(192), 1), Conv(n(192), n(320), 3, stride=2)),
            nn.Sequential(
                Conv(inputs, n(192), 1),
                Conv(n(192), n(192), (1, 7), padding=(0, 3)),
                Conv(n(192), n(192), (7, 1), padding=(3, 0)),
                Conv(n(192), n(192), 3, stride=2),
            ),
            MaxPool(),
        ]
    )


def split_3x3(n: Callable[[int], int], inputs: int) -> Branches:
    """1 x 3 beside 3 x 1, concatenated (inside figure 7)."""
    return Branches([Conv(inputs, n(384), (1, 3), padding=(0, 1)), Conv(inputs, n(384), (3, 1), padding=(1, 0))])


def block_8(n: Callable[[int], int], inputs: int) -> Branches:
    """Figure 7, on the 8 x 8 grid."""
    return Branches(
        [
            Conv(inputs, n(320), 1),
            nn.Sequential(Conv(inputs, n(384), 1), split_3x3(n, n(384))),
            nn.Sequential(Conv(inputs, n(448), 1), Conv(n(448), n(384), 3, padding=1), split_3x3(n, n(384))),
            nn.Sequential(MeanPool(), Conv(inputs, n(192), 1)),
        ]
    )


class Inception(nn.Module):
    """(images [batch, 3, side, side], labels int64 [batch]) -> mean cross-entropy."""

    def __init__(self, size: InceptionSize) -> None:
        super().__init__()

        def n(width: int) -> int:
            return width // size.divisor

        self.stem = nn.Sequential(
            Conv(3, n(32), 3, stride=2),
            Conv(n(32), n(32), 3),
            Conv(n(32), n(64), 3, padding=1),
            MaxPool(),
            Conv(n(64), n(80), 1),
            Conv(n(80), n(192), 3),
            MaxPool(),
        )
        self.blocks = nn.Sequential(
            block_35(n, n(192), n(32)),
            block_35(n, n(256), n(64)),
            block_35(n, n(288), n(64)),
            reduce_35(n, n(288)),
            block_17(n, n(768), n(128)),
            block_17(n, n(768), n(160)),
            block_17(n, n(768), n(160)),
            block_17(n, n(768), n(192)),
            reduce_17(n, n(768)),
            block_8(n, n(1280)),
            block_8(n, n(2048)),
        )
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(n(2048), size.classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.blocks(self.stem(images))
        x = self.dropout(F.adaptive_avg_pool2d(x, 1)).flatten(1)
        return F.cross_entropy(self.head(x), labels)


def build(size: InceptionSize) -> tuple[Inception, tuple[Tensor, Tensor]]:
    """The module and its example inputs (images, labels)."""
    images = torch.randn(size.batch, 3, size.image, size.image)
    return Inception(size), (images, torch.randint(size.classes, (size.batch,)))
