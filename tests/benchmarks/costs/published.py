"""Iterations that others published, as questions: which layers stand where, and how long an iteration took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from demo_models.gpt import GPT, GPTSize


class Published(NamedTuple):
    """samples: of a mini-batch. seconds: of an iteration. stack, precision, recompute and attention: what ran it.
    micro_batches: those that were used, or among which the fastest was published. gib: peak memory, None where it was
    not. cluster: settings."""

    source: str
    name: str
    width: int
    blocks: int
    heads: int
    vocabulary: int
    tokens: int
    devices: int
    samples: int
    micro_batches: tuple[int, ...]
    seconds: float
    cluster: Mapping[str, object]
    stack: str
    precision: str = "mixed"
    dtype: str = "bf16"
    recompute: object = False
    fused_attention: bool = False
    dropout: bool = True
    padded: bool = False
    gib: float | None = None

    @property
    def placement(self) -> dict[str, int]:
        """Module -> device: as many blocks on each; padded: one less on the first and on the last."""
        last, each = self.devices - 1, (self.blocks + 2 * self.padded) // self.devices
        where = {"tokens": 0, "positions": 0, "norm": last, "head": last, "cross_entropy_loss": last}
        return where | {f"blocks.{b}": (b + self.padded) // each for b in range(self.blocks)}


def _zero_bubble(name: str, width: int, blocks: int, heads: int, devices: int, samples: int, micro_batches: int,
                 per_gpu: float, gib: float) -> Published:  # fmt: skip
    """samples: of a micro-batch; per_gpu: samples/s/GPU. The vocabulary follows from the numbers of parameters that are
    stated (1.5, 6.2, 14.6 and 28.3 billion): 32,000, tied."""
    total = samples * micro_batches
    cluster = {"cluster": "dgx-a100" if devices == 8 else f"{devices // 8}xdgx-a100"}
    return Published(
        "Zero Bubble", name, width, blocks, heads, 32_000, 1024, devices, total, (micro_batches,),
        total / (per_gpu * devices), cluster, "fused", padded=True, gib=gib,
    )  # fmt: skip


def _alpa(name: str, width: int, blocks: int, heads: int, devices: int, tflops: float) -> Published:
    """tflops: TFLOP/s a GPU, with what runs again counted: factor 96 of a block, 6 of the head."""
    samples, tokens, vocabulary = 1024, 1024, 51_200
    blocks_flops = 96 * samples * tokens * width**2 * blocks * (1 + tokens / (6 * width))
    flops = blocks_flops + 6 * samples * tokens * width * vocabulary
    cluster = {"devices": devices, "device_kind": "V100-16GB", "bandwidth": "50GB/s"}
    return Published(
        "Alpa", name, width, blocks, heads, vocabulary, tokens, devices, samples, (64, 128, 256, 512),
        flops / (tflops * 1e12 * devices), cluster, "compiled", dtype="fp16", recompute="layers", dropout=False,
    )  # fmt: skip


MEGATRON_FLOPS = 96 * 512 * 2048 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51_200 / (16 * 24 * 2304))

PUBLISHED = (
    _zero_bubble("1.5B", 2304, 22, 24, 8, 6, 24, 11.8, 30),
    _zero_bubble("6.2B", 4096, 30, 32, 8, 3, 24, 3.50, 39),
    _zero_bubble("14.6B", 5120, 46, 40, 16, 1, 48, 1.40, 32),
    _zero_bubble("28.3B", 6144, 62, 48, 32, 1, 96, 0.76, 43),
    _alpa("350M", 1024, 24, 16, 1, 44.2),
    _alpa("760M", 1536, 24, 16, 2, 57.9),
    _alpa("1.3B", 2048, 24, 32, 4, 54.0),
    _alpa("2.6B", 2560, 32, 32, 8, 56.6),
    Published(
        "Megatron-LM",
        "1.7B",
        2304,
        24,
        24,
        51_200,
        2048,
        32,
        512,
        (4,),
        MEGATRON_FLOPS / (32 * 137e12),
        {"cluster": "4xdgx-a100"},
        "fused",
        recompute="layers",
    ),
)
"""Zero Bubble Pipeline Parallelism (Qi et al., ICLR 2024), table 4, column 1F1B with the least micro-batches: GPT on
A100-80GB. Its code (sail-sg/zero-bubble-pipeline-parallelism, examples/pretrain_zero_bubble.sh of that time) says:
fp16, attention that is not fused, and one block less on the first and the last of equal stages.

Alpa (Zheng et al., OSDI 2022), artifact, pipelines only: GPT on V100 of p3.16xlarge, every block checkpointed, equal
stages, the fastest of several numbers of micro-batches (benchmark/alpa/exp_inter_only.py); XLA, so a compiled stack.

Megatron-LM (Narayanan et al., SC 2021), table 1, first row: no pipeline, 32 replicas, 137 TFLOP/s a GPU with what runs
again counted; how many samples a micro-batch has is not said, 4 are taken."""


LAYER = Published("Piper", "layer", 3840, 1, 32, 1024, 2048, 1, 2, (1,), 30.49e-3, {}, "fused")
LAYER_FORWARD_S = 40.69e-3 - 30.49e-3
"""One layer of 3,840 columns, 4,096 tokens, on one A100-80GB, profiled in PyTorch for Piper (Tarnawski et al., NeurIPS
2021; inputs/bert32a100.json of msr-fiddle/piper): forward and backward, and by how much longer it takes to run the
forward again. Sequences have 2,048 tokens: of the embedding's 52,298 rows 2,050 are not divided among devices, which
are positions and the two kinds of tokens. Attention of that time was not fused; that there are 32 heads is assumed."""


class UnfusedAttention(nn.Module):
    """Megatron-LM's core attention: scores, masked softmax and dropout are tensors of their own."""

    def __init__(self, width: int, heads: int, dropout: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj: nn.Module = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1) if dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = self.dropout(torch.softmax(q @ k.transpose(-1, -2), dim=-1))
        made: Tensor = self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return made


def model_of(row: Published) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """(the model in its dtype, an example of two samples), on the meta device."""
    with torch.device("meta"):
        model = GPT(GPTSize(row.blocks, row.width, row.heads, row.vocabulary, row.tokens, 2))
        for block in model.blocks:
            if not row.fused_attention:
                block.attn = UnfusedAttention(row.width, row.heads, row.dropout)
            if row.dropout:
                block.attn.proj = nn.Sequential(block.attn.proj, nn.Dropout(0.1))
                block.mlp.down = nn.Sequential(block.mlp.down, nn.Dropout(0.1))
        tokens = torch.zeros(2, row.tokens, dtype=torch.long)
        return model.to(torch.float16 if row.dtype == "fp16" else torch.bfloat16), (tokens, tokens)
