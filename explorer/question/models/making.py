"""Where a model of a library and its example are made: on meta, as sizes alone, or really."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from dataclasses import dataclass

import torch
from torch import Tensor

MISSING = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""What torchvision gives shapes for when it is imported, and cannot where its compiled part does not load (that of
PyPI needs a CUDA build of torch)."""

_declared: list[torch.library.Library] = []
"""Declarations last as long as the library object."""


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


def declare_missing() -> None:
    """Makes torchvision importable where its compiled part does not load: its operators have schemas then and no
    code, so a model that calls one is refused by its name."""
    if _declared or importlib.util.find_spec("torchvision") is None:
        return
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        importlib.import_module("torchvision")
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in MISSING:
        name = schema.partition("(")[0]
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)  # type: ignore[no-untyped-call]
    _declared.append(library)
