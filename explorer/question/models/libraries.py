"""Models of installed libraries with their loss and an example, on the meta device or really made: nothing is
downloaded.

"hf:FOLDER", "hf:config.json" and "hf:TYPE" (transformers, a type with its default config), "timm:NAME",
"torchvision:NAME". These libraries are no dependencies of this package: whoever has them may name them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from explorer.question.models.example import Example, Made, split_example
from solvers.errors import PlacementError, TraceError

if TYPE_CHECKING:
    from explorer.question.models.making import Making

PACKAGES = {"hf": "transformers", "timm": "timm", "torchvision": "torchvision"}
"""Prefix -> the package that must be there."""


def library_of(model: str) -> str | None:
    """The prefix of a model of an installed library; None for other names."""
    prefix, separator, name = model.partition(":")
    return prefix if separator and name and prefix in PACKAGES else None


def graph_name(model: str) -> str:
    """What the graph of a library's model is called: its name, or the last part of its path."""
    return split_example(model)[0].partition(":")[2].rstrip(os.sep).rpartition(os.sep)[2]


def make_of_library(model: str, example: Example, *, training: bool, real: bool = False) -> Made:
    """real: parameters as the library begins a training with them, and an example, by torch's seed; else all is on
    meta. Raises TraceError in one line if the library is not there, or makes no such model."""
    prefix, _, name = model.partition(":")
    if importlib.util.find_spec(PACKAGES[prefix]) is None:
        raise TraceError(f"{model}: needs the package {PACKAGES[prefix]}, which is not installed here")
    from explorer.question.models import transformers_models, vision_models
    from explorer.question.models.making import Making

    makers: dict[str, Callable[[str, Example, bool, Making], Made]] = {
        "hf": transformers_models.make,
        "timm": vision_models.make_timm,
        "torchvision": vision_models.make_torchvision,
    }
    try:
        return makers[prefix](name, example, training, Making(real))
    except PlacementError as error:
        raise TraceError(f"{model}: {error}") from error
    except Exception as error:
        message = (str(error).strip().splitlines() or ["no message"])[0][:300]
        raise TraceError(f"{model}: {PACKAGES[prefix]} could not make it: {type(error).__name__}: {message}") from error
