"""Llama 3 8B (Grattafiori et al. 2024, table 3): grouped-query attention, rotary positions, SwiGLU, RMS norms.

Written out here, with its loss inside; the real size has the published number of parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class LlamaSize:
    """blocks, width (a multiple of heads), heads of queries and of keys and values (a divisor of those), hidden =
    width of the feed-forward layers, vocabulary, context = tokens per sample, batch = samples."""

    blocks: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int
    context: int
    batch: int


SIZES = {
    "real": LlamaSize(
        blocks=32, width=4096, heads=32, key_heads=8, hidden=14336, vocabulary=128256, context=2048, batch=2
    ),
    "small": LlamaSize(blocks=4, width=32, heads=4, key_heads=2, hidden=64, vocabulary=128, context=32, batch=4),
}

THETA = 500_000.0
"""Base of the rotary frequencies (section 3.2)."""


class Rotary(nn.Module):
    """Number of tokens -> cosines and sines of the angle of every position and pair of channels, each [tokens, width
    of a head]."""

    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head

    def forward(self, tokens: int) -> tuple[Tensor, Tensor]:
        frequencies = THETA ** (-torch.arange(0, self.head, 2, dtype=torch.float32) / self.head)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies).repeat(1, 2)
        return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [batch, heads, tokens, width of a head], each pair of channels turned by its angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat([-second, first], dim=-1) * sin.to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention, several heads of queries for one of keys: [batch, tokens, width] -> the same."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.heads, self.key_heads = size.heads, size.key_heads
        head = size.width // size.heads
        self.q = nn.Linear(size.width, size.width, bias=False)
        self.k = nn.Linear(size.width, size.key_heads * head, bias=False)
        self.v = nn.Linear(size.width, size.key_heads * head, bias=False)
        self.o = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q = self.q(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(batch, tokens, self.key_heads, -1).transpose(1, 2)
        v = self.v(x).view(batch, tokens, self.key_heads, -1).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        repeats = self.heads // self.key_heads
        k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, tokens, width))


class MLP(nn.Module):
    """SwiGLU: width -> hidden, gated -> width."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(size.width, eps=1e-5)
        self.attn = Attention(size)
        self.norm2 = nn.RMSNorm(size.width, eps=1e-5)
        self.mlp = MLP(size.width, size.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """(tokens, targets), both int64 [batch, context] -> mean cross-entropy."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.rotary = Rotary(size.width // size.heads)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.blocks))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens)
        cos, sin = self.rotary(tokens.shape[1])
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def build(size: LlamaSize) -> tuple[Llama, tuple[Tensor, Tensor]]:
    """The module and its example inputs (tokens, targets)."""
    shape = (size.batch, size.context)
    return Llama(size), (torch.randint(size.vocabulary, shape), torch.randint(size.vocabulary, shape))
