"""Plans of published mixtures of experts, their samples and experts divided over groups, beside tensors over a node.

    python -m tests.reproductions.mixtures mixtral 64 8
    python -m tests.reproductions.mixtures deepseek-v3 1024 64 --device-kind H200-141GB --time-limit 300 --load 1.2
    python -m tests.reproductions.mixtures qwen3-moe 8 8 --zipf 1 --redundant 16 --inference
    python -m tests.reproductions.mixtures deepseek-v3 2048 64 --samples 15360 --micro-batches 120 --replicas 2 \\
        --bandwidth 160GB/s --node-bandwidth 50GB/s

The models are those of the transformers package, made on meta by their published sizes; nothing is downloaded. Devices
sit in nodes of 8; training is in bf16 with fp32 masters, ZeRO-1 and recomputation where memory asks for it. Samples
and experts are divided over DEGREE devices; 0 divides tensors over a node instead. Before the search the plain splits
into --replicas pipelines are judged, if that is given. --zipf S has the experts chosen as often as 1 over their ranks
to the power of S, in an order by chance, and packed.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

from explorer.question.models.example import join_example, split_example
from explorer.question.models.expert_load import ExpertLoad, load_of
from explorer.question.problems import make_problem
from explorer.question.questions import Question, question_of
from explorer.sweeps.divided import DividedModel
from explorer.words import text
from solvers.evaluation.evaluate import evaluate
from solvers.planners.solve import solve
from solvers.planners.uniform import uniform_plan
from solvers.problem.problem import Problem
from solvers.search.effort import Effort

NODE, TOKENS, LOOK_S = 8, 4096, 600.0
MODELS: dict[str, tuple[str, str, dict[str, object], int]] = {
    "mixtral": ("mixtral", "MixtralForCausalLM", {}, 512),
    "qwen3-moe": ("qwen3_moe", "Qwen3MoeForCausalLM", {"num_hidden_layers": 48, "head_dim": 128}, 512),
    "gpt-oss": ("gpt_oss", "GptOssForCausalLM", {"num_hidden_layers": 36}, 512),
    "deepseek-v3": ("deepseek_v3", "DeepseekV3ForCausalLM", {}, 8192),
}
"""By name: the type and class of transformers, what differs from the type's defaults, samples of an iteration. Mixtral
8x7B (Jiang et al., 2024), Qwen3-30B-A3B (2025), gpt-oss-120b (2025), DeepSeek-V3 (2024, 671 billion parameters)."""


EXPERTS = {"mixtral": 8, "qwen3-moe": 128, "gpt-oss": 128, "deepseek-v3": 256}


def zipf(experts: int, exponent: float) -> list[int]:
    """Tokens of each expert, of a hundred thousand that the most chosen has."""
    counts = [round(1e5 / rank**exponent) for rank in range(1, experts + 1)]
    random.Random(0).shuffle(counts)
    return counts


def print_split(problem: Problem, replicas: int) -> None:
    """Print the best plain split into so many pipelines of all groups."""
    groups = len(problem.cluster.accelerators)
    row, plan = uniform_plan(problem, replicas, groups // replicas, LOOK_S)
    again = 0 if plan is None else sum(stage.recompute for stage in plan.stages)
    print(f"plain split, {row.data} x {row.pipeline} groups: {text.seconds(row.objective_s)},"
          f" {text.nbytes(row.peak_bytes)} at most, {again} stages run again {row.reason}")  # fmt: skip


def main() -> None:
    """Print the plan of a model, for each number of redundant experts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("devices", type=int)
    parser.add_argument("degree", type=int)
    parser.add_argument("--device-kind", default="H100-80GB")
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--zipf", type=float)
    parser.add_argument("--redundant", type=int, default=[0], nargs="+")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--micro-batches", type=int)
    parser.add_argument("--replicas", type=int, default=0)
    parser.add_argument("--bandwidth")
    parser.add_argument("--node-bandwidth")
    args = parser.parse_args()
    kind, of_class, other, samples = MODELS[args.model]
    stated = {"bandwidth": args.bandwidth, "node_bandwidth": args.node_bandwidth}
    links = stated if args.bandwidth else {"wiring": "kind"}
    settings = question_of(
        {
            "devices": args.devices, "device_kind": args.device_kind, "devices_per_node": NODE, **links,
            "mini_batch": args.samples or samples, "micro_batches": args.micro_batches, "max_replicas": 0,
            "effort": "quick", "time_limit_s": args.time_limit,
            **({} if args.inference else {"zero": 1, "precision": "mixed", "recompute": True}),
        }
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / args.model
        place.mkdir()
        (place / "config.json").write_text(json.dumps({"model_type": kind, "architectures": [of_class], **other}))
        axis = f"expert-parallel={args.degree}" if args.degree else f"tensor-parallel={NODE}"
        name = f"hf:{place},sequence={TOKENS},{axis}"
        load: float | str = args.load
        if args.zipf is not None:
            load = str(place / "counts.json")
            Path(load).write_text(json.dumps(zipf(EXPERTS[args.model], args.zipf)))
        divided = DividedModel(name, not args.inference, "bf16", settings=settings)  # captured once
        for redundant in args.redundant:
            of = join_example(name, redundant_experts=redundant or None)
            stated, packing = load_of(split_example(of)[1], load) if args.degree else (None, None)
            divided.model = join_example(of, expert_load=stated)
            _plan(divided, settings, packing, args.replicas)


def _plan(divided: DividedModel, settings: Question, packing: ExpertLoad | None, replicas: int) -> None:
    """Print the plan of a model as it is divided, with what was packed."""
    began = time.perf_counter()
    workload = divided.as_named()
    if packing is not None:
        workload = packing.noted(workload)
    made = time.perf_counter() - began
    problem = make_problem(workload, settings)
    if replicas:
        print_split(problem, replicas)
    result = solve(problem, settings.chosen_planner(), effort=Effort.QUICK, time_limit_s=settings.time_limit_s)
    degrees = divided.model.rpartition(f",sequence={TOKENS},")[2]
    print(f"{workload.graph.name}, {workload.parameters / 1e9:.0f}B, {degrees}: divided in {made:.0f} s")
    for note in workload.notes:
        print("note", note)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    wall_s = time.perf_counter() - began
    print(f"{result.status.name}, bound {text.seconds(result.bound_s)}, {used:.0f} CPU s, {wall_s:.0f} s")
    if result.plan is not None:
        stages = result.plan.stages
        rate = problem.mini_batch * TOKENS / result.objective_s / settings.devices
        replicas = sorted({len(stage.devices) for stage in stages})
        peak = max(evaluate(result.problem, result.plan).peak_memory_bytes)
        print(
            f"iteration {text.seconds(result.objective_s)}, {rate:,.0f} tokens/s a GPU, {len(stages)} stages on groups,"
            f" micro-batches of {stages[0].micro_batch_size}, replicas {replicas}, {text.nbytes(peak)} at most",
            flush=True,
        )


if __name__ == "__main__":
    main()
