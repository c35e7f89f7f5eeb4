"""Views recognised by names and strides are the views torch makes."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from explorer.tracing.views import VIEWS, can_view, is_contiguous


def test_every_listed_view_is_one_by_its_schema() -> None:
    """An operator whose schema returns an alias of its first argument without writing into it."""
    unsafe = {"_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}  # aliases not declared
    for name in VIEWS:
        short = name.removeprefix("aten.")
        packet = getattr(torch.ops.aten, short)
        if short in unsafe:
            continue
        for overload in packet.overloads():
            if overload == "out" or "Dimname" in str(getattr(packet, overload)._schema):
                continue
            first = getattr(packet, overload)._schema.arguments[0]
            if str(first.type) != "Tensor":  # overloads of TorchScript on strings and lists
                continue
            assert first.alias_info is not None, (name, overload)
            assert not first.alias_info.is_write


@pytest.mark.parametrize("seed", range(200))
def test_a_reshape_is_a_view_exactly_when_torch_makes_it_one(seed: int) -> None:
    rng = random.Random(seed)
    tensor = torch.zeros([rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4))])
    tensor = tensor.permute(rng.sample(range(tensor.dim()), tensor.dim()))
    if rng.random() < 0.3:
        tensor = tensor[..., : rng.randint(1, tensor.shape[-1])]
    target = _some_shape(tensor, rng)
    assert can_view(tensor.shape, tensor.stride(), target) == _views(tensor, target)
    assert is_contiguous(tensor.shape, tensor.stride()) == tensor.is_contiguous()


def _some_shape(tensor: Tensor, rng: random.Random) -> list[int]:
    left, shape = tensor.numel(), []
    while left > 1:
        factor = rng.choice([n for n in range(2, left + 1) if left % n == 0])
        shape.append(factor)
        left //= factor
    shape.insert(rng.randint(0, len(shape)), 1)
    return shape


def _views(tensor: Tensor, shape: list[int]) -> bool:
    try:
        tensor.view(shape)
    except RuntimeError:
        return False
    return True
