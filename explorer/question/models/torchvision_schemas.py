"""torchvision beside a torch that its compiled part was not built for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util

import torch

MISSING = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""What torchvision gives shapes for when it is imported, and cannot where its compiled part does not load (that of
PyPI needs a CUDA build of torch)."""

_declared: list[torch.library.Library] = []
"""Declarations last as long as the library object."""


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
