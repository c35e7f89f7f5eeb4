"""BERT (Devlin et al. 2019): a bidirectional transformer encoder, post-norm, with both pre-training losses.

Sequences are full, so there is no padding mask. The masked-token head has its own weights: tied to
the embedding it would have to share its device, which puts both ends of the model on one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SEGMENTS = 2
"""Sentences in a sample."""
EPS = 1e-12
"""Of every normalisation, as published."""


@dataclass(frozen=True, slots=True)
class BERTSize:
    """blocks, width (a multiple of heads), vocabulary, context = tokens per sample, batch = samples."""

    blocks: int
    width: int
    heads: int
    vocabulary: int
    context: int
    batch: int


SIZES = {
    # BERT-large, uncased.
    "real": BERTSize(blocks=24, width=1024, heads=16, vocabulary=30522, context=512, batch=4),
    "small": BERTSize(blocks=4, width=32, heads=4, vocabulary=128, context=32, batch=4),
}


class Embeddings(nn.Module):
    """(tokens, segments), both int64 [batch, tokens] -> [batch, tokens, width]."""

    def __init__(self, size: BERTSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.segments = nn.Embedding(SEGMENTS, size.width)
        self.norm = nn.LayerNorm(size.width, EPS)

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.norm(self.tokens(tokens) + self.positions(places) + self.segments(segments))


class Attention(nn.Module):
    """Self-attention in both directions: [batch, tokens, width] -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(*(self._split(part(x)) for part in (self.query, self.key, self.value)))
        return self.output(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """[batch, tokens, width] -> [batch, heads, tokens, width / heads]."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Width -> 4 x width -> width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width, EPS)
        self.ffn = FeedForward(width)
        self.norm2 = nn.LayerNorm(width, EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.ffn(x))


class Pooler(nn.Module):
    """The first token's state, [batch, tokens, width] -> [batch, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x[:, 0]))


class MaskedTokenHead(nn.Module):
    """Logits of every token, [batch, tokens, width] -> [batch, tokens, vocabulary]."""

    def __init__(self, size: BERTSize) -> None:
        super().__init__()
        self.dense = nn.Linear(size.width, size.width)
        self.norm = nn.LayerNorm(size.width, EPS)
        self.decoder = nn.Linear(size.width, size.vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class BERT(nn.Module):
    """(tokens, segments, labels), int64 [batch, context], and follows, int64 [batch] -> the two losses' sum.

    labels: the original token where one was masked, and -100 where none was. follows: 0 if the second
    sentence follows the first, 1 if it was drawn at random.
    """

    def __init__(self, size: BERTSize) -> None:
        super().__init__()
        self.embeddings = Embeddings(size)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.blocks))
        self.pooler = Pooler(size.width)
        self.masked = MaskedTokenHead(size)
        self.next_sentence = nn.Linear(size.width, 2)

    def forward(self, tokens: Tensor, segments: Tensor, labels: Tensor, follows: Tensor) -> Tensor:
        x = self.embeddings(tokens, segments)
        for block in self.blocks:
            x = block(x)
        masked = F.cross_entropy(self.masked(x).flatten(0, 1), labels.flatten())
        return masked + F.cross_entropy(self.next_sentence(self.pooler(x)), follows)


def build(size: BERTSize) -> tuple[BERT, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The module and its example inputs (tokens, segments, labels, follows)."""
    shape = (size.batch, size.context)
    tokens, labels = (torch.randint(size.vocabulary, shape) for _ in range(2))
    return BERT(size), (tokens, torch.randint(SEGMENTS, shape), labels, torch.randint(2, (size.batch,)))
