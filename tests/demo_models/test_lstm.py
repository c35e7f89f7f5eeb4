"""The cell written out in operators computes what nn.LSTMCell computes."""

from __future__ import annotations

import torch
from torch import nn

from demo_models.lstm import LSTMCell

INPUTS, WIDTH, BATCH = 5, 3, 4


def twins() -> tuple[LSTMCell, nn.LSTMCell]:
    """Both cells with the same weights."""
    torch.manual_seed(0)
    cell, torch_cell = LSTMCell(INPUTS, WIDTH), nn.LSTMCell(INPUTS, WIDTH)
    names = {"of_input.weight": "weight_ih", "of_state.weight": "weight_hh", "of_input.bias": "bias_ih",
             "of_state.bias": "bias_hh"}  # fmt: skip
    cell.load_state_dict({name: torch_cell.state_dict()[torch_name] for name, torch_name in names.items()})
    return cell, torch_cell


def test_two_steps_give_the_state_and_the_memory_of_torch_s_cell() -> None:
    cell, torch_cell = twins()
    x, state, memory = torch.randn(2, BATCH, INPUTS), torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    actual = expected = (state, memory)
    for step in x:
        actual, expected = cell(step, *actual), torch_cell(step, expected)
    torch.testing.assert_close(actual, expected)


def test_the_gradients_of_two_steps_are_those_of_torch_s_cell() -> None:
    cell, torch_cell = twins()
    x, start = torch.randn(2, BATCH, INPUTS), torch.zeros(BATCH, WIDTH)
    actual = expected = (start, start)
    for step in x:
        actual, expected = cell(step, *actual), torch_cell(step, expected)
    (actual[0] * actual[1]).sum().backward()
    (expected[0] * expected[1]).sum().backward()
    torch.testing.assert_close(cell.of_input.weight.grad, torch_cell.weight_ih.grad)
    torch.testing.assert_close(cell.of_state.weight.grad, torch_cell.weight_hh.grad)
    torch.testing.assert_close(cell.of_state.bias.grad, torch_cell.bias_hh.grad)
