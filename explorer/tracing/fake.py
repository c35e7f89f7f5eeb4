"""Copies of a module and of its inputs that have shapes and dtypes but no storage."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from solvers.errors import TraceError

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def fake_tensor(tensor: Tensor, mode: FakeTensorMode, dtype: torch.dtype | None = None) -> Tensor:
    """The same shape and strides on a fake CPU (not on meta: there attention takes the math path and
    over-counts what is saved). A floating dtype is replaced by ``dtype`` if given."""
    target = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    if isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer)):
        raise TraceError("the module has lazy parameters without a shape yet; run it once, then trace it")
    if tensor.layout is not torch.strided:
        raise TraceError(f"sparse tensors are not supported: found one of layout {tensor.layout}")
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=target, device="cpu")


def fake_module(module: nn.Module, mode: FakeTensorMode, *, training: bool, dtype: torch.dtype | None) -> nn.Module:
    """A copy of ``module`` on the fake CPU; its weights are never read or copied, nor is it altered.

    Tied parameters stay tied. Raises TraceError if the module cannot be copied.
    """
    memo: dict[int, Any] = {}
    for part in module.modules():
        held = [*part._parameters.values(), *part._buffers.values(), *vars(part).values()]
        for tensor in held:
            if not isinstance(tensor, Tensor) or id(tensor) in memo:
                continue
            fake = fake_tensor(tensor, mode, dtype)
            if isinstance(tensor, nn.Parameter):
                fake = nn.Parameter(fake, requires_grad=tensor.requires_grad)
            memo[id(tensor)] = fake
    try:
        twin = copy.deepcopy(module, memo)
    except Exception as error:
        raise TraceError(f"the module cannot be copied for tracing: {first_line(error)}") from error
    return twin.train() if training else twin.eval()


def fake_inputs(
    example_inputs: object, mode: FakeTensorMode, dtype: torch.dtype | None, by_name: dict[str, object] | None = None
) -> Inputs:
    """(args, kwargs) on the fake CPU, from a tensor, a sequence of arguments or a dict by name; by_name
    adds arguments by name.

    Raises TraceError if there is no tensor, or none with a batch dimension.
    """
    if isinstance(example_inputs, Tensor):
        example_inputs = (example_inputs,)
    if isinstance(example_inputs, dict):
        given: Inputs = ((), dict(example_inputs))
    elif isinstance(example_inputs, (tuple, list)):
        given = (tuple(example_inputs), {})
    else:
        actual = type(example_inputs).__name__
        raise TraceError(f"example inputs must be a tensor, a tuple of arguments or a dict by name, found {actual}")
    given = (given[0], {**given[1], **(by_name or {})})
    if not any(isinstance(x, Tensor) and x.dim() > 0 for x in pytree.tree_leaves(given)):
        raise TraceError("example inputs hold no tensor with a batch dimension (the first one is the batch)")
    fake: Inputs = pytree.tree_map_only(Tensor, lambda x: fake_tensor(x, mode, dtype), given)
    return fake


def batch_of(inputs: Inputs, dim: int = 0) -> int:
    """Samples in the inputs: dimension ``dim`` of the first tensor that has it."""
    sizes = [x.shape[dim] for x in pytree.tree_leaves(inputs) if isinstance(x, Tensor) and x.dim() > dim]
    if not sizes:
        raise TraceError(f"no input has a dimension {dim}, which was to be the batch (--batch-dim)")
    if sizes[0] < 1:
        raise TraceError("the first input has an empty batch; give at least one sample")
    return int(sizes[0])


def at_batch(inputs: Inputs, samples: int, mode: FakeTensorMode, dim: int = 0) -> Inputs:
    """The inputs with the batch dimension changed to ``samples``; other inputs stay as they are."""
    batch = batch_of(inputs, dim)

    def resized(x: Tensor) -> Tensor:
        if x.dim() <= dim or x.shape[dim] != batch:
            return x
        with mode:
            return torch.empty((*x.shape[:dim], samples, *x.shape[dim + 1 :]), dtype=x.dtype, device="cpu")

    resized_inputs: Inputs = pytree.tree_map_only(Tensor, resized, inputs)
    return resized_inputs


def at_length(inputs: Inputs, tokens: int, mode: FakeTensorMode, dim: int = 0) -> Inputs:
    """The inputs with sequences of so many tokens: of the first tensor of integers the dimension beside the batch, and
    that of every tensor that is as long there. dim: the batch.

    Raises TraceError where no input has tokens.
    """
    of = 1 if dim == 0 else 0
    whole = (x for x in pytree.tree_leaves(inputs) if isinstance(x, Tensor) and x.dim() >= 2)
    length = next((x.shape[of] for x in whole if not x.is_floating_point() and x.dtype != torch.bool), None)
    if length is None:
        raise TraceError("no input holds tokens (integers, [batch, tokens]), so it has no length of a sequence")

    def resized(x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[of] != length:
            return x
        with mode:
            return torch.empty((*x.shape[:of], tokens, *x.shape[of + 1 :]), dtype=x.dtype, device="cpu")

    resized_inputs: Inputs = pytree.tree_map_only(Tensor, resized, inputs)
    return resized_inputs


def first_line(error: BaseException) -> str:
    """The first line that says something, for a message of one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
