"""The cell written out in operators computes what nn.LSTMCell computes."""

from __future__ import annotations

import torch
from torch import nn

from demo_models.lstm import LSTMCell

INPUTS, WIDTH, BATCH = 5, 3, 4


def twins() -> tuple[LSTMCell, nn.LSTMCell]:
    """Both cells with the same weights."""
    torch.manual_seed(0)
    ours, theirs = LSTMCell(INPUTS, WIDTH), nn.LSTMCell(INPUTS, WIDTH)
    names = {"of_input.weight": "weight_ih", "of_state.weight": "weight_hh", "of_input.bias": "bias_ih",
             "of_state.bias": "bias_hh"}  # fmt: skip
    ours.load_state_dict({mine: theirs.state_dict()[other] for mine, other in names.items()})
    return ours, theirs


def test_two_steps_give_the_state_and_the_memory_of_torch_s_cell() -> None:
    ours, theirs = twins()
    x, state, memory = torch.randn(2, BATCH, INPUTS), torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    mine = other = (state, memory)
    for step in x:
        mine, other = ours(step, *mine), theirs(step, other)
    torch.testing.assert_close(mine, other)


def test_the_gradients_of_two_steps_are_those_of_torch_s_cell() -> None:
    ours, theirs = twins()
    x, start = torch.randn(2, BATCH, INPUTS), torch.zeros(BATCH, WIDTH)
    mine = other = (start, start)
    for step in x:
        mine, other = ours(step, *mine), theirs(step, other)
    (mine[0] * mine[1]).sum().backward()
    (other[0] * other[1]).sum().backward()
    torch.testing.assert_close(ours.of_input.weight.grad, theirs.weight_ih.grad)
    torch.testing.assert_close(ours.of_state.weight.grad, theirs.weight_hh.grad)
    torch.testing.assert_close(ours.of_state.bias.grad, theirs.bias_hh.grad)
