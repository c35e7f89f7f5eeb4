"""The samples of a mini-batch: examples of the model's builder under different seeds, joined."""

from __future__ import annotations

import torch
from torch import Tensor

from explorer.runner.model.construct import Maker
from explorer.runner.model.deferred_init import mixed
from explorer.runner.model.optimizers import floating
from solvers.errors import RunError


def make_samples(
    reference: str,
    count: int,
    *,
    seed: int,
    dtype: torch.dtype | str | None,
    device: torch.device | str,
    allow_model: bool = False,
) -> tuple[Tensor, ...]:
    """The model's tensor inputs, flat, for ``count`` samples, the same on every rank. They are as different from
    one another as the builder makes them under different seeds. An input whose first dimension is not the batch
    (that of the first tensor that has one) is that of the first example. Raises RunError."""
    maker = Maker(reference, allow_model=allow_model, batch=count)
    examples = [maker.build((), mixed(seed, 0)).tensors]
    while samples_in(examples[0], reference) * len(examples) < count:
        examples.append(maker.build((), mixed(seed, len(examples))).tensors)
        if len(examples) == 2 and _equal(*examples):  # always the same: asking again is of no use
            examples *= 1 + count // samples_in(examples[0], reference)
    batch, target = samples_in(examples[0], reference), floating(dtype)
    joined = []
    for position, first in enumerate(examples[0]):
        whole = first
        if first.dim() > 0 and first.shape[0] == batch:
            whole = torch.cat([example[position] for example in examples])[:count]
        wanted = target if target is not None and first.is_floating_point() else first.dtype
        joined.append(whole.detach().to(device=device, dtype=wanted))
    return tuple(joined)


def _equal(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def samples_in(tensors: tuple[Tensor, ...], reference: str) -> int:
    """The first dimension of the first tensor that has one."""
    sizes = [tensor.shape[0] for tensor in tensors if tensor.dim() > 0]
    if not sizes or sizes[0] < 1:
        raise RunError(f"{reference}: its example inputs hold no tensor with a batch dimension")
    return int(sizes[0])
