"""Whole iterations that others published beside what the estimate says of the same layers and order: nothing is fitted
to these. ``pytest --timeout 3000 -m benchmark -s tests/benchmarks/costs/test_published_iterations.py``, and
BENCHMARK_ROWS=1.5B,6.2B for some rows.

Zero Bubble Pipeline Parallelism (Qi et al., ICLR 2024), table 4, column 1F1B with the least micro-batches: GPT on A100
80 GB, 1,024 tokens, pipelines of p devices, samples/s/GPU. Whether its attention was fused is not stated: both are
shown, beside the published memory.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import explorer
from demo_models.gpt import GPT, GPTSize
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark


class Published(NamedTuple):
    """samples: of a micro-batch; per_gpu: samples/s/GPU; gib: peak memory."""

    name: str
    width: int
    blocks: int
    heads: int
    devices: int
    samples: int
    micro_batches: int
    per_gpu: float
    gib: float


ZERO_BUBBLE = (
    Published("1.5B", 2304, 22, 24, 8, 6, 24, 11.8, 30),
    Published("6.2B", 4096, 30, 32, 8, 3, 24, 3.50, 39),
    Published("14.6B", 5120, 46, 40, 16, 1, 48, 1.40, 32),
    Published("28.3B", 6144, 62, 48, 32, 1, 96, 0.76, 43),
)


class UnfusedAttention(nn.Module):
    """Megatron-LM's core attention: scores, masked softmax and dropout are tensors of their own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = self.dropout(torch.softmax(q @ k.transpose(-1, -2), dim=-1))
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


def gpt(row: Published, fused: bool) -> nn.Module:
    """In bf16 on the meta device, with dropout behind attention and MLP as Megatron-LM trains it."""
    model = GPT(GPTSize(row.blocks, row.width, row.heads, 50304, 1024, 2))
    for block in model.blocks:
        if not fused:
            block.attn = UnfusedAttention(row.width, row.heads)
        block.attn.proj = nn.Sequential(block.attn.proj, nn.Dropout(0.1))
        block.mlp.down = nn.Sequential(block.mlp.down, nn.Dropout(0.1))
    return model.to(torch.bfloat16)


@pytest.mark.parametrize("fused", [True, False])
def test_published_iterations(fused: bool) -> None:
    wanted = os.environ.get("BENCHMARK_ROWS", "").split(",")
    rows: list[list[object]] = []
    for row in ZERO_BUBBLE:
        if wanted != [""] and row.name not in wanted:
            continue
        with torch.device("meta"):
            model = gpt(row, fused)
            tokens = torch.zeros(2, 1024, dtype=torch.long)
        graph = explorer.trace(model, (tokens, tokens), name=row.name)
        result = explorer.plan(
            graph,
            planner="layer-split",
            cluster=f"{max(1, row.devices // 8)}xdgx-a100",
            mini_batch=row.samples * row.micro_batches,
            micro_batches=row.micro_batches,
            pipeline="1f1b",
            precision="mixed-fp32-gradients",
        )
        published_s = row.samples * row.micro_batches / (row.per_gpu * row.devices)
        seconds = result.metrics.iteration_s
        peak = max(result.metrics.peak_memory_bytes) / 2**30
        ratio = seconds / published_s
        figures = f"{published_s:.2f}", f"{seconds:.2f}", f"{ratio:.2f}", f"{peak:.0f}"
        rows.append([row.name, row.devices, *figures, row.gib])
    stated = ["model", "GPUs", "published, s", "estimated, s", "estimated / published", "peak, GiB", "published, GiB"]
    show(f"Published iterations, attention {'fused' if fused else 'not fused'}", stated, rows, "torch")
