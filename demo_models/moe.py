"""A mixture of experts in every block, as in Mixtral (Jiang et al. 2024), with experts of a fixed capacity.

Each expert is a module of its own, so that experts can be placed on devices of their own. Every token chooses two
experts; every expert takes, of the tokens of one sample, those that weigh it most, up to its capacity (Switch
Transformer, Fedus et al. 2021, section 2.2; others pass it by), so that sizes do not depend on values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_models.gpt import Attention

CHOSEN = 2
"""Experts that a token chooses."""

SPARE = 1.25
"""Capacity over an even share (Switch Transformer, table 1)."""


@dataclass(frozen=True, slots=True)
class MoESize:
    """blocks, width (a multiple of heads), hidden = width inside an expert, vocabulary, context = tokens per sample,
    batch = samples."""

    blocks: int
    width: int
    heads: int
    experts: int
    hidden: int
    vocabulary: int
    context: int
    batch: int

    @property
    def capacity(self) -> int:
        """Tokens of a sample that one expert takes."""
        return min(self.context, round(SPARE * CHOSEN * self.context / self.experts))


SIZES = {
    "real": MoESize(blocks=12, width=1024, heads=16, experts=8, hidden=3584, vocabulary=32000, context=1024, batch=4),
    "small": MoESize(blocks=2, width=32, heads=4, experts=4, hidden=48, vocabulary=128, context=32, batch=4),
}


class Expert(nn.Module):
    """SwiGLU: [batch, capacity, width] -> the same."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """Tokens to the experts they choose and back, weighted: [batch, tokens, width] -> the same."""

    def __init__(self, size: MoESize) -> None:
        super().__init__()
        self.context, self.capacity = size.context, size.capacity
        self.router = nn.Linear(size.width, size.experts, bias=False)
        self.experts = nn.ModuleList(Expert(size.width, size.hidden) for _ in range(size.experts))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x)
        best, chosen = scores.topk(CHOSEN, dim=-1)
        weight = torch.zeros_like(scores).scatter(-1, chosen, best.softmax(dim=-1))
        most = max(1, self.capacity * x.shape[1] // self.context)  # of fewer tokens their share
        outputs = []
        for number, expert in enumerate(self.experts):
            share, places = weight[..., number].topk(most, dim=1)
            places = places[..., None].expand(-1, -1, x.shape[-1])
            made = expert(x.gather(1, places)) * share[..., None]
            outputs.append(torch.zeros_like(x).scatter_add(1, places, made))
        return torch.stack(outputs).sum(0)


class Block(nn.Module):
    def __init__(self, size: MoESize) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(size.width)
        self.attn = Attention(size.width, size.heads)
        self.norm2 = nn.RMSNorm(size.width)
        self.moe = Mixture(size)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.moe(self.norm2(x))


class MoE(nn.Module):
    """(tokens, targets), both int64 [batch, context] -> mean cross-entropy."""

    def __init__(self, size: MoESize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.blocks))
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def build(size: MoESize) -> tuple[MoE, tuple[Tensor, Tensor]]:
    """The module and its example inputs (tokens, targets)."""
    shape = (size.batch, size.context)
    return MoE(size), (torch.randint(size.vocabulary, shape), torch.randint(size.vocabulary, shape))
