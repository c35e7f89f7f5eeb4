"""Published measurements of divided models beside what is predicted for the same degrees.

    python -m tests.reproductions.divided piper
    python -m tests.reproductions.divided megatron 1      (the row of its table, 1 to 10)
    python -m tests.reproductions.divided alpa 1          (1 to 7)
    python -m tests.reproductions.divided torchtitan
    python -m tests.reproductions.divided program llama 8    (the size of the program that divides a model)

Sources. Piper: msr-fiddle/piper, inputs/bert32a100.json. Megatron-LM: Narayanan and others, SC 2021, table 1. Alpa:
Zheng and others, OSDI 2022, its artifact. torchtitan: its benchmarks of Llama 3.1 8B. Nothing was fitted to them.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from demo_models.gpt import GPT, Block, GPTSize
from demo_models.llama import SIZES as LLAMA_SIZES
from demo_models.llama import Llama, LlamaSize
from explorer.costs.roofline import estimate
from explorer.question.loading import load
from explorer.question.nodes.groups import ANY_MEMBERS, Members, divider, with_exchanges
from explorer.question.problems import make_problem
from explorer.question.questions import question_of
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.divide import Group
from explorer.tracing.sharding.program import GroupLink
from explorer.tracing.trace import trace_module
from solvers.formats.workload import Workload
from solvers.kernels.arrays import Floats
from solvers.plan.degrees import DegreePlan
from solvers.planners.uniform import uniform_plan
from solvers.problem.cluster import Link
from solvers.problem.graph import OpGraph, Phase

LOOK_S = 600.0
TOKENS = 2048
VOCABULARY = 51_200


class Row(NamedTuple):
    """A published row. batch: samples of an iteration; measured: TFLOP/s a GPU."""

    width: int
    blocks: int
    heads: int
    tensor: int
    pipeline: int
    devices: int
    batch: int
    measured: tuple[float, ...]


MEGATRON = (
    Row(2304, 24, 24, 1, 1, 32, 512, (137,)),
    Row(3072, 30, 32, 2, 1, 64, 512, (138,)),
    Row(4096, 36, 32, 4, 1, 128, 512, (142,)),
    Row(6144, 40, 48, 8, 1, 256, 1024, (135,)),
    Row(8192, 48, 64, 8, 2, 512, 1536, (138,)),
    Row(10240, 60, 80, 8, 4, 1024, 1792, (140,)),
    Row(12288, 80, 96, 8, 8, 1536, 2304, (148,)),
    Row(16384, 96, 128, 8, 16, 1920, 2160, (155,)),
    Row(20480, 105, 128, 8, 35, 2520, 2520, (163,)),
    Row(25600, 128, 160, 8, 64, 3072, 3072, (163,)),
)
ALPA = (
    Row(1024, 24, 16, 1, 1, 1, 1024, (44.2, 45.1, 47.5)),
    Row(1536, 24, 16, 1, 1, 2, 1024, (57.9, 57.9, 55.5)),
    Row(2048, 24, 32, 1, 1, 4, 1024, (54.0, 58.2, 55.9)),
    Row(2560, 32, 32, 1, 1, 8, 1024, (56.6, 61.6, 50.4)),
    Row(4096, 32, 32, 1, 1, 16, 1024, (59.7, 60.0, 56.6)),
    Row(5120, 48, 40, 1, 1, 32, 1024, (49.8, 59.9, 58.2)),
    Row(8192, 48, 64, 1, 1, 64, 1024, (50.5, 57.0, 57.8)),
)
"""Measured: pipelines only, Alpa, Megatron-LM."""
PIPER_MS = {1: 30.47, 2: 18.72, 4: 11.89, 8: 9.33}
A100: Mapping[str, object] = {
    "device_kind": "A100-80GB", "devices_per_node": 8, "bandwidth": "300GB/s", "node_bandwidth": "25GB/s",
}  # fmt: skip
V100: Mapping[str, object] = {
    "device_kind": "V100-16GB", "devices_per_node": 8, "bandwidth": "75GB/s", "node_bandwidth": "3.125GB/s",
}  # fmt: skip
"""p3.16xlarge: six NVLinks of 25 GB/s, of which a ring uses half one way; 25 Gbit/s between nodes."""


ON_A100, ON_V100 = Members("A100-80GB", 300e9), Members("V100-16GB", 75e9)


def traced(
    module: nn.Module, inputs: tuple[Tensor, ...], degree: int, dtype: str = "bf16", members: Members = ANY_MEMBERS
) -> Workload:
    return trace_module(module, inputs, name="model", dtype=dtype, divide=divider(degree, None, dtype, members))


def gpt(row: Row, tokens: int, degree: int, members: Members, dtype: str = "bf16") -> Workload:
    size = GPTSize(row.blocks, row.width, row.heads, VOCABULARY, tokens, 2)
    with torch.device("meta"):
        ids = torch.empty((2, tokens), dtype=torch.int64)
        module = GPT(size)
    return traced(module, (ids, ids), degree, dtype, members)


def flops(row: Row, tokens: int, again: bool) -> float:
    """Of an iteration; again: with forwards that run again (SC 2021, equation 3)."""
    h, times = row.width, 96 if again else 72
    inside = 1 + tokens / (6 * h) + VOCABULARY / (16 * row.blocks * h)
    return times * row.batch * tokens * row.blocks * h**2 * inside


def planned(workload: Workload, data: int, pipeline: int, question: Mapping[str, object]) -> DegreePlan:
    problem = make_problem(workload, question_of(question))
    return uniform_plan(problem, data, pipeline, LOOK_S)[0]


def piper() -> None:
    """A layer of BERT (width 3,840, 4,096 tokens) on A100s with NVLink 3: forward and backward, one after the other."""
    with torch.device("meta"):
        module, x = Layer(3840, 48), torch.empty((8, 512, 3840))
    for degree, measured in PIPER_MS.items():
        graph = traced(module, (x,), degree, "fp16", ON_A100).graph
        times = with_exchanges(estimate(graph, ["A100-40GB"], "fp16"), graph, Link(0, 1, 300e9, 5e-6))
        seconds = times.at("A100-40GB", 8)
        timed = zip(seconds, graph.operators, strict=True)
        took = sum(s for s, one in timed if one.phase is not Phase.UPDATE and one.module_path != "first")
        print(f"{degree}: measured {measured:.2f} ms, predicted {took * 1e3:.2f} ms, {took * 1e3 / measured - 1:+.0%}")


class Layer(nn.Module):
    """A block after a product whose output has a gradient, as the block before it would make one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.block = nn.Linear(width, width, bias=False), Block(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.first(x)).sum()


def megatron(number: int) -> None:
    row = MEGATRON[number - 1]
    data = row.devices // row.tensor // row.pipeline
    workload = gpt(row, TOKENS, row.tensor, ON_A100)
    settings = {**A100, "devices": row.devices, "mini_batch": row.batch, "precision": "mixed", "max_replicas": data,
             "recompute": "layers"}  # fmt: skip
    for order in ("kfkb", "interleaved") if row.pipeline > 1 else ("kfkb",):
        answer = planned(workload, data, row.pipeline, {**settings, "pipeline": order})
        print_row(f"megatron {number}, {order}", row, answer, flops(row, TOKENS, True))


def alpa(number: int) -> None:
    """The best of all degrees on so many V100s."""
    row = ALPA[number - 1]
    best = DegreePlan(0, 0, 0)
    for tensor in (degree for degree in (1, 2, 4, 8) if degree <= row.devices):
        workload = gpt(row, 1024, tensor, ON_V100, "fp16")
        devices = row.devices // tensor
        for pipeline in (p for p in (2**k for k in range(7)) if devices % p == 0):
            data = devices // pipeline
            settings = {**V100, "devices": row.devices, "mini_batch": row.batch, "precision": "mixed",
                     "max_replicas": data, "recompute": "layers"}  # fmt: skip
            best = min(best, planned(workload, data, pipeline, settings), key=lambda one: one.objective_s)
    print_row(f"alpa {number}", row, best, flops(row, 1024, True))


def torchtitan() -> None:
    """Llama 3.1 8B on 8 H100s with FSDP, one sample of 8,192 tokens each: 5,762 tokens/s a GPU, 82.4 GiB."""
    real = LLAMA_SIZES["real"]
    size = LlamaSize(real.blocks, real.width, real.heads, real.key_heads, real.hidden, real.vocabulary, 8192, 2)
    with torch.device("meta"):
        ids = torch.empty((2, 8192), dtype=torch.int64)
        module = Llama(size)
    workload = traced(module, (ids, ids), 1)
    settings = {"devices": 8, "devices_per_node": 8, "bandwidth": "450GB/s", "mini_batch": 8, "precision": "mixed",
             "max_replicas": 8, "zero": 3}  # fmt: skip
    for again in ("none", "operators", "layers"):
        answer = planned(workload, 8, 1, {**settings, "recompute": again} if again != "none" else settings)
        known = f"{8192 / answer.objective_s:,.0f} tokens/s, {answer.peak_bytes / 2**30:.1f} GiB"
        print(
            f"torchtitan 8B, recompute {again}: measured 5,762 tokens/s, 82.4 GiB; predicted {answer.reason or known}"
        )


def program(name: str, degree: int) -> None:
    """How large the program is that divides a model, and how far its answer may be from the best; seconds are of this
    process and of the solver's."""

    def seconds(graph: OpGraph) -> Floats:
        return estimate(graph, [ANY_MEMBERS.kind], "bf16").at(ANY_MEMBERS.kind, graph.samples)

    link = GroupLink(ANY_MEMBERS.bandwidth_bytes_per_s, ANY_MEMBERS.latency_s)

    def divide(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        began = cpu_s()
        divided = Group(degree, seconds, ANY_MEMBERS.kind, link).divide(small, large, training)
        division, calls = divided.division, len(divided.choices.options)
        gap = 1 - division.bound_s / division.cost_s
        print(f"{name} over {degree}: {calls} calls, {division.variables:,} variables, {cpu_s() - began:.1f} CPU s,"
              f" at most {gap:.2%} from the best")  # fmt: skip
        return divided.small, divided.large, degree

    load(name, dtype="bf16", divide=divide)


def cpu_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def print_row(name: str, row: Row, answer: DegreePlan, work: float) -> None:
    rate = work / answer.objective_s / row.devices / 1e12
    off = ", ".join(f"{rate / measured - 1:+.0%}" for measured in row.measured)
    measured = "/".join(f"{value:g}" for value in row.measured)
    print(
        f"{name}: measured {measured} TFLOP/s, predicted {rate:.0f} ({off}),"
        f" {answer.data} x {answer.tensor} x {answer.pipeline}, {answer.peak_bytes / 2**30:.1f} GiB {answer.reason}"
    )


def main(question: list[str]) -> None:
    began = time.process_time()
    name, *numbers = question
    if name == "program":
        program(numbers[0], int(numbers[1]))
    elif name in ("piper", "torchtitan"):
        {"piper": piper, "torchtitan": torchtitan}[name]()
    else:
        {"megatron": megatron, "alpa": alpa}[name](int(numbers[0]))
    print(f"{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main(sys.argv[1:])
