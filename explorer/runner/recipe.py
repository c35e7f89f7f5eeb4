"""What a run began with, for a custom loop: the model with the run's parameters, and its samples.

    recipe = run_recipe("bundle")
    for inputs in recipe.micro_batches(4):
        loss = recipe.loss(inputs) * 4 / recipe.count   # of the mini-batch: the mean over its samples
        loss.backward()

With `run --dump` the same gradients, and the parameters after the update, are in the bundle's tensors-<rank>.npz.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from explorer.runner.bundles.bundle import read_bundle
from explorer.runner.model.construct import construct
from explorer.runner.model.optimizers import floating
from explorer.runner.model.program import planned_dtype
from explorer.runner.model.samples import make_samples
from explorer.runner.scripts.executable import optimizer_of
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import read_plan


@dataclass(frozen=True)
class Recipe:
    """module: in training mode or not, as the run's, with the values its parameters began with, its dropout layers
    off. samples: the tensor
    inputs of the mini-batch, flat, ``count`` samples. optimizer: its name, of step size ``learning_rate``.

    The run's own loss is the mean over the elements of each floating output, the outputs added, of each share of a
    micro-batch by its number of samples; a module that returns a scalar is its own loss."""

    module: nn.Module
    samples: tuple[Tensor, ...]
    count: int
    optimizer: str
    learning_rate: float
    tree: pytree.TreeSpec
    leaves: tuple[object, ...]

    def micro_batches(self, size: int) -> Iterator[tuple[Tensor, ...]]:
        """The samples in pieces of ``size``; an input without a batch goes whole into each."""
        if not 1 <= size <= self.count or self.count % size:
            raise InvalidProblem(f"size: expected a divisor of {self.count} samples, found {size!r}")
        for first in range(0, self.count, size):
            yield tuple(
                value.narrow(0, first, size) if value.dim() and value.shape[0] == self.count else value
                for value in self.samples
            )

    def loss(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Of the module on such inputs, a scalar that a backward can begin at."""
        given = iter(inputs)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        outputs = pytree.tree_leaves(self.module(*args, **kwargs))
        ends = [value.mean() for value in outputs if isinstance(value, Tensor) and value.is_floating_point()]
        return torch.stack(ends).sum()


def run_recipe(bundle: str | Path, *, allow_model: bool = False) -> Recipe:
    """What the run of a bundle began with, on the CPU. allow_model: as of `run`, for a model that is somebody's code.

    Raises InvalidProblem for a folder that is no bundle, RunError for a model that cannot be made."""
    text, request = read_bundle(Path(bundle))
    file = read_plan(text, "plan.json")
    problem = file.problem
    built = construct(file.reference, wanted=None, seed=request.seed, allow_model=allow_model)
    dtype = floating(request.dtype) or planned_dtype(built.module, problem.graph)
    module = built.module.to(dtype).train(problem.training)
    for part in module.modules():  # what is dumped is without dropout, too
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
    count = problem.mini_batch
    samples = make_samples(file.reference, count, seed=request.seed, dtype=dtype, device="cpu", allow_model=allow_model)
    leaves, tree = pytree.tree_flatten((built.args, built.kwargs))
    return Recipe(
        module, samples, count, optimizer_of(problem, request.optimizer), request.learning_rate, tree, tuple(leaves)
    )
