"""The samples of a mini-batch: examples of the model's builder under different seeds, joined."""

from __future__ import annotations

import torch
from torch import Tensor

from explorer.runner.construct import construct
from explorer.runner.dtypes import floating
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
    """The model's tensor inputs, flat, for ``count`` samples. An input whose first dimension is not the batch
    (that of the first tensor that has one) is that of the first example. Raises RunError."""
    examples: list[tuple[Tensor, ...]] = []
    have = 0
    while have < count:
        built = construct(reference, wanted=(), seed=seed + len(examples), allow_model=allow_model)
        examples.append(built.tensors)
        have += samples_in(built.tensors, reference)
    batch, target = samples_in(examples[0], reference), floating(dtype)
    joined = []
    for position, first in enumerate(examples[0]):
        whole = first
        if first.dim() > 0 and first.shape[0] == batch:
            whole = torch.cat([example[position] for example in examples])[:count]
        wanted = target if target is not None and first.is_floating_point() else first.dtype
        joined.append(whole.detach().to(device=device, dtype=wanted))
    return tuple(joined)


def samples_in(tensors: tuple[Tensor, ...], reference: str) -> int:
    """The first dimension of the first tensor that has one."""
    sizes = [tensor.shape[0] for tensor in tensors if tensor.dim() > 0]
    if not sizes or sizes[0] < 1:
        raise RunError(f"{reference}: its example inputs hold no tensor with a batch dimension")
    return int(sizes[0])
