"""Models of odd kinds that are run in parts, and what makes them: each function is a reference."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.init import orthogonal_

WIDTH = 8
BATCH = 4

Made = tuple[nn.Module, Any]


class InPlace(nn.Module):
    """In-place calls on outputs, on a part of one, and on an input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu_(self.first(x.mul_(0.5)).add_(1.0))
        y = self.norm(self.second(h))
        y[:, :2].mul_(2.0)
        y += h
        return (y.sigmoid() * x).mean()


def in_place() -> Made:
    return InPlace(), torch.randn(BATCH, WIDTH)


class ReadBefore(nn.Module):
    """A tensor is read, then changed in place, then read again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).sigmoid() * 2
        before = torch.sign(y)
        y.mul_(-3.0)
        return (before * y.cos()).mean()


def read_before() -> Made:
    return ReadBefore(), torch.randn(BATCH, WIDTH)


class Tied(nn.Module):
    """A table that is also the head, and dropout that no module does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, WIDTH)
        self.middle = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = F.dropout(self.middle(self.table(tokens)), 0.5, self.training)
        return F.cross_entropy(self.head(hidden), tokens)


def tied() -> Made:
    return Tied(), torch.randint(10, (BATCH,))


class Blocks(nn.Module):
    """Blocks under no_grad and autocast, one inside another; a literal, a buffer and a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("scale", torch.arange(float(WIDTH)), persistent=False)
        self.shift = torch.arange(float(WIDTH)) * 2

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x) * self.scale + self.shift * torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
        with torch.no_grad():
            largest = h.abs().max()
            with torch.enable_grad():
                doubled = h * 2
            with torch.autocast("cpu", torch.bfloat16):
                rough = self.second(h.detach()).float()
        return (h / largest).sum() + self.second(h).tanh().mean() + doubled.sum() + rough.mean()


def blocks() -> Made:
    return Blocks(), torch.randn(BATCH, WIDTH)


class Several(nn.Module):
    """Operators of several outputs, two outputs of the model, arguments by name."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.3, batch_first=True)
        self.wide = nn.Linear(WIDTH, 3 * WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        y, (state, memory) = self.recurrent(x)
        a, b, c = self.wide(y).unbind(1)[1].split(WIDTH, 1)
        largest, _ = y.max(1)
        top = torch.topk(self.last(a), 3, 1)
        left, right = torch.broadcast_tensors(a[:, :1], scale.expand(-1, WIDTH))
        loss = (a * b).sum() + (c * scale).mean() + top.values.sum() + largest.mean() + (left * right).sum()
        return loss, {"state": state[0] * memory[1], "top": top.indices}


def several() -> tuple[nn.Module, Any, dict[str, Tensor]]:
    return Several(), torch.randn(BATCH, 5, WIDTH), {"scale": torch.randn(BATCH, 1)}


class Shared(nn.Module):
    """Weights made in other ways than by a layer: drawn and scaled, copied from one another, cloned layers,
    after a list of rates that the constructor reads."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = [float(rate) for rate in torch.linspace(0, 0.1, 3)]
        self.drawn = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.02)
        self.layers = nn.ModuleList(copy.deepcopy(nn.Linear(WIDTH, WIDTH)) for _ in range(2))
        template = nn.Linear(WIDTH, WIDTH)
        self.clones = nn.ModuleList(copy.deepcopy(template) for _ in range(3))
        self.from_numpy = nn.Parameter(torch.from_numpy(np.random.default_rng(0).normal(size=WIDTH).astype("float32")))
        self.late = nn.Linear(WIDTH, WIDTH)
        with torch.no_grad():
            self.layers[1].weight.copy_(self.layers[0].weight * 2)
        nn.init.trunc_normal_(self.clones[0].weight)
        orthogonal_(self.clones[1].weight)
        nn.init.sparse_(self.clones[2].weight, 0.5)
        nn.init.trunc_normal_(self.late.weight, a=-1.0, b=1.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x @ self.drawn + self.from_numpy
        for layer, rate in zip((*self.layers, *self.clones), (*self.rates, 0.0, 0.0), strict=True):
            x = layer(x).tanh() * (1 - rate)
        return self.late(x).sum()


def shared() -> Made:
    return Shared(), torch.randn(BATCH, WIDTH)


class Huge(nn.Module):
    """Hundreds of GB of parameters beside one small layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(160_000, 160_000)
        self.drawn = nn.Parameter(torch.randn(160_000, 160_000) * 0.02)
        self.small = nn.Linear(WIDTH, WIDTH)
        self.after = copy.deepcopy(self.before)
        nn.init.trunc_normal_(self.after.weight)

    def forward(self, x: Tensor) -> Tensor:
        wide = F.pad(self.small(x), (0, 160_000 - WIDTH))
        return self.after(self.before(wide) @ self.drawn).sum()


def huge() -> Made:
    return Huge(), torch.randn(BATCH, WIDTH)


ALREADY = nn.Linear(WIDTH, WIDTH)


def already_there() -> Made:
    """A module that is older than the call."""
    return ALREADY, torch.ones(BATCH, WIDTH)


calls = 0


def never_the_same() -> Made:
    """Another module each time."""
    global calls
    calls += 1
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(1 + calls % 2))), torch.randn(BATCH, WIDTH)


class TokensFirst(nn.Module):
    """Samples are the second dimension inside: [tokens, batch] merged has the tokens outermost."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        by_sample = self.first(x).relu().flatten(0, 1).sigmoid()
        by_token = self.first(x).transpose(0, 1).flatten(0, 1).sigmoid()
        centre = x.mean((0, 1))
        positions = self.second(torch.arange(float(WIDTH), dtype=x.dtype))
        return self.second(by_token).mean() + (by_sample + centre + positions).tanh().mean()


def tokens_first() -> Made:
    return TokensFirst(), torch.randn(BATCH, 3, WIDTH)


class Towers(nn.Module):
    """Two towers of two layers, which meet in the loss alone."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.right = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.left(x).sigmoid() * self.right(y)).mean()


def towers() -> Made:
    return Towers(), (torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH))


class Numbered(nn.Module):
    """What samples count for depends on their place in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[0]
        weights = torch.arange(count, device=x.device) * 0.1
        return (self.first(x) * weights.unsqueeze(1) + torch.ones(count, 1)).mean()


def numbered() -> Made:
    return Numbered(), torch.randn(BATCH, WIDTH)


class Averaging(nn.Module):
    """Scales by a running mean of what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("seen", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.first(x))
        with torch.no_grad():
            self.seen.mul_(0.9).add_(0.1 * x.mean(0))
        return (y * self.seen).mean()


def averaging() -> Made:
    return Averaging(), torch.randn(BATCH, WIDTH)


class Twice(nn.Module):
    """A norm without parameters that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.norm(self.first(x)).tanh()).square().mean()


def twice() -> Made:
    return Twice(), torch.randn(BATCH, WIDTH)


class Counting(nn.Module):
    """Computes twice with how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return (self.second((self.first(x) * self.calls).tanh()) * self.calls).mean()


def counting() -> Made:
    return Counting(), torch.randn(BATCH, WIDTH)


class Endless(nn.Module):
    """Its loss is infinite, and the gradient of what makes it no number."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x) * 0).log().mean() + self.second(x).mean()


def endless() -> Made:
    return Endless(), torch.randn(BATCH, WIDTH)


class Halved(nn.Module):
    """A vector -> a loss, inside of which products are of bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(WIDTH, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.third(F.gelu(self.second(F.gelu(self.first(x)))))
        return x.float().square().mean()


def halved() -> Made:
    return Halved(), torch.randn(BATCH, WIDTH)
