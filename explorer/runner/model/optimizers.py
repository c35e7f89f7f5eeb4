"""The floating dtypes that a run can have, and its optimizers and their steps, with sparse gradients too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from solvers.errors import RunError

VELOCITY = 0.9
"""How much of the velocity a step of momentum keeps: PyTorch's examples' and the usual one."""
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=VELOCITY),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
MEASURED = ("sgd", "adam")
"""Those whose steps a calibration times; `explorer.costs.measured` says which stands for which."""
DTYPES = {
    "float64": torch.float64, "float32": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16, "fp16": torch.float16, "float16": torch.float16,
}  # fmt: skip


def floating(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """torch's dtype for a name. Raises RunError."""
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise RunError(f"unknown dtype {dtype!r}; expected one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    return dtype


def is_adam(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW)


def step(optimizer: torch.optim.Optimizer) -> None:
    """The optimizer's step. Adam's moments decay in every row, so it takes dense gradients only."""
    if is_adam(optimizer):
        make_dense([parameter for group in optimizer.param_groups for parameter in group["params"]])
    optimizer.step()


def make_dense(parameters: Sequence[nn.Parameter]) -> None:
    """Replace sparse gradients, those of tables of which few rows were looked up."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            dense = parameter.grad.to_dense()
            parameter.grad = None  # a gradient does not change its layout in place
            parameter.grad = dense


def dense(gradient: Tensor) -> Tensor:
    """A copy; of a sparse gradient a dense one."""
    return gradient.to_dense() if gradient.is_sparse else gradient.clone()
