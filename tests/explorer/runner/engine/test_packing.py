"""Several small tensors as one message arrive as they were."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from explorer.runner.engine.sending import packed_up, room
from explorer.runner.scripts.duties import PACKED_BYTES

CPU = torch.device("cpu")


def sent(tensors: list[Tensor]) -> tuple[tuple[Tensor, ...], int]:
    """(what arrives of these tensors, in how many messages)."""
    arrived, posted = room([(tuple(t.shape), t.dtype) for t in tensors], CPU)
    messages = packed_up(tensors)
    for into, message in zip(posted, messages, strict=True):
        assert message.is_contiguous()
        into.copy_(message)
    return arrived, len(messages)


SMALL = [
    torch.randn(3, 5),
    torch.arange(7),
    torch.tensor([True, False, True]),
    torch.tensor(2.5, dtype=torch.float64),
    torch.randn(4, 4).to(torch.bfloat16).t(),
    torch.zeros(0, 3),
]


def test_small_tensors_of_any_shape_and_dtype_travel_as_one() -> None:
    arrived, messages = sent(SMALL)
    assert messages == 1
    for there, here in zip(arrived, SMALL, strict=True):
        assert there.dtype == here.dtype
        assert torch.equal(there, here)


@pytest.mark.parametrize("tensors", [SMALL[:1], [torch.zeros(PACKED_BYTES // 4), torch.zeros(1)]])
def test_a_tensor_alone_and_large_ones_travel_as_they_are(tensors: list[Tensor]) -> None:
    arrived, messages = sent(tensors)
    assert messages == len(tensors)
    assert all(torch.equal(there, here) for there, here in zip(arrived, tensors, strict=True))


def test_a_change_to_one_that_arrived_is_no_change_to_another() -> None:
    (first, second), _ = sent([torch.ones(2), torch.ones(2)])
    stored = second.requires_grad_()
    squared = (stored * stored).sum()
    first.add_(1.0)
    squared.backward()
    assert stored.grad is not None
    assert stored.grad.tolist() == [2.0, 2.0]
