"""GPT: a decoder-only transformer (Radford et al. 2019), pre-norm, untied head, loss inside.

The head has its own weights: a head tied to the embedding would have to share its device, which
puts both ends of the model on one device and leaves nothing to pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class GPTSize:
    """blocks, width (a multiple of heads), vocabulary, context = tokens per sample, batch = samples."""

    blocks: int
    width: int
    heads: int
    vocabulary: int
    context: int
    batch: int


SIZES = {
    # GPT-2's vocabulary, padded from 50257 to a multiple of 64 as nanoGPT does.
    "real": GPTSize(blocks=24, width=1792, heads=28, vocabulary=50304, context=1024, batch=4),
    "small": GPTSize(blocks=4, width=32, heads=4, vocabulary=128, context=32, batch=4),
}


class Attention(nn.Module):
    """Causal self-attention: [batch, tokens, width] -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))


class MLP(nn.Module):
    """Width -> 4 x width -> width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """(tokens, targets), both int64 [batch, context] -> mean cross-entropy."""

    def __init__(self, size: GPTSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.blocks))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def build(size: GPTSize) -> tuple[GPT, tuple[Tensor, Tensor]]:
    """The module and its example inputs (tokens, targets)."""
    shape = (size.batch, size.context)
    return GPT(size), (torch.randint(size.vocabulary, shape), torch.randint(size.vocabulary, shape))
