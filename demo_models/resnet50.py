"""ResNet-50 (He et al. 2015), with the stride on the 3 x 3 convolution as most training code has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4
"""A bottleneck's output is 4 x its inner width."""


@dataclass(frozen=True, slots=True)
class ResNetSize:
    """blocks per stage, width of the first stage, classes, image side in pixels, batch = samples."""

    blocks: tuple[int, ...]
    width: int
    classes: int
    image: int
    batch: int


SIZES = {
    "real": ResNetSize(blocks=(3, 4, 6, 3), width=64, classes=1000, image=224, batch=4),
    "small": ResNetSize(blocks=(1, 1, 1, 1), width=4, classes=10, image=32, batch=4),
}


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """(images [batch, 3, side, side], labels int64 [batch]) -> mean cross-entropy."""

    def __init__(self, size: ResNetSize) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, size.width, 7, stride=2, padding=3, bias=False)
        self.bn = nn.BatchNorm2d(size.width)
        stages: list[nn.Module] = []
        inputs = size.width
        for stage, count in enumerate(size.blocks):
            width = size.width * 2**stage
            blocks = []
            for block in range(count):
                blocks.append(Bottleneck(inputs, width, stride=2 if stage > 0 and block == 0 else 1))
                inputs = width * EXPANSION
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, size.classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = F.relu(self.bn(self.conv(images)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = F.adaptive_avg_pool2d(self.stages(x), 1).flatten(1)
        return F.cross_entropy(self.head(x), labels)


def build(size: ResNetSize) -> tuple[ResNet, tuple[Tensor, Tensor]]:
    """The module and its example inputs (images, labels)."""
    images = torch.randn(size.batch, 3, size.image, size.image)
    return ResNet(size), (images, torch.randint(size.classes, (size.batch,)))
