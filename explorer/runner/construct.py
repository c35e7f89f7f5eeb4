"""A model's module with only the parameters that are wanted; first version: everything, ours kept."""

from __future__ import annotations

import importlib
import os
import random
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from demo_models import MODELS
from solvers.errors import PlacementError, RunError

Builder = Callable[[], Any]


@dataclass(frozen=True)
class Built:
    """module with its example: args and kwargs as given. notes: what a person should know."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    notes: tuple[str, ...] = field(default=())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor inputs, flat, in the order that the exported program takes them."""
        return tuple(leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor))


def builder(reference: str, *, allow_model: bool) -> Builder:
    """What makes (module, example inputs). Imports the module of a reference to one, which runs its code.

    Raises RunError if it is none that can be run, or may not be."""
    if reference in MODELS:
        return MODELS[reference].build
    module_name, separator, attribute = reference.partition(":")
    names = (*module_name.split("."), attribute)
    if not separator or not all(name.isidentifier() for name in names):
        raise RunError(
            f"{reference}: only the code of a model can be run, and this is not a reference to code; plan a demo model"
            " or package.module:callable (a file holds the graph alone)"
        )
    if not allow_model:
        raise RunError(f"{reference}: running it runs its code, which was not allowed; allow it if you trust it")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr), seeded(0):
            found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:
        raise RunError(f"{reference}: {type(error).__name__}: {_first_line(error)}") from error
    if not callable(found):
        raise RunError(f"{reference}: expected something to call, found {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def construct(reference: str, *, wanted: Collection[str] | None, seed: int, allow_model: bool) -> Built:
    """wanted: names of the parameters that take memory (None: all)."""
    make = builder(reference, allow_model=allow_model)
    with seeded(seed):
        return _call(make, reference)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from ``seed``, and as before afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _call(make: Builder, reference: str) -> Built:
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make()
    except PlacementError:
        raise
    except (Exception, SystemExit) as error:
        raise RunError(f"{reference}: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        raise RunError(f"{reference}: expected it to return (module, example inputs) or (module, args, kwargs)")
    module, inputs = made[:2]
    by_name = dict(made[2]) if len(made) == 3 else {}
    if isinstance(inputs, Tensor):
        return Built(module, (inputs,), by_name)
    if isinstance(inputs, dict):
        return Built(module, (), {**inputs, **by_name})
    return Built(module, tuple(inputs), by_name)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0][:300]
