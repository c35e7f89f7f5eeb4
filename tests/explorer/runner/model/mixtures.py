"""Small mixtures of experts that are run divided: each function is a reference."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.explorer.tracing.grouped import product

WORDS, WIDTH, HIDDEN, HEADS, SAMPLES, TOKENS, EXPERTS, CHOSEN = 32, 16, 24, 4, 4, 8, 8, 2
Made = tuple[nn.Module, tuple[Tensor, Tensor]]


class Mixture(nn.Module):
    """Rows of tokens sorted by the experts that they chose, as transformers' grouped experts have them. wanted: what is
    added to the scores of every expert (of a sample's token, or of all)."""

    wanted: Tensor

    def __init__(self, wanted: Tensor) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) * WIDTH**-0.5)
        self.bias = nn.Parameter(torch.randn(EXPERTS, HIDDEN) * 0.1)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * HIDDEN**-0.5)
        self.register_buffer("wanted", wanted)

    def forward(self, x: Tensor) -> Tensor:
        samples, tokens, width = x.shape
        rows = self.norm(x)
        scores = (self.router(rows) + self.wanted).flatten(0, 1)
        rows = rows.flatten(0, 1)
        weights, experts = scores.softmax(-1).topk(CHOSEN, dim=-1)
        expert_of, order = torch.sort(experts.reshape(-1))
        counts = torch.histc(expert_of.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        made = product(rows[order.floor_divide(CHOSEN)], self.up, ends) + self.bias[expert_of]
        made = product(F.gelu(made), self.down, ends) * weights.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return x + made[back].view(samples * tokens, CHOSEN, width).sum(1).view(samples, tokens, width)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Gpt(nn.Module):
    """Words -> the loss of the next ones; every block attends, then mixes experts."""

    def __init__(self, wanted: Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.1)
        self.blocks = nn.Sequential(*(nn.Sequential(Attention(), Mixture(wanted)) for _ in range(2)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor, following: Tensor) -> Tensor:
        x = self.blocks(self.words(words) + self.positions)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), following.flatten())


def _made(wanted: Tensor) -> Made:
    words = torch.randint(WORDS, (SAMPLES, TOKENS + 1))
    return Gpt(wanted), (words[:, :-1].contiguous(), words[:, 1:].contiguous())


def gpt() -> Made:
    """Tokens choose as they like."""
    return _made(torch.zeros(EXPERTS))


def uneven() -> Made:
    """All tokens choose the second expert, and none the first, nor the last two: with four members, the fourth has no
    rows, with two the second half of them is far fewer."""
    return _made(torch.tensor([-40.0, 40.0, *[0.0] * (EXPERTS - 4), -40.0, -40.0]))


def even() -> Made:
    """Tokens choose in turn, every expert as often as all others in every sample."""
    chosen = torch.arange(TOKENS * CHOSEN).view(TOKENS, CHOSEN) % EXPERTS
    return _made(40.0 * F.one_hot(chosen, EXPERTS).sum(1).float())
