"""Whole iterations that others published beside what the estimate says of the same cuts and order: nothing is fitted to
these. ``pytest -m benchmark -s tests/benchmarks/costs/test_published_iterations.py``; BENCHMARK_ROWS=1.5B,6.2B for some.

Zero Bubble Pipeline Parallelism (Qi et al., ICLR 2024), table 4, column 1F1B with the least micro-batches: GPT on A100
80 GB, 1,024 tokens, pipelines of p devices, samples/s/GPU.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
import torch

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


def test_published_iterations() -> None:
    wanted = os.environ.get("BENCHMARK_ROWS", "").split(",")
    rows: list[list[object]] = []
    for row in ZERO_BUBBLE:
        if wanted != [""] and row.name not in wanted:
            continue
        size = GPTSize(row.blocks, row.width, row.heads, 50304, 1024, 2)
        with torch.device("meta"):
            model = GPT(size).to(torch.bfloat16)
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
    header = ["model", "devices", "published, s", "estimated, s", "estimated / published", "peak, GiB", "published, GiB"]
    show("Published iterations", header, rows, "torch")
