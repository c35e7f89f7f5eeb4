"""An LSTM cell written out in elementary operators, for the models that unroll it over time.

nn.LSTMCell is one operator, with nothing inside to place or to order. Here each product, gate and
elementwise step is an operator of its own; parameters and results are those of nn.LSTMCell.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LSTMCell(nn.Module):
    """(x [batch, inputs], state and memory [batch, width]) -> the next state and memory.

    The products of input and state have weights of their own, so the input's need not wait for the
    step before. Gates lie in the order of nn.LSTMCell: in, forget, candidate, out.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(inputs, 4 * width)
        self.of_state = nn.Linear(width, 4 * width)

    def forward(self, x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        enter, forget, candidate, leave = (self.of_input(x) + self.of_state(state)).chunk(4, 1)
        memory = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(candidate)
        return torch.sigmoid(leave) * torch.tanh(memory), memory
