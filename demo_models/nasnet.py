"""NASNet-A (Zoph et al. 2018, "Learning Transferable Architectures for Scalable Image Recognition").

Every cell reads the outputs of the two cells before it (its own input is the latest). A cell is five
blocks, each the sum of two operations, and gives all that no block has read, side by side (figure 4).
Two reduction cells follow the first convolution (figure 2, ImageNet); then come three runs of normal
cells with a reduction cell between.

Where a cell's two inputs differ in size, the older one is fitted to the newer one as in the authors'
code (TensorFlow models, slim/nets/nasnet). ScheduledDropPath and the auxiliary head, which only help
training, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class NASNetSize:
    """cells = normal cells of a run; filters of the last cell (a multiple of 96, "4032" in the paper's
    "6 @ 4032"); stem = those of the first convolution; image = side in pixels; batch = samples."""

    cells: int
    filters: int
    stem: int
    classes: int
    image: int
    batch: int


SIZES = {
    "real": NASNetSize(cells=6, filters=4032, stem=96, classes=1000, image=331, batch=4),
    "mobile": NASNetSize(cells=4, filters=1056, stem=32, classes=1000, image=224, batch=4),
    "small": NASNetSize(cells=1, filters=96, stem=8, classes=10, image=64, batch=4),
}


@dataclass(frozen=True, slots=True)
class Grid:
    """A cell's output: its channels, and how often it was halved since the first convolution."""

    channels: int
    halved: int


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=0.001)


class Pointwise(nn.Sequential):
    """ReLU, a 1 x 1 convolution without bias, batch norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.ReLU(), nn.Conv2d(inputs, outputs, 1, bias=False), norm(outputs))


class Separable(nn.Sequential):
    """A separable convolution, applied twice (appendix A.4); the first time with the stride."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(*self._once(inputs, outputs, kernel, stride), *self._once(outputs, outputs, kernel, 1))

    @staticmethod
    def _once(inputs: int, outputs: int, kernel: int, stride: int) -> tuple[nn.Module, ...]:
        return (
            nn.ReLU(),
            nn.Conv2d(inputs, inputs, kernel, stride=stride, padding=kernel // 2, groups=inputs, bias=False),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            norm(outputs),
        )


class Halve(nn.Module):
    """Half as wide and high: every second pixel, and every second one shifted by one each way, each
    through a 1 x 1 convolution to half of the channels, so that no part of the image is lost."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.odd = nn.Conv2d(inputs, outputs - outputs // 2, 1, bias=False)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        parts = self.even(F.avg_pool2d(x, 1, stride=2)), self.odd(F.avg_pool2d(shifted, 1, stride=2))
        return self.norm(torch.cat(parts, 1))


def mean(x: Tensor, stride: int = 1) -> Tensor:
    return F.avg_pool2d(x, 3, stride=stride, padding=1, count_include_pad=False)


def largest(x: Tensor) -> Tensor:
    """Halves the grid."""
    return F.max_pool2d(x, 3, stride=2, padding=1)


class Cell(nn.Module):
    """(output of the cell before the last, output of the last cell) -> [batch, outputs, side, side].

    before is None for the first cell: both of its inputs are the first convolution, and the older is
    taken as it is.
    """

    def __init__(self, before: Grid | None, last: Grid, width: int) -> None:
        super().__init__()
        self.squeeze = Pointwise(last.channels, width)
        self.fitted = last.channels if before is None else width
        self.fit: nn.Module = nn.Identity()
        if before is not None:
            self.fit = (Halve if before.halved < last.halved else Pointwise)(before.channels, width)

    @staticmethod
    def grid(last: Grid, width: int) -> Grid:
        """Of the output."""
        raise NotImplementedError


class NormalCell(Cell):
    """outputs = 6 x width, on the grid of the last cell."""

    @staticmethod
    def grid(last: Grid, width: int) -> Grid:
        return Grid(6 * width, last.halved)

    def __init__(self, before: Grid | None, last: Grid, width: int) -> None:
        super().__init__(before, last, width)
        self.x_5x5 = Separable(width, width, 5)
        self.x_3x3 = Separable(width, width, 3)
        self.y_5x5 = Separable(self.fitted, width, 5)
        self.y_3x3a = Separable(self.fitted, width, 3)
        self.y_3x3b = Separable(self.fitted, width, 3)

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        x, y = self.squeeze(last), self.fit(before)
        blocks = (
            self.x_5x5(x) + self.y_3x3a(y),
            self.y_5x5(y) + self.y_3x3b(y),
            mean(x) + y,
            mean(y) + mean(y),
            self.x_3x3(x) + x,
        )
        return torch.cat((y, *blocks), 1)


class ReductionCell(Cell):
    """outputs = 4 x width, on a grid half as wide and high."""

    @staticmethod
    def grid(last: Grid, width: int) -> Grid:
        return Grid(4 * width, last.halved + 1)

    def __init__(self, before: Grid | None, last: Grid, width: int) -> None:
        super().__init__(before, last, width)
        self.x_5x5 = Separable(width, width, 5, stride=2)
        self.y_7x7a = Separable(self.fitted, width, 7, stride=2)
        self.y_7x7b = Separable(self.fitted, width, 7, stride=2)
        self.y_5x5 = Separable(self.fitted, width, 5, stride=2)
        self.inner_3x3 = Separable(width, width, 3)

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        x, y = self.squeeze(last), self.fit(before)
        inner = self.x_5x5(x) + self.y_7x7a(y)
        second = largest(x) + self.y_7x7b(y)
        third = mean(x, stride=2) + self.y_5x5(y)
        return torch.cat((second, third, mean(inner) + second, self.inner_3x3(inner) + largest(x)), 1)


class NASNet(nn.Module):
    """(images [batch, 3, side, side], labels int64 [batch]) -> mean cross-entropy."""

    def __init__(self, size: NASNetSize) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, size.stem, 3, stride=2, bias=False), norm(size.stem))
        width = size.filters // 24
        # Filters double wherever the grid is halved; the run after the first two reductions has ``width``.
        plan: list[tuple[type[Cell], int]] = [(ReductionCell, width // 4), (ReductionCell, width // 2)]
        plan += [(NormalCell, width)] * size.cells
        for factor in (2, 4):
            plan += [(ReductionCell, factor * width), *[(NormalCell, factor * width)] * size.cells]
        self.cells = nn.ModuleList()
        before, last = None, Grid(size.stem, 0)
        for kind, filters in plan:
            self.cells.append(kind(before, last, filters))
            before, last = last, kind.grid(last, filters)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(last.channels, size.classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        before = last = self.stem(images)
        for cell in self.cells:
            before, last = last, cell(before, last)
        x = F.adaptive_avg_pool2d(F.relu(last), 1).flatten(1)
        return F.cross_entropy(self.head(self.dropout(x)), labels)


def build(size: NASNetSize) -> tuple[NASNet, tuple[Tensor, Tensor]]:
    """The module and its example inputs (images, labels)."""
    images = torch.randn(size.batch, 3, size.image, size.image)
    return NASNet(size), (images, torch.randint(size.classes, (size.batch,)))
