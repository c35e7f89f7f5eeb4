"""How far gradients, parameters and losses of a run are from the true ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

NOTHING = 1e-3
"""Of the largest entry of all gradients: a tensor with smaller ones is measured against this. The gradient of
the bias of attention's keys, say, is zero but for rounding, and no two roundings agree."""
STEPS = 3
"""Updates after which parameters are compared."""
FLAT = 1e-2
"""Of the largest entry of a tensor's gradient: where Adam's gradient is smaller, its whole step may be rounding."""
APART = 0.05
"""A parameter whose change is this far from the true one was updated otherwise, which may be little beside its
entries. Less may be rounding, too: Adam takes whole steps by gradients that are nearly zero."""


def without_twins(*values: Tensor) -> tuple[bool, tuple[Tensor, ...]]:
    """(whether the first two hold entries that are no finite number, the same in both, all of ``values`` with 0 there).
    What a model itself makes infinite says nothing of a run of it."""
    found, true = values[:2]
    twins = ~true.isfinite() & ((found == true) | (found.isnan() & true.isnan()))
    if not bool(twins.any()):
        return False, values
    return True, tuple(value.masked_fill(twins, 0.0) for value in values)


def distance(found: Tensor, true: Tensor, floor: float) -> float:
    """max|difference| / max|true|, or over ``floor`` if that is more; inf if it is not a number."""
    if true.numel() == 0:
        return 0.0
    scale = max(floor, true.abs().max().item())
    error = (found - true).abs().max().item() / (scale if scale != 0 else 1.0)
    return error if math.isfinite(error) else math.inf


def without_flat(found: Tensor, true: Tensor, gradient: Tensor, floor: float) -> Tensor:
    """``found``, but ``true`` where the gradient is zero but for rounding: below `FLAT`, or in all below ``floor``."""
    size = gradient.abs()
    least = max(FLAT * float(size.max()), floor) if size.numel() else 0.0
    return torch.where((size < least) & found.isfinite(), true, found)


def apart(found: Tensor, true: Tensor, start: Tensor) -> float:
    """How far a parameter has come from where it should have: |difference| / |change| beyond what rounding of its
    entries makes, by Euclidean norms; inf if it is not a number."""
    rounding = STEPS * torch.finfo(true.dtype).eps * float(true.norm())
    error = float((found - true).norm()) - rounding
    change = max(float((true - start).norm()), rounding)
    if error <= 0:
        return 0.0
    return error / change if math.isfinite(error / change) else math.inf


def without_twin_losses(found: Sequence[float], true: Sequence[float]) -> tuple[list[float], list[float]]:
    """Those that are not the same infinity, or no number, in both."""
    pairs = [(a, b) for a, b in zip(found, true, strict=True) if math.isfinite(b) or repr(a) != repr(b)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def furthest(found: Sequence[float], true: Sequence[float]) -> float:
    """The largest relative difference of a loss; inf if one is not a number."""
    errors = [abs(a - b) / max(abs(b), 1e-300) for a, b in zip(found, true, strict=True)]
    return max(errors, default=0.0) if all(map(math.isfinite, errors)) else math.inf


def largest(tensors: Iterable[Tensor]) -> float:
    """The largest entry that is finite, without its sign; 0 of none."""
    return max((value.abs().nan_to_num(0.0, 0.0, 0.0).max().item() for value in tensors if value.numel()), default=0.0)
