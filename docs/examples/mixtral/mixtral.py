"""Mixtral 8x7B (Jiang et al., 2024, table 1): Llama's attention, and eight experts a layer, two to a token.

placement-explorer plan mixtral.py:make --cluster 2xdgx-h100 --dtype bf16 --precision mixed
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from demo_models.llama import Attention, LlamaSize, Rotary
from demo_models.moe import Mixture, MoESize

LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, EXPERTS, VOCABULARY = 32, 4096, 32, 8, 14336, 8, 32000
TOKENS, BATCH = 2048, 2
"""Of the example: samples of 2,048 tokens, two of them."""

LLAMA = LlamaSize(LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN, VOCABULARY, TOKENS, BATCH)
MOE = MoESize(LAYERS, WIDTH, HEADS, EXPERTS, HIDDEN, VOCABULARY, TOKENS, BATCH)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.attention = Attention(LLAMA)
        self.experts = Mixture(MOE)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.experts(self.norm2(x))


class Mixtral(nn.Module):
    """(tokens, targets), both int64 [batch, tokens] -> mean cross-entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.rotary = Rotary(WIDTH // HEADS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens)
        cos, sin = self.rotary(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def make() -> tuple[Mixtral, tuple[Tensor, Tensor]]:
    """The module on the meta device, and its example inputs."""
    with torch.device("meta"):
        tokens = torch.zeros(BATCH, TOKENS, dtype=torch.long)
        return Mixtral(), (tokens, tokens)
