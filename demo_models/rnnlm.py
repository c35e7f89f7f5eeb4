"""A word-level LSTM language model (Zaremba et al. 2014), its cells unrolled over time.

The real size is the paper's "large" model for the Penn Treebank: two layers of width 1500, a
vocabulary of 10,000, 20 sequences a batch, dropout of 65 % on every connection that is not recurrent
(their section 4.1). Sequences are 20 steps instead of 35, and start from a state of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_models.lstm import LSTMCell


@dataclass(frozen=True, slots=True)
class RNNLMSize:
    """layers, width (also of the embedding), vocabulary, steps = words of a sequence, share of
    activations dropped, batch = samples."""

    layers: int
    width: int
    vocabulary: int
    steps: int
    dropout: float
    batch: int


SIZES = {
    "real": RNNLMSize(layers=2, width=1500, vocabulary=10_000, steps=20, dropout=0.65, batch=20),
    "small": RNNLMSize(layers=2, width=16, vocabulary=100, steps=5, dropout=0.1, batch=4),
}


class Layer(nn.Module):
    """A cell of which the input is dropped in part, and the state is not (section 3.2 of the paper)."""

    def __init__(self, size: RNNLMSize) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.cell = LSTMCell(size.width, size.width)

    def forward(self, x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(self.dropout(x), state, memory)


class RNNLM(nn.Module):
    """(words, following), both int64 [batch, steps] -> mean cross-entropy of the following words."""

    def __init__(self, size: RNNLMSize) -> None:
        super().__init__()
        self.width = size.width
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.dropout = nn.Dropout(size.dropout)
        self.head = nn.Linear(size.width, size.vocabulary)

    def forward(self, words: Tensor, following: Tensor) -> Tensor:
        start = torch.zeros(words.shape[0], self.width, dtype=self.words.weight.dtype, device=words.device)
        states = [(start, start) for _ in self.layers]
        outputs = []
        for x in self.words(words).unbind(1):
            for position, layer in enumerate(self.layers):
                states[position] = layer(x, *states[position])
                x = states[position][0]
            outputs.append(x)
        logits = self.head(self.dropout(torch.stack(outputs, 1)))
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def build(size: RNNLMSize) -> tuple[RNNLM, tuple[Tensor, Tensor]]:
    """The module and its example inputs (words, following)."""
    shape = (size.batch, size.steps)
    return RNNLM(size), (torch.randint(size.vocabulary, shape), torch.randint(size.vocabulary, shape))
