"""Models of `timm` and `torchvision` by name, with the loss of what they give: classes of images or of pixels."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.question.models.example import Example, Made
from explorer.question.models.making import Making, declare_missing
from solvers.errors import TraceError

BATCH = 8
"""Samples of the example."""
TAKEN = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
IMAGE = 224
"""Pixels of a side where the library does not say."""


def make_timm(name: str, example: Example, training: bool, making: Making) -> Made:
    """See `libraries.make_of_library`."""
    declare_missing()
    timm: Any = importlib.import_module("timm")
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('_')[0]}*")[:3]
        raise TraceError(f"timm has no model of that name{'; it has ' + ', '.join(close) + ', ...' if close else ''}")
    stated = {} if example.image is None else {"img_size": example.image}
    with making.device:
        try:
            module = timm.create_model(name, pretrained=False, **stated)
        except TypeError:  # convolutions take any size
            module = timm.create_model(name, pretrained=False)
    channels, side, _ = getattr(module, "default_cfg", {}).get("input_size", (3, IMAGE, IMAGE))
    return _with_loss(module, example, channels, side, training, making)


def make_torchvision(name: str, example: Example, training: bool, making: Making) -> Made:
    """See `libraries.make_of_library`."""
    declare_missing()
    models: Any = importlib.import_module("torchvision.models")
    if name not in models.list_models():
        close = [known for known in models.list_models() if name.split("_")[0] in known][:3]
        raise TraceError(
            f"torchvision has no model of that name{'; it has ' + ', '.join(close) + ', ...' if close else ''}"
        )
    build = models.get_model_builder(name)
    if build.__module__.startswith("torchvision.models.detection") and training:
        raise TraceError(
            "a detection model chooses boxes by their values, so its training has no fixed operator graph; name its"
            " backbone instead (torchvision:resnet50), or trace that part of it"
        )
    takes = signature(build).parameters
    extra: dict[str, Any] = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    # Left out, the weights of a backbone would be fetched.
    extra |= {key: None for key in ("weights", "weights_backbone") if key in takes}
    with making.device:
        module = build(**extra)
    if type(module).__module__.startswith("torchvision.models.video"):
        side = example.image or _cropped(models, name) or IMAGE
        inputs: dict[str, Any] = {"x": making.numbers(example.samples or BATCH, 3, 16, side, side)}
        return _classified(module, inputs, training)
    needed = [p.name for p in signature(module.forward).parameters.values() if p.default is p.empty and p.kind in TAKEN]
    if len(needed) > 1:
        raise TraceError(
            f"its forward takes {' and '.join(needed)}, and an example of one image is all that is made here; give a"
            " function of yours that returns it with its inputs (file.py:make)"
        )
    return _with_loss(module, example, 3, _cropped(models, name) or IMAGE, training, making)


def _cropped(models: Any, name: str) -> int | None:
    """Pixels of a side as the library prepares images for its own weights, which are not fetched."""
    weights = models.get_model_weights(name)
    size = getattr(weights.DEFAULT.transforms(), "crop_size", None) if len(weights) else None
    return size if isinstance(size, int) else int(size[0]) if size else None


def _with_loss(module: nn.Module, example: Example, channels: int, side: int, training: bool, making: Making) -> Made:
    batch, side = example.samples or BATCH, example.image or side
    return _classified(module, {"x": making.numbers(batch, channels, side, side)}, training)


def _classified(module: nn.Module, inputs: dict[str, Any], training: bool) -> Made:
    """The same module with a class that returns its loss: no name of a module changes. The targets are classes of
    images, or of pixels where the model gives a map."""
    if not training:
        return module, {next(iter(_arguments(module))): inputs["x"]}, ()
    of = type(module)

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        losses = [_loss(score) for score in _scores(of.forward(self, x))]
        return torch.stack(losses).sum() if len(losses) > 1 else losses[0]

    module.__class__ = type(of.__name__, (of,), {"forward": forward, "__module__": of.__module__})
    return module, inputs, ("the loss is the cross-entropy of what the model gives",)


def _arguments(module: nn.Module) -> Iterator[str]:
    yield from signature(module.forward).parameters


def _scores(given: object) -> list[Tensor]:
    """Everything of [samples, classes, ...] among the outputs."""
    if isinstance(given, Tensor):
        return [given]
    values = list(given.values()) if isinstance(given, Mapping) else list(given) if isinstance(given, tuple) else []
    scores = [score for value in values for score in _scores(value)]
    if not scores:
        raise TraceError("the model gives no scores of classes to take a loss of; trace it with --inference")
    return scores


def _loss(score: Tensor) -> Tensor:
    if score.dim() < 2:
        return score.float().mean()
    target = torch.zeros((score.shape[0], *score.shape[2:]), dtype=torch.int64, device=score.device)
    return F.cross_entropy(score, target)
