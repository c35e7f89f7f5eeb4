"""What launchers read, by their documented grammars; `make check-exports` reads it with their own parsers."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.exports.formats import export
from explorer.exports.launchers.megatron import layout_text
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.problem import Precision
from tests.explorer.exports.planned import planned

HALVES = ("blocks.2.norm1/layer_norm",)
QUARTERS = tuple(f"blocks.{i}.norm1/layer_norm" for i in (1, 2, 3))


def interleaved():
    return planned("gpt-small", QUARTERS, devices=(0, 1, 0, 1), pipeline="interleaved")


def in_a_shell(script: bytes, expression: str, folder: Path) -> list[str]:
    """What an expression is, word by word, after a shell has read the file."""
    path = folder / "given.sh"
    path.write_bytes(script)
    command = f'set -eu; source "$1"; printf "%s\\n" {expression}'
    ran = subprocess.run(["bash", "-c", command, "bash", str(path)], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def flags(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def test_megatron_gets_layers_by_stage_in_rounds(tmp_path: Path) -> None:
    exported = export(interleaved(), "megatron")
    shown = flags(in_a_shell(exported.data, '"${PIPELINE_ARGS[@]}"', tmp_path))
    assert shown == {
        "--num-layers": "4",
        "--pipeline-model-parallel-size": "2",
        "--pipeline-model-parallel-layout": "Et|t|t|tL",
        "--micro-batch-size": "16",
        "--global-batch-size": "64",
    }
    assert layout_text([5, 4, 12]) == "Et*5|tttt|t*12L"
    assert layout_text([0, 3]) == "E|tttL"


def test_megatron_gets_replicas_and_recomputation(tmp_path: Path) -> None:
    file = planned("gpt-small", HALVES, devices=((0, 1), (2, 3)), max_replicas=2)
    exported = export(file, "megatron")
    shown = flags(in_a_shell(exported.data, '"${PIPELINE_ARGS[@]}"', tmp_path))
    assert (shown["--micro-batch-size"], shown["--global-batch-size"]) == ("8", "64")
    assert "2 replicas: start 4 processes, data parallel" in exported.lost


@pytest.mark.parametrize(
    ("model", "first", "why"),
    [
        ("transformer-small", "head/linear", "several lists of layers, encoder and decoder; Megatron has one"),
        ("resnet50-small", "head/linear", r"stages\.0 has no attention"),
        ("gpt-small", "head/linear", "norm is in stage 0, and Megatron has what is not a layer"),
        ("gpt-small", "positions/embedding", "positions is in stage 1, and Megatron"),
    ],
)
def test_megatron_refuses_what_is_not_a_row_of_layers(model: str, first: str, why: str) -> None:
    with pytest.raises(UnsupportedProblem, match=why):
        export(planned(model, [first]), "megatron")


def test_ranks_that_have_stages_in_another_way_than_in_rounds_are_refused() -> None:
    file = planned("gpt-small", QUARTERS, devices=(0, 1, 1, 0), pipeline="interleaved")
    for name in ("megatron", "torchtitan"):
        with pytest.raises(UnsupportedProblem, match="gives stage s to rank s modulo"):
            export(file, name)


def partition(text: str, layers: int, ranks: int) -> list[tuple[int, int]]:
    """The documented grammar of VLLM_PP_LAYER_PARTITION (vllm/envs.py; `get_pp_indices` in
    vllm/distributed/utils.py): numbers with "," between, one a rank, that add up to the layers of the model. Its tests
    read "4,6,6,4" of 20 layers as (0, 4), (4, 10), (10, 16), (16, 20). vLLM itself is not installed here."""
    counts = [int(part) for part in text.split(",")]
    assert len(counts) == ranks
    assert sum(counts) == layers
    return [(sum(counts[:i]), sum(counts[: i + 1])) for i in range(ranks)]


def test_vllm_gets_numbers_of_layers_that_add_up(tmp_path: Path) -> None:
    assert partition("4,6,6,4", 20, 4) == [(0, 4), (4, 10), (10, 16), (16, 20)]
    file = planned("gpt-small", ["blocks.1.norm1/layer_norm"], training=False)
    exported = export(file, "vllm")
    shown, size = in_a_shell(exported.data, '"$VLLM_PP_LAYER_PARTITION" "${VLLM_ARGS[1]}"', tmp_path)
    assert partition(shown, 4, int(size)) == [(0, 1), (1, 4)]
    assert not any("training" in line for line in exported.lost)
    assert any("training" in line for line in export(planned("gpt-small", HALVES), "vllm").lost)
    for name in ("vllm", "deepspeed"):
        with pytest.raises(UnsupportedProblem, match="a rank has 2 stages"):
            export(interleaved(), name)


def test_torchtitan_gets_names_by_stage_and_the_name_of_the_schedule() -> None:
    content = tomllib.loads(export(planned("gpt-small", HALVES, pipeline="gpipe"), "torchtitan").data.decode())
    assert content["parallelism"] == {
        "pipeline_parallel_degree": 2,
        "data_parallel_replicate_degree": 1,
        "pipeline_parallel_schedule": "GPipe",
        "pipeline_parallel_microbatch_size": 16,
        "module_fqns_per_model_part": [
            ["tokens", "positions", "blocks.0", "blocks.1"],
            ["blocks.2", "blocks.3", "norm", "head"],
        ],
    }
    assert b'"Interleaved1F1B"' in export(interleaved(), "torchtitan").data
    with pytest.raises(UnsupportedProblem, match=r"branches\.vision\.layers\.0 lies deeper than torchtitan splits"):
        export(planned("multimodal-small", ["branches.text.layers.0.query/linear"]), "torchtitan")


def configuration(file: PlanFile) -> tuple[dict[str, Any], tuple[str, ...]]:
    """DeepSpeed's, of a file of Python that is read and not run."""
    exported = export(file, "deepspeed")
    tree = ast.parse(exported.data)
    assigned = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    return ast.literal_eval(assigned["CONFIG"]), exported.lost


def test_deepspeed_gets_a_configuration() -> None:
    alone: dict[str, Any] = {"devices": [(0, 1)], "max_replicas": 2}
    whole, lost = configuration(planned("gpt-small", [], zero=2, **alone))
    file = planned("gpt-small", [], **alone)
    batch, passes = file.problem.mini_batch, file.problem.micro_batches
    assert passes
    assert whole == {
        "train_batch_size": batch, "train_micro_batch_size_per_gpu": batch // passes // 2,
        "gradient_accumulation_steps": passes, "zero_optimization": {"stage": 2},
    }  # fmt: skip
    assert any(line.startswith("adam") and "the same optimizer" in line for line in lost)
    piped: dict[str, Any] = {"devices": [(0, 1), (2, 3)], "max_replicas": 2}
    assert configuration(planned("gpt-small", HALVES, zero=1, **piped))[0]["zero_optimization"] == {"stage": 1}
    with pytest.raises(UnsupportedProblem, match="2 stages and ZeRO-2; DeepSpeed's pipelines run with ZeRO-1 at most"):
        export(planned("gpt-small", HALVES, zero=2, **piped), "deepspeed")


def test_deepspeed_gets_the_precision() -> None:
    alone: dict[str, Any] = {"devices": [(0, 1)], "max_replicas": 2}
    file = planned("gpt-small", [], zero=1, **alone)
    short = replace(file.problem.graph, tensors=tuple(replace(t, dtype="bfloat16") for t in file.problem.graph.tensors))

    def configured(**changes: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        return configuration(file._replace(problem=replace(file.problem, graph=short, **changes)))

    assert configured()[0]["bf16"] == {
        "enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True,
    }  # fmt: skip
    assert configured(precision=Precision.MIXED)[0]["bf16"] == {"enabled": True}
    wide, lost = configured(precision=Precision.MIXED_FP32_GRADIENTS)
    assert wide["data_types"] == {"grad_accum_dtype": "fp32"}
    assert not any("fp32" in line for line in lost)


def test_deepspeed_divides_tensors_without_a_pipeline() -> None:
    divided = "gpt-small,tensor-parallel=2"
    config, lost = configuration(planned(divided, [], devices=[(0, 1)], max_replicas=2, zero=2))
    assert config["tensor_parallel"] == {"autotp_size": 2}
    assert "train_batch_size" not in config
    assert any("AutoTP" in line for line in lost)
    with pytest.raises(UnsupportedProblem, match="divides tensors and has ZeRO-3"):
        export(planned(divided, [], devices=[(0, 1)], max_replicas=2, zero=3), "deepspeed")
    with pytest.raises(UnsupportedProblem, match="divides tensors over 2 devices and has 2 stages"):
        export(planned(divided, HALVES), "deepspeed")


def test_deepspeed_gets_positions_and_what_runs_side_by_side() -> None:
    exported = export(planned("gpt-small", HALVES), "deepspeed")
    text = exported.data.decode()
    assert "PARTS = [0, 4, 8]" in text
    compile(text, "planned.py", "exec")
    assert any(line.startswith("what positions and blocks.0 read: ") for line in exported.lost)
    with pytest.raises(UnsupportedProblem, match="reads of the model's inputs; DeepSpeed feeds"):
        export(planned("multimodal-small", ["branches.text.layers.0.query/linear"]), "deepspeed")
    skipping = planned("transformer-small", [f"decoder.{i}.attention.query/linear" for i in (0, 1)])
    for name in ("deepspeed", "torchtitan"):
        with pytest.raises(UnsupportedProblem, match="from stage 0 to 2 goes past a stage"):
            export(skipping, name)
