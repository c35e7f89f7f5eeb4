"""Llama 3 8B over sequences of 8k to 1M tokens: tokens divided over groups, round a ring or by heads, beside tensors.

    python -m tests.reproductions.context 8k            (of 8k, 32k, 128k, 512k, 1M)
    python -m tests.reproductions.context 8k --devices 8
    python -m tests.reproductions.context hf 32768 8    (of transformers, over 8; needs that package)
    python -m tests.reproductions.context published     (Llama 3 405B as it was trained, up to 16,384 H100s; an hour)

bf16 with fp32 masters on H100s in nodes of 8 (450 GB/s inside of a node, 50 GB/s between nodes), ZeRO-1 over replicas,
every layer run again before its backward, 4M tokens an iteration. For every size of groups the best plain split of any
number of replicas and stages is judged by the simulator. Nothing was measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor, nn

from demo_models.llama import Llama, LlamaSize
from explorer.costs.regions import Recompute
from explorer.costs.utilisation import utilisation
from explorer.question.clusters import make_cluster
from explorer.question.loading import load
from explorer.question.nodes.groups import divider, members_of
from explorer.question.problems import make_problem
from explorer.question.questions import question_of
from explorer.question.settings import Settings
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.trace import trace_module
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.plan.degrees import DegreePlan
from solvers.planners.check import check
from solvers.planners.uniform import uniform_plan
from solvers.problem.cluster import Cluster
from solvers.problem.collectives import Axis
from solvers.problem.problem import Pipeline
from solvers.verify.division import division
from tests.reproductions.large_models import llama_of

TOKENS = {"8k": 2**13, "32k": 2**15, "128k": 2**17, "512k": 2**19, "1M": 2**20}
ITERATION = 2**22
"""Tokens."""
DEVICES = (8, 16, 32, 64)
SIZES = (*((Axis.CONTEXT, 2**power) for power in range(1, 7)), (Axis.TENSOR, 4), (Axis.TENSOR, 8))
"""Of groups."""
LOOK_S = 600.0
Both = tuple[Captured, Captured]


def llama(tokens: int) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Llama 3 8B (Grattafiori et al., 2024, table 3), on meta."""
    with torch.device("meta"):
        ids = torch.empty((2, tokens), dtype=torch.int64)
        return Llama(LlamaSize(32, 4096, 32, 8, 14_336, 128_256, tokens, 2)), (ids, ids)


def traced(tokens: int) -> tuple[Workload, Both]:
    pairs: list[Both] = []

    def record(small: Captured, large: Captured, _: bool) -> tuple[Captured, Captured, int]:
        pairs.append((small, large))
        return small, large, 1

    module, inputs = llama(tokens)
    return trace_module(module, inputs, name=f"llama of {tokens:,} tokens", dtype="bf16", divide=record), pairs[0]


def settings_for(devices: int, tokens: int) -> Settings:
    return question_of({
        "devices": devices, "device_kind": "H100-80GB", "devices_per_node": 8, "bandwidth": "450GB/s",
        "node_bandwidth": "50GB/s", "mini_batch": max(1, ITERATION // tokens), "zero": 1, "max_replicas": 0,
        "precision": "mixed", "recompute": "layers",
    })  # fmt: skip


def divided(both: Both, cluster: Cluster, degree: int, axis: Axis, outer_degree: int = 1) -> Workload:
    members = members_of(cluster, degree, "llama", axis=axis, outer_degree=outer_degree)
    divide = divider(degree, None, "bf16", members, axis, outer_degree=outer_degree)
    assert divide is not None
    small, large, most = divide(*both, True)
    return build(small, large, reference="llama", training=True, tensor_parallel=most)


def rows(workload: Workload, settings: Settings, devices: int) -> Iterator[DegreePlan]:
    """Plain splits into every number of replicas and stages."""
    groups = devices // workload.graph.tensor_parallel
    problem = make_problem(workload, settings)
    for data in (count for count in range(1, groups + 1) if groups % count == 0):
        yield uniform_plan(problem, data, groups // data, LOOK_S)[0]


def reproduce(name: str, counts: tuple[int, ...]) -> None:
    """A line for every size of groups, and the notes on attention."""
    tokens = TOKENS[name]
    whole, both = traced(tokens)
    largest = make_cluster(whole, settings_for(max(counts), tokens))
    for axis, degree in SIZES:
        if degree > max(counts):
            continue
        try:
            workload = divided(both, largest, degree, axis)
        except InvalidProblem as error:
            print(f"{name} {axis} {degree}: {error}", flush=True)
            continue
        print(f"{name} {axis} {degree}:", *(n for n in workload.notes if n.startswith("attention")), flush=True)
        for devices in (count for count in counts if count >= degree):
            best = min(rows(workload, settings_for(devices, tokens), devices), key=lambda row: row.objective_s)
            peak = f"{best.peak_bytes / 2**30:.1f} GiB" if not best.reason else best.reason
            print(f"{name} {axis} {degree} on {devices}: {text.seconds(best.objective_s)}, {best.data} x {best.tensor}"
                  f" x {best.pipeline}, {peak}", flush=True)  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A row of table 4 of Grattafiori et al., 2024: Llama 3 405B in bf16. tokens: of a sequence; context: over how many
    these are divided, tensors over 8 and stages over 16; reached: TFLOP/s a GPU."""

    devices: int
    tokens: int
    context: int
    data: int
    reached: int


PUBLISHED = (Published(8192, 2**13, 1, 64, 430), Published(16_384, 2**13, 1, 128, 400),
             Published(16_384, 2**17, 16, 8, 380))  # fmt: skip
TENSOR, STAGES, OF_ITERATION = 8, 16, 2**24
AGAIN = (Recompute.NONE, Recompute.OPERATORS, Recompute.STAGE, Recompute.LAYERS)


def published() -> None:
    """What is predicted of the published degrees, with one stage a device and with several: seconds of an iteration of
    16M tokens, memory, share of the peak."""
    for row in PUBLISHED:
        began = time.monotonic()
        module, inputs = llama_of(126, 16_384, 128, 53_248, row.tokens)
        pairs: list[Both] = []

        def record(
            small: Captured, large: Captured, _: bool, pairs: list[Both] = pairs
        ) -> tuple[Captured, Captured, int]:
            pairs.append((small, large))
            return small, large, 1

        whole = trace_module(module, inputs, name=f"405B, {row.tokens:,} tokens", dtype="bf16", divide=record)
        settings = question_of({
            "devices": row.devices, "device_kind": "H100-80GB", "devices_per_node": 8, "bandwidth": "450GB/s",
            "node_bandwidth": "50GB/s", "mini_batch": OF_ITERATION // row.tokens, "zero": 2, "max_replicas": 0,
            "precision": "mixed", "recompute": "none",
        })  # fmt: skip
        axis = Axis.CONTEXT if row.context > 1 else Axis.TENSOR
        workload = divided(
            pairs[0], make_cluster(whole, settings), TENSOR * row.context, axis, row.context if row.context > 1 else 1
        )
        assert division(workload.graph) == ()
        for again, order in product(AGAIN, (Pipeline.K_F_K_B, Pipeline.INTERLEAVED)):
            problem = make_problem(workload, replace(settings, recompute=again, pipeline=order))
            split, plan = uniform_plan(problem, row.data, STAGES, LOOK_S)
            if plan is None:
                print(f"{row} {again} {order}: {split.reason}", flush=True)
                continue
            assert check(problem, plan) == ()
            used, stages = utilisation(problem, plan, split.objective_s), plan.stages
            print(f"{row} {again} {order}: {text.seconds(split.objective_s)}, {split.peak_bytes / 2**30:.1f} GiB,"
                  f" {used:.1%} of the peak, {OF_ITERATION / split.objective_s / row.devices:.0f} tokens/s a GPU,"
                  f" {len(stages) // STAGES} stages a device, {sum(stage.recompute for stage in stages) // STAGES} of"
                  f" them run again as a whole, {OF_ITERATION // row.tokens // stages[0].micro_batch_size}"
                  f" micro-batches, {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip


def of_library(tokens: int, degree: int) -> None:
    """The notes on a Llama of transformers."""
    workload = load(f"hf:llama,sequence={tokens},context-parallel={degree}", dtype="bf16")
    for note in workload.notes:
        print(note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens", choices=(*TOKENS, "hf", "published"))
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--devices", type=int, choices=DEVICES)
    args = parser.parse_args()
    began = time.process_time()
    if args.tokens == "hf":
        of_library(*args.numbers)
    elif args.tokens == "published":
        published()
    else:
        reproduce(args.tokens, (args.devices,) if args.devices else DEVICES)
    print(f"{time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()
