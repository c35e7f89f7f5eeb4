"""Models of installed libraries, on the meta device, with their loss and an example: nothing is downloaded.

"hf:FOLDER", "hf:config.json" and "hf:TYPE" (transformers, a type with its default config), "timm:NAME",
"torchvision:NAME". These libraries are no dependencies of this package: whoever has them may name them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from explorer.question.models.example import Example, Made
from solvers.errors import PlacementError, TraceError

PACKAGES = {"hf": "transformers", "timm": "timm", "torchvision": "torchvision"}
"""Prefix -> the package that must be there."""


def library_of(model: str) -> str | None:
    """The prefix of a model of an installed library; None for other names."""
    prefix, separator, name = model.partition(":")
    return prefix if separator and name and prefix in PACKAGES else None


def make_of_library(model: str, example: Example, *, training: bool) -> Made:
    """Raises TraceError in one line if the library is not there, or makes no such model."""
    prefix, _, name = model.partition(":")
    if importlib.util.find_spec(PACKAGES[prefix]) is None:
        raise TraceError(f"{model}: needs the package {PACKAGES[prefix]}, which is not installed here")
    from explorer.question.models import transformers_models, vision_models

    makers: dict[str, Callable[[str, Example, bool], Made]] = {
        "hf": transformers_models.make,
        "timm": vision_models.make_timm,
        "torchvision": vision_models.make_torchvision,
    }
    try:
        return makers[prefix](name, example, training)
    except PlacementError as error:
        raise TraceError(f"{model}: {error}") from error
    except Exception as error:
        said = (str(error).strip().splitlines() or ["no message"])[0][:300]
        raise TraceError(f"{model}: {PACKAGES[prefix]} could not make it: {type(error).__name__}: {said}") from error
