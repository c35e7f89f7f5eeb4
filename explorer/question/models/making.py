"""Where a model of a library and its example are made: on meta, as sizes alone, or really."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Making:
    """real: with values, random by torch's seed."""

    real: bool = False

    @property
    def device(self) -> torch.device:
        return torch.device("cpu" if self.real else "meta")

    def numbers(self, *shape: int) -> Tensor:
        """Of a picture or a sound, float32."""
        return torch.randn(shape) if self.real else torch.empty(shape, device="meta")

    def choices(self, below: int, *shape: int) -> Tensor:
        """Tokens or classes, int64 in [0, below)."""
        if self.real:
            return torch.randint(max(1, below), shape)
        return torch.zeros(shape, dtype=torch.int64, device="meta")
