"""A model's module with only the parameters that are wanted in memory."""

from __future__ import annotations

import copy
import importlib
import random
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from demo_models import MODELS
from explorer.question.models.code import module_of
from explorer.question.models.example import split_example, undivided
from explorer.question.models.libraries import library_of, make_of_library
from explorer.runner.model.deferred_init import Making, Seeding, Survey, Surveying
from explorer.runner.model.permission import why_not
from explorer.words.text import first_line
from solvers.errors import PlacementError, RunError

Builder = Callable[[], object]
"""() -> (module, example inputs) or (module, args, kwargs)."""


@dataclass(frozen=True)
class Built:
    """module with its example: args and kwargs as given. notes: what a person should know."""

    module: nn.Module
    args: tuple[object, ...]
    kwargs: dict[str, object]
    notes: tuple[str, ...] = field(default=())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor inputs, flat, in the order that the exported program takes them."""
        return tuple(leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor))


def builder(reference: str, *, allow_model: bool, batch: int | None = None) -> Builder:
    """What makes (module, example inputs). Imports the module of a reference to one, which runs its code.

    batch: samples of the example, for a demo model. Raises RunError if it is none that can be run, or may not be."""
    if refusal := why_not(reference, allow_model=allow_model):
        raise RunError(refusal)
    reference = undivided(reference)
    if reference in MODELS:
        demo = MODELS[reference]
        if batch is None:
            return demo.build
        family = importlib.import_module(f"demo_models.{demo.module}")
        return lambda: family.build(replace(family.SIZES[demo.size], batch=batch))
    if library_of(reference) is not None:
        return _of_library(reference, batch)
    module_name, _, attribute = reference.rpartition(":")
    try:
        with redirect_stdout(sys.stderr), seeded(0), Seeding(0).active():
            builds = getattr(module_of(module_name), attribute)
    except PlacementError as error:
        raise RunError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise RunError(f"{reference}: {type(error).__name__}: {first_line(error)}") from error
    if not callable(builds):
        raise RunError(f"{reference}: expected something to call, found {type(builds).__name__}")
    return builds  # type: ignore[no-any-return]


def _of_library(reference: str, batch: int | None) -> Builder:
    """What really makes a model that was traced on meta, for training. batch: samples of its example."""
    name, written = split_example(reference)
    example = written if batch is None else replace(written, batch=batch)

    def make() -> tuple[nn.Module, tuple[()], dict[str, Any]]:
        module, inputs, _ = make_of_library(name, example, training=True, real=True)
        return module, (), inputs

    return make


def construct(reference: str, *, wanted: Collection[str] | None, seed: int, allow_model: bool) -> Built:
    """The module with the values that ``seed`` gives, the same whatever is wanted.

    wanted: names of the parameters that take memory (None: all); the others are on the meta device. Buffers,
    other tensors of the module and example inputs are always real. Raises RunError."""
    return Maker(reference, allow_model=allow_model).build(wanted, seed)


class Maker:
    """Makes the module of one reference, once or several times."""

    def __init__(
        self, reference: str, *, allow_model: bool, batch: int | None = None, make: Builder | None = None
    ) -> None:
        """batch: as in `builder`. make: what makes it, where that is at hand; the reference then is but its name."""
        self.reference = reference
        self.make = make or builder(reference, allow_model=allow_model, batch=batch)
        self._unsurveyed = ""

    def build(self, wanted: Collection[str] | None, seed: int) -> Built:
        """See `construct`."""
        survey = self.survey
        if wanted is None:
            return self._own(self._made(Seeding(seed)))
        if survey is None:
            return self._own(self._whole(wanted, seed, self._unsurveyed))
        unknown = sorted(set(wanted) - survey.parameters.keys())
        if unknown:
            raise RunError(f"{self.reference}: the model has no parameter {unknown[0]}")
        try:
            built = self._made(Making(seed, survey, survey.spared(wanted)))
        except RunError as error:
            return self._own(self._whole(wanted, seed, first_line(error)))
        missing = [name for name, p in built.module.named_parameters() if p.is_meta and name in wanted]
        if missing:
            return self._own(self._whole(wanted, seed, f"{missing[0]} is not made by operators"))
        real = [name for name, p in built.module.named_parameters() if not p.is_meta and name not in wanted]
        return self._own(replace(built, notes=_notes(real)))

    @cached_property
    def survey(self) -> Survey | None:
        """How the module is made; None if that cannot be seen without making it."""
        mode = Surveying(0)
        try:
            built = self._made(mode)
        except RunError as error:
            self._unsurveyed = first_line(error)
            return None
        return mode.finish(built.module, built.tensors)

    def _made(self, mode: Seeding) -> Built:
        with seeded(mode.seed), mode.active():
            return _call(self.make, self.reference)

    def _whole(self, wanted: Collection[str], seed: int, why: str) -> Built:
        built = self._made(Seeding(seed))
        return replace(built, notes=(f"every rank makes the whole model before it drops what is not its own: {why}",))

    def _own(self, built: Built) -> Built:
        """A module that was there before it was asked for is another's: a copy is ours."""
        foreign = self.survey is None or self.survey.foreign
        return replace(built, module=copy.deepcopy(built.module)) if foreign else built


def _notes(real: list[str]) -> tuple[str, ...]:
    if not real:
        return ()
    are = "parameter of other ranks is" if len(real) == 1 else "parameters of other ranks are"
    return (f"{len(real)} {are} made here too, and dropped ({real[0]}): no operator of PyTorch made them",)


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
        raise RunError(f"{reference}: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        raise RunError(f"{reference}: expected it to return (module, example inputs) or (module, args, kwargs)")
    module, inputs = made[:2]
    by_name = dict(made[2]) if len(made) == 3 else {}
    if isinstance(inputs, Tensor):
        return Built(module, (inputs,), by_name)
    if isinstance(inputs, dict):
        return Built(module, (), {**inputs, **by_name})
    return Built(module, tuple(inputs), by_name)
