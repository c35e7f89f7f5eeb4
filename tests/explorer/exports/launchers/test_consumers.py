"""Exports read by the launchers' own code: `make check-exports` installs it; elsewhere these tests are skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from demo_models import MODELS
from explorer.costs.regions import Recompute
from explorer.exports.formats import export
from tests.explorer.exports.launchers.test_divided import AXES, along
from tests.explorer.exports.launchers.test_grammars import HALVES, flags, in_a_shell, interleaved
from tests.explorer.exports.launchers.test_recomputation import megatron, regions
from tests.explorer.exports.planned import planned

pytestmark = [pytest.mark.exports, pytest.mark.filterwarnings("ignore")]


def parser(module: str, package: str) -> ModuleType:
    """A module of a launcher, or the test is skipped."""
    reason = f"{package} is not installed, or not whole: make check-exports"
    return pytest.importorskip(module, reason=reason, exc_type=ImportError)


def test_megatron_core_reads_the_layout(tmp_path: Path) -> None:
    layouts = parser("megatron.core.transformer.pipeline_parallel_layer_layout", "megatron-core")
    enums = parser("megatron.core.transformer.enums", "megatron-core")
    decoder = enums.LayerType.decoder
    for file, expected in (
        (planned("gpt-small", HALVES), [[[0, 1]], [[2, 3]]]),
        (interleaved(), [[[0], [2]], [[1], [3]]]),
    ):
        shown = flags(in_a_shell(export(file, "megatron").data, '"${PIPELINE_ARGS[@]}"', tmp_path))
        ranks = int(shown["--pipeline-model-parallel-size"])
        read = layouts.PipelineParallelLayerLayout.from_str(shown["--pipeline-model-parallel-layout"], ranks)
        read.validate_layer_layout(int(shown["--num-layers"]), 0)
        layers, first = {}, 0
        for number in range(read.virtual_pipeline_model_parallel_size):
            for rank in range(ranks):
                count = read.layout[rank][number].count(decoder)
                layers[rank, number] = list(range(first, first + count))
                first += count
        rounds = range(read.virtual_pipeline_model_parallel_size)
        assert [[layers[rank, number] for number in rounds] for rank in range(ranks)] == expected


def test_torchtitan_takes_the_settings_and_splits_the_model_by_them() -> None:
    config = parser("torchtitan.config", "torchtitan")
    pipelines = parser("torchtitan.distributed.pipeline_parallel", "torchtitan")
    for file in (planned("gpt-small", HALVES), interleaved()):
        content = tomllib.loads(export(file, "torchtitan").data.decode())
        read = config.ParallelismConfig(**content["parallelism"])
        config.TrainingConfig(**content["training"])
        names = read.module_fqns_per_model_part
        ranks = read.pipeline_parallel_degree
        stages = [
            pipelines._get_pp_rank_to_stage_indices_mapping(rank, ranks, read.pipeline_parallel_schedule, len(names))
            for rank in range(ranks)
        ]
        assert stages == [tuple(s for s in range(len(names)) if file.plan.stages[s].devices == (r,)) for r in (0, 1)]
        model, _ = MODELS["gpt-small"].build()
        graph = file.problem.graph
        for part, stage in zip(names, file.plan.stages, strict=True):
            held = pipelines._split_module(model, part)
            owned = sum(
                graph.operators[o].param_bytes for o in stage.operators if graph.operators[o].forward_of is None
            )
            assert 4.0 * sum(parameter.numel() for parameter in held.parameters()) == owned


def test_megatron_core_takes_what_says_that_layers_run_again(tmp_path: Path) -> None:
    config = parser("megatron.core.transformer.transformer_config", "megatron-core").TransformerConfig
    for kind, granularity in ((Recompute.LAYERS, "full"), (Recompute.OPERATORS, "selective")):
        words = iter(megatron(regions(kind), tmp_path))
        fields: dict[str, object] = {word[2:].replace("-", "_"): next(words) for word in words}
        fields |= {"recompute_num_layers": 1} if granularity == "full" else {"recompute_modules": ["layernorm"]}
        read = config(num_layers=4, hidden_size=8, num_attention_heads=1, **fields)
        assert read.recompute_granularity == granularity


RANK = """
import sys

import deepspeed
import torch
from torch import nn

import planned_pipeline as planned

deepspeed.ops.__compatible_ops__.clear()  # of these one would be compiled
deepspeed.init_distributed("gloo")
class Layer(nn.Linear):
    pass

layers = [Layer(4, 4) if name.startswith("blocks") else nn.Linear(4, 4) for name in planned.LAYERS]
made = planned.PlannedPipeline(layers)
made._precompute_checkpointable_values()  # the engine does
held = sorted(int(name.split(".")[0]) for name, _ in made.named_parameters() if name.endswith("weight"))
again = [stage for stage, each in zip(held, made.is_checkpointable_results, strict=True) if each]
sys.stdout.write(f"stage {made.stage_id} of {made.num_stages} parts {made.parts} holds {held} again {again}\\n")
torch.distributed.destroy_process_group()
"""


ENGINE = """
import sys

import deepspeed
import torch
from torch import nn

import planned_pipeline as planned

deepspeed.ops.__compatible_ops__.clear()
deepspeed.init_distributed("gloo")
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
parameters = list(model.parameters())
engine, *_ = planned.initialize(model, model_parameters=parameters, optimizer=torch.optim.AdamW(parameters))
for _ in range(2 * engine.gradient_accumulation_steps()):
    engine.backward(engine(torch.ones(engine.train_micro_batch_size_per_gpu(), 4)).mean())
    engine.step()
stage, samples = engine.zero_optimization_stage(), engine.train_batch_size()
sys.stdout.write(f"stage {stage} of {samples} after {engine.global_steps}\\n")
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_deepspeed_trains_with_the_configuration(zero: int, tmp_path: Path) -> None:
    parser("deepspeed.runtime.config", "deepspeed")
    file = planned("gpt-small", [], devices=[(0, 1)], max_replicas=2, zero=zero)
    out = on_two(tmp_path, export(file, "deepspeed").data, ENGINE)
    assert out.count(f"stage {zero} of {file.problem.mini_batch} after 2\n") == 2


def test_deepspeed_gives_every_stage_its_layers(tmp_path: Path) -> None:
    parser("deepspeed.runtime.pipe.module", "deepspeed")
    out = on_two(tmp_path, export(regions(Recompute.LAYERS), "deepspeed").data, RANK)
    assert sorted(re.findall(r"stage .* holds .*\]", out)) == [
        "stage 0 of 2 parts [0, 4, 8] holds [0, 1, 2, 3] again [2, 3]",
        "stage 1 of 2 parts [0, 4, 8] holds [4, 5, 6, 7] again [4, 5]",
    ]


def on_two(folder: Path, written: bytes, program: str) -> str:
    """What a program says that imports a written file, on two processes."""
    (folder / "planned_pipeline.py").write_bytes(written)
    (folder / "rank.py").write_text(program)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *launcher, "rank.py"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.parametrize("model", AXES)
def test_groups_of_tokens_and_experts_are_taken(model: str, tmp_path: Path) -> None:
    file, members = along(model), 2
    config = parser("torchtitan.config", "torchtitan")
    keys = tomllib.loads(export(file, "torchtitan").data.decode())
    read = config.ParallelismConfig(**keys["parallelism"])
    config.TrainingConfig(**keys["training"])
    assert {read.context_parallel_degree, read.expert_parallel_degree} == {1, members}
    core = parser("megatron.core.transformer.transformer_config", "megatron-core").TransformerConfig
    words = flags(in_a_shell(export(file, "megatron").data, '"${PIPELINE_ARGS[@]}"', tmp_path))
    named = {"--context-parallel-size": "context_parallel_size", "--cp-comm-type": "cp_comm_type"}
    named["--expert-model-parallel-size"] = "expert_model_parallel_size"
    given = {name: words[flag] for flag, name in named.items() if flag in words}
    sizes = {name: int(value) if value.isdigit() else value for name, value in given.items()}
    more = {"num_moe_experts": 4} if "expert_model_parallel_size" in sizes else {}
    taken = core(num_layers=4, hidden_size=32, num_attention_heads=4, **sizes, **more)
    assert {taken.context_parallel_size, taken.expert_model_parallel_size} == {1, members}
