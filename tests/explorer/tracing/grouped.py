"""The product of rows by expert that transformers registers for types of which torch has none, also where transformers
is not installed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NAME = "transformers::grouped_mm_fallback"


def product(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Each row times the matrix of its expert. ends: of the rows of every expert."""
    _register()
    products: Tensor = torch.ops.transformers.grouped_mm_fallback(rows, matrices, ends)
    return products


def _register() -> None:
    """Once a process: what transformers itself has, or the like of it."""
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        return
    try:
        import transformers.integrations.moe  # noqa: F401
    except ImportError:
        torch.library.custom_op(
            NAME, _product, mutates_args=(), schema="(Tensor input, Tensor weight, Tensor offs) -> Tensor"
        )
        torch.library.custom_op(
            f"{NAME}_backward", _gradients, mutates_args=(),
            schema="(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
        )  # fmt: skip
        torch.library.register_fake(NAME, lambda input, weight, offs: input.new_empty(len(input), weight.shape[-1]))
        torch.library.register_fake(
            f"{NAME}_backward", lambda input, weight, *_: (torch.empty_like(input), torch.empty_like(weight))
        )
        torch.library.register_autograd(NAME, _backward, setup_context=_store)


def _parts(rows: Tensor, ends: Tensor) -> tuple[Tensor, ...]:
    return torch.tensor_split(rows, ends[:-1].long().cpu())


def _product(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return torch.cat([part @ matrix for part, matrix in zip(_parts(input, offs), weight, strict=True)])


def _gradients(input: Tensor, weight: Tensor, offs: Tensor, grad_output: Tensor) -> tuple[Tensor, Tensor]:
    made = _parts(grad_output, offs)
    back = torch.cat([part @ matrix.T for part, matrix in zip(made, weight, strict=True)])
    return back, torch.stack([part.T @ of for part, of in zip(_parts(input, offs), made, strict=True)])


def _store(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
    return *torch.ops.transformers.grouped_mm_fallback_backward(*ctx.saved_tensors, gradient), None
