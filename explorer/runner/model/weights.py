"""The parameters of one rank, and all buffers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from explorer.runner.model.construct import Built, construct
from explorer.runner.model.optimizers import floating


@dataclass(frozen=True)
class Held:
    """parameters: by name (of tied ones the first), the wanted ones only. buffers: all, with plain tensor
    attributes, by name. Tied parameters are one object under one name, a buffer of several names one under each."""

    parameters: dict[str, nn.Parameter]
    buffers: dict[str, Tensor]
    device: torch.device
    notes: tuple[str, ...] = ()


def hold(
    reference: str,
    names: Collection[str],
    *,
    seed: int,
    dtype: torch.dtype | str | None,
    device: torch.device | str,
    allow_model: bool = False,
) -> Held:
    """The parameters ``names`` of a model with the values that ``seed`` gives, the same on every rank.

    dtype: of floating tensors (None: as the model is). Raises RunError."""
    return held(construct(reference, wanted=names, seed=seed, allow_model=allow_model), names, dtype, device)


def held(built: Built, names: Collection[str], dtype: torch.dtype | str | None, device: torch.device | str) -> Held:
    """Converted, and brought to the device."""
    where, target = torch.device(device), floating(dtype)

    def brought(tensor: Tensor) -> Tensor:
        as_is = target is None or not tensor.is_floating_point()
        return tensor.detach().to(device=where, dtype=tensor.dtype if as_is else target)

    traced = dict(built.module.named_parameters())
    parameters = {
        name: nn.Parameter(brought(traced[name]), requires_grad=traced[name].requires_grad) for name in sorted(names)
    }
    named = attributes(built.module)
    once = {id(tensor): brought(tensor) for tensor in named.values()}
    return Held(parameters, {name: once[id(tensor)] for name, tensor in named.items()}, where, built.notes)


def attributes(module: nn.Module) -> dict[str, Tensor]:
    """Buffers and plain tensor attributes, by dotted name; a tensor of several names under each."""
    tensors: dict[str, Tensor] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for name, tensor in (*vars(part).items(), *part._buffers.items()):
            if isinstance(tensor, Tensor) and not isinstance(tensor, nn.Parameter):
                tensors[prefix + name] = tensor
    return tensors
