"""Mini-batches from a person's iterator: the same ones on every rank, of the shapes that the plan was made for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from explorer.runner.model.program import Program
from explorer.runner.training.models import Inputs
from explorer.runner.training.ranks import Ranks
from solvers.errors import RunError

Batches = Iterable[object] | Callable[[int], Iterable[object]]
"""Mini-batches in order; or what gives those from a number on, so that a training that goes on need not draw the ones
before."""
T = TypeVar("T")
HAS, ENDED, FAILED = 0, 1, 2


class Feed:
    """Draws the mini-batches from number ``first`` on, on every rank at once."""

    def __init__(self, batches: Batches, ranks: Ranks, first: int) -> None:
        self.ranks, self.taken = ranks, first
        self._iterator: Iterator[object] = ranks.agreed(lambda: _from(batches, first), "batches")

    def next(self, read: Callable[[object], T]) -> T | None:
        """What ``read`` makes of the next mini-batch; None where there are no more. Raises RunError on every rank if it
        fails on one, or has come to an end on one and not on another."""
        error: Exception | None = None
        made, state = None, HAS
        try:
            made = read(next(self._iterator))
        except StopIteration:
            state = ENDED
        except Exception as problem:
            error, state = problem, FAILED
        least, most = self.ranks.extremes(state)
        if most == FAILED:
            self.ranks.settle(error, f"batches, number {self.taken}")
        if least != most:
            raise RunError(
                f"batches: they end after {self.taken} mini-batches on one rank and go on, on another; give every rank"
                " the same"
            )
        if most == ENDED:
            return None
        self.taken += 1
        return made


def _from(batches: Batches, first: int) -> Iterator[object]:
    if callable(batches):
        return iter(batches(first))
    iterator = iter(batches)
    drawn = sum(1 for _ in islice(iterator, first))
    if drawn < first:
        raise RunError(f"batches: they end after {drawn}, and {first} were taken before; give those that follow too")
    return iterator


def divided(batch: object, with_targets: bool) -> tuple[object, object]:
    """(inputs, targets). Raises RunError if targets are wanted and are not there."""
    if not with_targets:
        return batch, None
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        given = f"{len(batch)} values" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise RunError(f"batches: with loss= a mini-batch is (inputs, targets), found {given}")
    return batch[0], batch[1]


def called_with(inputs: object) -> Inputs:
    """Arguments by position and by name, of a tensor, a tuple or a dict by name. Raises RunError."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, dict):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    raise RunError(
        "batches: a mini-batch's inputs are a tensor, a tuple of arguments or a dict by name, found"
        f" {type(inputs).__name__}"
    )


class Reader:
    """Checks mini-batches against a traced model, and brings them to a rank's device.

    example: what the model was traced with. mini_batch: samples of the plan's.
    """

    def __init__(self, program: Program, example: Inputs, mini_batch: int, device: torch.device) -> None:
        self.mini_batch, self.device = mini_batch, device
        self.names = list(example[1])
        captured = program.captured
        self.metas = []
        """(shape, dtype) of the model's tensor inputs, in order."""
        for name in captured.inputs:
            value, dim = captured.values[name], program.sample_dim(name)
            shape = list(value.shape)
            if dim is not None:
                shape[dim] = shape[dim] // captured.samples * mini_batch
            self.metas.append((tuple(shape), getattr(torch, value.dtype)))

    def read(self, inputs: object, targets: object) -> tuple[tuple[Tensor, ...], object]:
        """(the model's tensor inputs in order, the targets), on the device. Raises RunError."""
        args, by_name = called_with(inputs)
        if set(by_name) != set(self.names):
            expected = ", ".join(self.names) or "arguments by position"
            named = ", ".join(map(str, by_name)) or "arguments by position"
            raise RunError(f"batches: the model was traced with {expected}, found {named}")
        given = (args, {name: by_name[name] for name in self.names})
        tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor)]
        if len(tensors) != len(self.metas):
            raise RunError(f"batches: the model takes {len(self.metas)} tensors, found {len(tensors)}")
        ready = tuple(self._input(k, tensor) for k, tensor in enumerate(tensors))
        return ready, pytree.tree_map_only(Tensor, self._target, targets)

    def _input(self, position: int, tensor: Tensor) -> Tensor:
        shape, dtype = self.metas[position]
        same = tensor.dtype == dtype or (dtype.is_floating_point and tensor.is_floating_point())
        if tuple(tensor.shape) != shape or not same:
            raise RunError(
                f"batches: input {position} must be {list(shape)} {_name(dtype)} for the plan's mini-batch of"
                f" {self.mini_batch} samples, found {list(tensor.shape)} {_name(tensor.dtype)}"
            )
        return tensor.detach().to(device=self.device, dtype=dtype)

    def _target(self, tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != self.mini_batch:
            raise RunError(
                f"batches: the first dimension of targets must be the plan's mini-batch of {self.mini_batch} samples,"
                f" found {list(tensor.shape)}"
            )
        return tensor.detach().to(self.device)


def checksum(batch: object) -> int:
    """Of the values of all tensors: equal mini-batches have equal ones."""
    crc = 0
    for leaf in pytree.tree_leaves(batch):
        if isinstance(leaf, Tensor):
            crc = zlib.crc32(leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data, crc)
    return crc


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
