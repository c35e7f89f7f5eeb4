"""The encoder-decoder transformer (Vaswani et al. 2017): post-norm, dropout after every sub-layer.

The real size is the paper's base model. Source and target have embeddings of their own and so has the
head: the paper shares one table among the three, whose operators would then have to share a device,
and that puts both ends of the model on one device. Sequences are full, so there is no padding mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """layers of encoder and of decoder each, width (a multiple of heads), inner = width inside a
    feed-forward, vocabulary, tokens (both languages), share of activations dropped, batch = samples."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    tokens: int
    dropout: float
    batch: int


SIZES = {
    # Table 3, "base", and the vocabulary of section 5.1. Sentences are not given a length there.
    "real": TransformerSize(
        layers=6, width=512, heads=8, inner=2048, vocabulary=37000, tokens=64, dropout=0.1, batch=16
    ),
    "small": TransformerSize(layers=2, width=32, heads=4, inner=64, vocabulary=100, tokens=8, dropout=0.1, batch=4),
}


def waves(tokens: int, width: int) -> Tensor:
    """Sines and cosines of every position, [tokens, width] (section 3.5)."""
    angles = torch.arange(tokens)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)


class Embeddings(nn.Module):
    """int64 [batch, tokens] -> [batch, tokens, width]."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.dropout = nn.Dropout(size.dropout)
        self.scale = math.sqrt(size.width)
        self.register_buffer("positions", waves(size.tokens, size.width), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.words(tokens) * self.scale + self.positions)


class Attention(nn.Module):
    """x [batch, tokens, width] looks at memory [batch, other tokens, width] -> as x."""

    def __init__(self, size: TransformerSize, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = size.heads, causal
        self.query = nn.Linear(size.width, size.width)
        self.key = nn.Linear(size.width, size.width)
        self.value = nn.Linear(size.width, size.width)
        self.output = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self._split(self.query(x)), self._split(self.key(memory)), self._split(self.value(memory))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.output(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] -> [batch, heads, tokens, width / heads]."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Width -> inner -> width."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.up = nn.Linear(size.width, size.inner)
        self.down = nn.Linear(size.inner, size.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x)))


class Residual(nn.Module):
    """What ends every sub-layer: LayerNorm(x + Dropout(y)) (section 5.4)."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.norm = nn.LayerNorm(size.width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x + self.dropout(y))


class EncoderLayer(nn.Module):
    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.attention, self.residual1 = Attention(size), Residual(size)
        self.ffn, self.residual2 = FeedForward(size), Residual(size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.residual1(x, self.attention(x, x))
        return self.residual2(x, self.ffn(x))


class DecoderLayer(nn.Module):
    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.attention, self.residual1 = Attention(size, causal=True), Residual(size)
        self.cross, self.residual2 = Attention(size), Residual(size)
        self.ffn, self.residual3 = FeedForward(size), Residual(size)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = self.residual1(x, self.attention(x, x))
        x = self.residual2(x, self.cross(x, memory))
        return self.residual3(x, self.ffn(x))


class Transformer(nn.Module):
    """(source, target, expected), all int64 [batch, tokens] -> mean cross-entropy."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.source, self.target = Embeddings(size), Embeddings(size)
        self.encoder = nn.ModuleList(EncoderLayer(size) for _ in range(size.layers))
        self.decoder = nn.ModuleList(DecoderLayer(size) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, source: Tensor, target: Tensor, expected: Tensor) -> Tensor:
        memory = self.source(source)
        for layer in self.encoder:
            memory = layer(memory)
        x = self.target(target)
        for layer in self.decoder:
            x = layer(x, memory)
        return F.cross_entropy(self.head(x).flatten(0, 1), expected.flatten())


def build(size: TransformerSize) -> tuple[Transformer, tuple[Tensor, Tensor, Tensor]]:
    """The module and its example inputs (source, target, expected)."""
    shape = (size.batch, size.tokens)
    source, target, expected = (torch.randint(size.vocabulary, shape) for _ in range(3))
    return Transformer(size), (source, target, expected)
