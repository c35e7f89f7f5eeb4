"""Small models whose attention goes round a ring in some way of its own: each function is a reference."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORDS, WIDTH, HEADS, SAMPLES = 32, 16, 4, 4
Made = tuple[nn.Module, tuple[Tensor, ...]]


class Attention(nn.Module):
    """keys: heads of keys and values, each for as many queries as the others. native: whether torch repeats them."""

    def __init__(self, keys: int, causal: bool, native: bool = False) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH * keys // HEADS)
        self.k = nn.Linear(WIDTH, WIDTH * keys // HEADS, bias=False)  # whose gradient would be rounding alone
        self.causal, self.native, self.times = causal, native, HEADS // keys

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        normed = self.norm(x)
        each = (part(normed).unflatten(-1, (-1, WIDTH // HEADS)) for part in (self.q, self.k, self.v))
        q, k, v = (one.transpose(1, 2) for one in each)
        if not self.native:
            k, v = (one.repeat_interleave(self.times, 1) for one in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.native)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Reader(nn.Module):
    """Words -> the loss of the next ones. padded: whether words of number 0 are seen by nobody; windowed: whether a
    token sees only those that are near."""

    def __init__(self, tokens: int, *, causal: bool, keys: int = HEADS, padded: bool = False, windowed: bool = False,
                 native: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(tokens, WIDTH))
        self.blocks = nn.ModuleList(Attention(keys, causal, native) for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)
        self.padded, self.windowed = padded, windowed

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        x, mask = self.words(words) + self.places, None
        if self.padded:
            mask = (words != 0)[:, None, None, :]
        if self.windowed:
            at = torch.arange(words.shape[1], device=words.device)
            mask = (at[:, None] - at).abs() < 5
        for block in self.blocks:
            x = block(x, mask)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def _made(module: Reader) -> Made:
    tokens = len(module.places)
    return module, (torch.randint(WORDS, (SAMPLES, tokens)), torch.randint(WORDS, (SAMPLES, tokens)))


def causal() -> Made:
    return _made(Reader(16, causal=True))


def odd() -> Made:
    """Tokens that four members cannot have two chunks each of."""
    return _made(Reader(12, causal=True))


def everywhere() -> Made:
    return _made(Reader(16, causal=False))


def grouped() -> Made:
    return _made(Reader(16, causal=True, keys=2))


def one_head() -> Made:
    """Of keys, which torch repeats."""
    return _made(Reader(16, causal=True, keys=1, native=True))


def padded() -> Made:
    return _made(Reader(16, causal=False, padded=True))


def windowed() -> Made:
    return _made(Reader(16, causal=False, windowed=True, keys=2))


def narrow() -> Made:
    """In bfloat16."""
    module, inputs = grouped()
    return module.bfloat16(), inputs


class Unusual(nn.Module):
    """Attention alone. tiled: whether keys are repeated all heads at once, else a mask is learned."""

    def __init__(self, tiled: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH)
        self.mask = None if tiled else nn.Parameter(torch.zeros(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for part in (self.q, self.k, self.v))
        k = k[:, None].expand(-1, 2, -1, -1, -1).flatten(1, 2) if self.mask is None else k.repeat_interleave(2, 1)
        return F.scaled_dot_product_attention(q, k, v, self.mask).square().sum()


def tiled() -> Made:
    return Unusual(True), (torch.randn(SAMPLES, 16, WIDTH),)


def learned() -> Made:
    return Unusual(False), (torch.randn(SAMPLES, 16, WIDTH),)
