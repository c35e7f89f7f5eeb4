"""LSTM translation with attention in the shape of GNMT (Wu et al. 2016), cells unrolled over time.

Unrolled, and with cells written out in elementary operators, layers can run as a wavefront and there
is something to place and to order inside a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_models.lstm import LSTMCell


@dataclass(frozen=True, slots=True)
class GNMTSize:
    """layers of encoder and of decoder each, width, vocabulary, steps (both languages), batch = samples."""

    layers: int
    width: int
    vocabulary: int
    steps: int
    batch: int


SIZES = {
    "real": GNMTSize(layers=2, width=1024, vocabulary=32000, steps=15, batch=64),
    "small": GNMTSize(layers=2, width=16, vocabulary=100, steps=4, batch=4),
}


class Encoder(nn.Module):
    """int64 [batch, steps] -> states of the last layer, [batch, steps, width]."""

    def __init__(self, size: GNMTSize) -> None:
        super().__init__()
        self.width = size.width
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(LSTMCell(size.width, size.width) for _ in range(size.layers))

    def forward(self, source: Tensor) -> Tensor:
        sequence = list(self.words(source).unbind(1))
        for layer in self.layers:
            state = cell = torch.zeros(source.shape[0], self.width, dtype=self.words.weight.dtype, device=source.device)
            outputs = []
            for x in sequence:
                state, cell = layer(x, state, cell)
                outputs.append(state)
            sequence = outputs
        return torch.stack(sequence, 1)


class Attention(nn.Module):
    """Luong attention: query [batch, width], memory [batch, steps, width] -> context [batch, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)

    def forward(self, query: Tensor, memory: Tensor) -> Tensor:
        scores = torch.bmm(memory, self.query(query).unsqueeze(2)).squeeze(2)
        return torch.bmm(torch.softmax(scores, 1).unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    """(memory, int64 [batch, steps]) -> states [batch, steps, 2 x width]: last layer and context."""

    def __init__(self, size: GNMTSize) -> None:
        super().__init__()
        self.width = size.width
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.attention = Attention(size.width)
        # The first layer reads the previous context beside the word; the context of a step comes
        # from the state of the first layer (GNMT, section 3).
        self.layers = nn.ModuleList(
            LSTMCell(size.width * (2 if layer == 0 else 1), size.width) for layer in range(size.layers)
        )

    def forward(self, memory: Tensor, target: Tensor) -> Tensor:
        start = torch.zeros(target.shape[0], self.width, dtype=memory.dtype, device=target.device)
        states = [(start, start) for _ in self.layers]
        context = start
        outputs = []
        for word in self.words(target).unbind(1):
            x = torch.cat((word, context), 1)
            for position, layer in enumerate(self.layers):
                states[position] = layer(x, *states[position])
                x = states[position][0]
                if position == 0:
                    context = self.attention(x, memory)
            outputs.append(torch.cat((x, context), 1))
        return torch.stack(outputs, 1)


class GNMT(nn.Module):
    """(source, target, expected), all int64 [batch, steps] -> mean cross-entropy."""

    def __init__(self, size: GNMTSize) -> None:
        super().__init__()
        self.encoder = Encoder(size)
        self.decoder = Decoder(size)
        self.head = nn.Linear(2 * size.width, size.vocabulary)

    def forward(self, source: Tensor, target: Tensor, expected: Tensor) -> Tensor:
        logits = self.head(self.decoder(self.encoder(source), target))
        return F.cross_entropy(logits.flatten(0, 1), expected.flatten())


def build(size: GNMTSize) -> tuple[GNMT, tuple[Tensor, Tensor, Tensor]]:
    """The module and its example inputs (source, target, expected)."""
    shape = (size.batch, size.steps)
    source, target, expected = (torch.randint(size.vocabulary, shape) for _ in range(3))
    return GNMT(size), (source, target, expected)
