"""The optimizers of runs and their steps, with sparse gradients too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


def step(optimizer: torch.optim.Optimizer) -> None:
    """The optimizer's step. Adam's moments decay in every row, so it takes dense gradients only."""
    if isinstance(optimizer, torch.optim.Adam):
        make_dense([parameter for group in optimizer.param_groups for parameter in group["params"]])
    optimizer.step()


def make_dense(parameters: Sequence[nn.Parameter]) -> None:
    """Replace sparse gradients, those of tables of which few rows were looked up."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            dense = parameter.grad.to_dense()
            parameter.grad = None  # a gradient does not change its layout in place
            parameter.grad = dense
