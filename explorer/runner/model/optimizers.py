"""The floating dtypes that a run can have, and its optimizers and their steps, with sparse gradients too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from solvers.errors import RunError
from solvers.problem.gradient_room import PIECE_BYTES

VELOCITY = 0.9
"""How much of the velocity a step of momentum keeps: PyTorch's examples' and the usual one."""
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=VELOCITY),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
ALIKE = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
"""Those known to update every entry by itself, so that a part of a parameter can be updated as if it were one."""
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


def step(optimizer: torch.optim.Optimizer, *, states_on_host: bool = False) -> None:
    """The optimizer's step. Adam's moments decay in every row, so it takes dense gradients only.

    states_on_host: its states are in the host's memory, from its first step on, and come to the device piece by piece
        (`solvers.problem.gradient_room.states_on_hosts`): pinned where there is a GPU, copied one after the other.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if is_adam(optimizer) or states_on_host:
        make_dense(parameters)
    if states_on_host:
        _step_in_pieces(optimizer)
    else:
        optimizer.step()


def _step_in_pieces(optimizer: torch.optim.Optimizer) -> None:
    groups = [(group, list(group["params"])) for group in optimizer.param_groups]
    try:
        for group, _ in groups:
            group["params"] = []
        for group, parameters in groups:
            for parameter in parameters:
                if parameter.grad is not None:
                    _update(optimizer, group, parameter)
            group["params"] = []
    finally:
        for group, parameters in groups:
            group["params"] = parameters


def _update(optimizer: torch.optim.Optimizer, group: dict[str, Any], parameter: nn.Parameter) -> None:
    """A parameter's update. Optimizers that update all entries alike take pieces; what they keep of a parameter that is
    not as large as it (a count of steps) is the same of all pieces."""
    states: dict[str, Any] = optimizer.state.pop(parameter, {})
    after: dict[str, Any] = {}
    for part in _parts(optimizer, parameter):
        piece = nn.Parameter(part(parameter.detach()))
        assert parameter.grad is not None  # whoever calls has looked
        piece.grad = part(parameter.grad)
        group["params"] = [piece]
        optimizer.state[piece] = {key: _come(value, part, parameter, piece.device) for key, value in states.items()}
        optimizer.step()
        for key, value in optimizer.state.pop(piece).items():
            after[key] = _gone(value, part, parameter, after.get(key, states.get(key)))
    optimizer.state[parameter] = after


Part = Callable[[Tensor], Tensor]
"""From a tensor of a parameter's shape to a piece of it: a view where it is contiguous."""


def _parts(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> list[Part]:
    entries = PIECE_BYTES // ((2 if is_adam(optimizer) else 1) * parameter.element_size())
    size = parameter.numel()
    if type(optimizer) not in ALIKE or size <= entries or not parameter.is_contiguous():
        return [lambda whole: whole]
    cuts = [slice(begin, begin + entries) for begin in range(0, size, entries)]
    return [lambda whole, cut=cut: whole.reshape(-1)[cut] for cut in cuts]  # type: ignore[misc]


def _come(value: Any, part: Part, parameter: nn.Parameter, device: torch.device) -> Any:
    """A piece's part of what is kept of a parameter, as a copy on its device."""
    if not isinstance(value, Tensor) or value.shape != parameter.shape or not value.dim():
        return value.clone() if isinstance(value, Tensor) else value
    with _disable_current_modes():  # what counts a device's bytes is not to see all of it
        own = part(value)
    return own.clone() if own.device == device else own.to(device)


def _gone(value: Any, part: Part, parameter: nn.Parameter, home: Any) -> Any:
    """What is kept of the parameter, with a piece's part of it brought back. home: what was kept of it so far."""
    if not isinstance(value, Tensor) or not parameter.dim() or value.shape != part(parameter).shape:
        return value
    with _disable_current_modes(), torch.no_grad():  # what counts a device's bytes is not to see these
        if not isinstance(home, Tensor) or home.shape != parameter.shape or home.device.type != "cpu":
            home = torch.empty(parameter.shape, dtype=value.dtype, pin_memory=value.device.type == "cuda")
        part(home).copy_(value)
    return home


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
