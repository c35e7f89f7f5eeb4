"""The model that a person hands in: what makes it, a module that is there, or a name."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from explorer.runner.model.construct import Built, Maker
from solvers.errors import RunError

Inputs = tuple[tuple[object, ...], dict[str, object]]
"""Arguments by position and by name."""


class Source(Protocol):
    """Where a rank's part of the model comes from. name: what messages call it."""

    @property
    def name(self) -> str: ...

    def build(self, wanted: Collection[str] | None, seed: int) -> Built:
        """The module; only the parameters that are wanted need be there (None: all). Raises RunError."""


@dataclass(frozen=True)
class Made:
    """Made by code, which draws its parameters by seed; only what a rank wants takes memory there."""

    name: str
    maker: Maker

    def build(self, wanted: Collection[str] | None, seed: int) -> Built:
        return self.maker.build(wanted, seed)


@dataclass(frozen=True)
class There:
    """A module with its values, say of a training before; every rank has all of it. It stays as it is."""

    name: str
    module: nn.Module
    inputs: Inputs

    def build(self, wanted: Collection[str] | None, seed: int) -> Built:
        return Built(copy.deepcopy(self.module), *self.inputs)


def source_of(model: object, first: Inputs) -> Source:
    """model: () -> (module, example inputs) or (module, args, kwargs); or an nn.Module, whose example is the ``first``
    mini-batch; or a name, as plans have it. Raises RunError."""
    if isinstance(model, nn.Module):
        return There(type(model).__name__, model, first)
    if isinstance(model, str):
        return Made(model, Maker(model, allow_model=True))
    if callable(model):
        make: Callable[[], Any] = model
        name = str(getattr(model, "__qualname__", type(model).__name__))
        return Made(name, Maker(name, allow_model=True, make=make))
    raise RunError(
        "model: expected what makes (module, example inputs), an nn.Module or the name of a model, found"
        f" {type(model).__name__}"
    )
