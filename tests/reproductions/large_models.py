"""Plans of large models by `auto` over degrees, beside tensors that fill a node and pipelines between nodes.

    python -m tests.reproductions.large_models llama-8b 8
    python -m tests.reproductions.large_models gpt-175b 1024 --time-limit 300
    placement-explorer plan tests/reproductions/large_models.py:branches --dtype bf16 --tensor-parallel auto ...

The models are made on meta at their published sizes; nothing is downloaded. Each is planned for H100s in nodes of 8,
for training in bf16 with fp32 masters, and both plans are judged by the one simulator.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from torch import Tensor, nn

from demo_models.gpt import GPT, GPTSize
from demo_models.llama import Llama, LlamaSize
from demo_models.multimodal import Layer
from explorer.question.clusters import make_cluster
from explorer.question.problems import make_problem
from explorer.question.questions import question_of
from explorer.sweeps.degrees import search_degrees
from explorer.sweeps.divided import DividedModel
from explorer.words import text
from solvers.plan.degrees import DegreePlan
from solvers.planners.solve import solve
from solvers.planners.uniform import uniform_plan

Made = tuple[nn.Module, tuple[Tensor, ...]]
NODE = 8
LOOK_S = 600.0


def _tokens(vocabulary: int, context: int, samples: int = 1) -> tuple[Tensor, Tensor]:
    tokens = torch.zeros((samples, context), dtype=torch.int64, device="meta")
    return tokens, tokens


def llama_of(blocks: int, width: int, heads: int, hidden: int, context: int = 8192) -> Made:
    """A Llama 3 of these sizes, with 8 heads of keys."""
    size = LlamaSize(blocks, width, heads, 8, hidden, 128_256, context, 1)
    with torch.device("meta"):
        return Llama(size), _tokens(size.vocabulary, context)


def llama_8b() -> Made:
    """Grattafiori et al., 2024, table 3."""
    return llama_of(32, 4096, 32, 14_336)


def llama_70b() -> Made:
    """The same, 70B."""
    return llama_of(80, 8192, 64, 28_672)


def llama_405b() -> Made:
    """The same, 405B."""
    return llama_of(126, 16_384, 128, 53_248)


def gpt_175b() -> Made:
    """Brown et al., 2020, table 2.1."""
    with torch.device("meta"):
        return GPT(GPTSize(96, 12_288, 96, 51_200, 2048, 1)), _tokens(51_200, 2048)


class Branches(nn.Module):
    """(features of an image, of a text) -> loss: a small encoder of images beside a large one of texts."""

    def __init__(self, image: tuple[int, int, int], words: tuple[int, int, int]) -> None:
        """image, words: layers, width and heads of each."""
        super().__init__()
        self.image = nn.Sequential(*(Layer(image[1], image[2]) for _ in range(image[0])))
        self.words = nn.Sequential(*(Layer(words[1], words[2]) for _ in range(words[0])))
        self.join = nn.Linear(image[1] + words[1], 1024)
        self.head = nn.Linear(1024, 1000)

    def forward(self, image: Tensor, words: Tensor, labels: Tensor) -> Tensor:
        joined = torch.cat([self.image(image).mean(1), self.words(words).mean(1)], 1)
        return nn.functional.cross_entropy(self.head(torch.relu(self.join(joined))), labels)


def branches() -> Made:
    """An image encoder of ViT-L's size beside a text encoder of 7B parameters: two branches of unlike widths."""
    with torch.device("meta"):
        dtype, labels = torch.float32, torch.zeros(2, dtype=torch.int64)
        return Branches((24, 1024, 16), (32, 4096, 32)), (
            torch.empty((2, 576, 1024), dtype=dtype), torch.empty((2, 2048, 4096), dtype=dtype), labels,
        )  # fmt: skip


MODELS = {
    "llama-8b": (llama_8b, 64), "llama-70b": (llama_70b, 256), "llama-405b": (llama_405b, 512),
    "gpt-175b": (gpt_175b, 1536), "branches": (branches, 128),
}  # fmt: skip
"""Samples of an iteration."""


def filling(divided: DividedModel, devices: int) -> DegreePlan:
    """The best of plain splits whose groups fill a node."""
    assert divided.settings is not None
    problem = make_problem(divided.at(NODE), divided.settings)
    groups = devices // NODE
    replicas = [data for data in range(1, groups + 1) if groups % data == 0]
    rows = [uniform_plan(problem, data, groups // data, LOOK_S)[0] for data in replicas]
    return min(rows, key=lambda row: row.objective_s)


def main() -> None:
    """Print both plans of a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("devices", type=int)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--zero", type=int, default=1)
    args = parser.parse_args()
    make, samples = MODELS[args.model]
    question = question_of({
        "devices": args.devices, "device_kind": "H100-80GB", "wiring": "kind", "mini_batch": samples,
        "zero": args.zero, "max_replicas": 0, "precision": "mixed", "recompute": True,
        "effort": "quick", "time_limit_s": args.time_limit,
    })  # fmt: skip
    began = time.perf_counter()
    divided = DividedModel(f"{__file__}:{make.__name__}", True, "bf16", settings=question)
    whole = divided.at(1)
    traced_s = time.perf_counter() - began
    outcome = search_degrees(
        divided.at, question, make_cluster(whole, question), question.chosen_planner(),
        terms={"effort": question.effort, "time_limit_s": question.time_limit_s}, solver=solve,
        begin=lambda words: print(f"{time.perf_counter() - began:7.1f} s  {words}", flush=True),
    )  # fmt: skip
    result = outcome.result
    took_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    print(f"{args.model}, {args.devices} H100, {samples} samples: {outcome.workload.reference}")
    print(f"  auto     {text.seconds(result.objective_s)}, gap {1 - result.bound_s / result.objective_s:.1%},"
          f" traced in {traced_s:.0f} s, {took_s:.0f} CPU s")  # fmt: skip
    for row in sorted(result.by_degrees, key=lambda row: row.objective_s)[:6]:
        print(f"    {row.data} x {row.tensor} x {row.pipeline}: {text.seconds(row.objective_s)} {row.reason}")
    if args.devices >= NODE:
        row = filling(divided, args.devices)
        print(f"  filling  {row.data} x {row.tensor} x {row.pipeline}: {text.seconds(row.objective_s)} {row.reason}")
    for note in result.notes:
        print("  note", note)


if __name__ == "__main__":
    main()
