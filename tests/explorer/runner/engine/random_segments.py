"""Small random segments: DAGs of calls with several inputs and outputs, skips, towers that need not meet, and
parameters that several branches read, some of them through a tensor that is made of the parameter once."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 4
BATCH = 3


class Segment(nn.Module):
    """inputs and outputs: how many. Every value is [batch, width]; each output's last steps are its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        choose = random.Random(seed)
        self.inputs = choose.randint(1, 4)
        self.outputs = choose.randint(1, 4)
        self.weights = nn.ParameterList(torch.randn(WIDTH, WIDTH) for _ in range(choose.randint(1, 4)))
        self.biases = nn.ParameterList(torch.randn(WIDTH) for _ in range(choose.randint(1, 3)))
        self.table = nn.Embedding(5, WIDTH, sparse=choose.random() < 0.3)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        # Values are drawn from one tower, or from all: towers do not meet where they are kept apart.
        towers = choose.randint(1, 3)
        separate = choose.random() < 0.5
        self.tower_of = [choose.randrange(towers) for _ in range(self.inputs)]
        self.steps: list[tuple[str, int, int, int, bool]] = []
        for made in range(self.inputs, self.inputs + choose.randint(3, 12)):
            tower = choose.randrange(towers)
            known = [v for v, t in enumerate(self.tower_of) if not separate or t == tower]
            kinds = ["linear", "linear", "turned", "bias", "scale", "norm", "batch norm", "tanh", "frozen"]
            kind = choose.choice(
                [*kinds, "add", "add", "mul", "parts", "rows", "detach"] if known else ["table", "own"]
            )
            a, b = (choose.choice(known[-3:]), choose.choice(known)) if known else (0, 0)
            self.steps.append((kind, a, b, choose.randrange(12), choose.random() < 0.3))
            self.tower_of.append(tower)
            assert len(self.tower_of) == made + 1
        self.results = [choose.randrange(len(self.tower_of)) for _ in range(self.outputs)]
        self.results[0] = len(self.tower_of) - 1
        self.as_view = [choose.random() < 0.2 for _ in self.results]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        shared = [(weight / 2).tanh() for weight in self.weights]
        for kind, a, b, k, made_once in self.steps:
            x, y = (values[a], values[b]) if kind not in ("table", "own") else (inputs[0], inputs[0])
            weight = (shared if made_once else self.weights)[k % len(self.weights)]
            bias = self.biases[k % len(self.biases)]
            values.append(
                F.linear(x, weight, bias) if kind == "linear"
                else x @ weight.t() if kind == "turned"
                else x + bias if kind == "bias"
                else x * bias * self.biases[0] if kind == "scale"
                else F.layer_norm(x, (WIDTH,), bias, self.biases[0]) if kind == "norm"
                else self.norm(x) if kind == "batch norm"
                else x.tanh() if kind == "tanh"
                else self.frozen(x) if kind == "frozen"
                else x + y if kind == "add"
                else x * y.sigmoid() if kind == "mul"
                else torch.cat(F.linear(x, torch.cat([weight, weight.t()])).chunk(2, 1)[::-1], 1)[:, 2 : 2 + WIDTH]
                if kind == "parts"
                else x.max(1, keepdim=True).values * self.table(torch.arange(BATCH)) if kind == "rows"
                else x.detach() * 2 if kind == "detach"
                else self.table(torch.arange(BATCH) + k % 2) if kind == "table"
                else weight[:BATCH] * 1.5
            )  # fmt: skip
        return tuple(
            values[v].t().t() if view else values[v] for v, view in zip(self.results, self.as_view, strict=True)
        )
