"""Plans that divide tensors over groups: their degree for launchers, and read back."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.exports.configurations.configured import configured_plan, read_configuration
from explorer.exports.formats import FORMATS, export
from explorer.exports.layers.divided import attention_ways
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.plan.plan import Plan
from solvers.problem.collectives import Axis
from tests.explorer.exports.launchers.test_grammars import flags, in_a_shell
from tests.explorer.exports.planned import planned

MODEL, HALVES = "gpt-small,tensor-parallel=2", ["blocks.2.norm1/layer_norm"]
DIVIDES = ("torchtitan", "megatron", "vllm")


def halves() -> PlanFile:
    return planned(MODEL, HALVES, devices=[(0, 1), (2, 3)], max_replicas=2)


def tokens_apart(file: PlanFile) -> PlanFile:
    """The same plan with the input of every norm divided by tokens."""
    graph = file.problem.graph
    assert graph.division is not None
    read = {call.inputs[0] for call in graph.division.calls if "norm" in call.target and call.inputs}
    assert read
    tensors = tuple(
        replace(one, placement="S(1)") if i in read else one for i, one in enumerate(graph.division.tensors)
    )
    divided = replace(graph, division=replace(graph.division, tensors=tensors))
    return file._replace(problem=replace(file.problem, graph=divided))


def shape(plan: Plan) -> list[tuple[set[int], tuple[int, ...]]]:
    return [(set(stage.operators), stage.devices) for stage in plan.stages]


@pytest.mark.parametrize("launcher", ["megatron", "torchtitan"])
def test_a_divided_plan_comes_back(launcher: str, tmp_path: Path) -> None:
    file, path = halves(), tmp_path / "written"
    path.write_bytes(export(file, launcher).data)
    read = read_configuration(f"{launcher}:{path}")
    assert (read.tensor, read.pipeline) == (2, 2)
    assert read.replicas(8) == 2
    plan = configured_plan(file.problem, read)
    assert shape(plan) == shape(file.plan)
    assert plan.order == file.plan.order


def test_processes_and_devices_are_those_of_all_members(tmp_path: Path) -> None:
    exported = export(halves(), "megatron")
    assert "2 replicas: start 8 processes, data parallel" in exported.lost
    assert b"on 8 x H100-80GB" in exported.data
    words = in_a_shell(exported.data, '"${PIPELINE_ARGS[@]}"', tmp_path)
    assert flags(words)["--tensor-model-parallel-size"] == "2"
    assert "tensor" not in export(planned("gpt-small", HALVES), "megatron").data.decode()
    served = export(planned(MODEL, HALVES, training=False), "vllm")
    assert in_a_shell(served.data, '"${VLLM_ARGS[*]}"', tmp_path) == [
        "--pipeline-parallel-size 2 --tensor-parallel-size 2"
    ]


def test_tokens_are_divided_where_the_plan_divides_them() -> None:
    together, separate = halves(), tokens_apart(halves())
    assert b"--sequence-parallel" not in export(together, "megatron").data
    assert b"--sequence-parallel" in export(separate, "megatron").data
    assert "tokens between the products: torchtitan divides them, the plan not" in export(together, "torchtitan").lost
    exported = export(separate, "torchtitan")
    assert not any(line.startswith("tokens") for line in exported.lost)
    assert tomllib.loads(exported.data.decode())["parallelism"]["tensor_parallel_degree"] == 2
    assert "tokens between the products: vLLM does not divide them, the plan does" in export(separate, "vllm").lost


def test_it_lists_how_much_is_divided_and_no_exchange_as_a_module() -> None:
    for name in DIVIDES:
        lost = export(halves(), name).lost
        assert any("the plan divides 35 of 53 parameters" in line for line in lost)
        assert not any("all_gather" in line for line in lost)


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.launches and not one.divides])
def test_other_launchers_refuse_and_name_those_that_take_it(name: str) -> None:
    with pytest.raises(UnsupportedProblem, match=r"groups of 2 devices, .* megatron, deepspeed, vllm, tp-plan and"):
        export(halves(), name)


CONTEXT, EXPERT = "gpt-small,context-parallel=2", "moe-small,expert-parallel=2"
AXES = {
    CONTEXT: ("context", "--context-parallel-size", "context_parallel_degree", "blocks.2.norm1/layer_norm"),
    EXPERT: ("expert", "--expert-model-parallel-size", "expert_parallel_degree", "blocks.1.norm1/rms_norm"),
    f"{CONTEXT},tensor-parallel=2": (
        "context",
        "--context-parallel-size",
        "context_parallel_degree",
        "blocks.2.norm1/layer_norm",
    ),
}


def along(model: str) -> PlanFile:
    return planned(model, [AXES[model][3]], devices=[(0, 1), (2, 3)], max_replicas=2, mini_batch=32)


@pytest.mark.parametrize("model", AXES)
def test_groups_of_tokens_and_of_experts_come_back(model: str, tmp_path: Path) -> None:
    file, (axis, flag, key, _) = along(model), AXES[model]
    tensor = {Axis.TENSOR: 2} if "tensor" in model else {}
    for launcher in ("megatron", "torchtitan"):
        written = export(file, launcher)
        path = tmp_path / launcher
        path.write_bytes(written.data)
        read = read_configuration(f"{launcher}:{path}")
        assert read.axes == {Axis(axis): 2, **tensor}
        assert (read.pipeline, read.replicas(4 * read.members)) == (2, 2)
        assert read.samples(2) == 32
        plan = configured_plan(file.problem, read)
        assert [stage.devices for stage in plan.stages] == [(0, 1), (2, 3)]
        assert export(file._replace(plan=plan), launcher).data == written.data
        settings = [line for line in written.data.decode().splitlines() if "#" not in line]
        assert any("tensor" in line for line in settings) == bool(tensor)
    words = in_a_shell(export(file, "megatron").data, '"${PIPELINE_ARGS[@]}"', tmp_path)
    assert flags(words)[flag] == "2"
    of_rank = 2 * (2 if axis == "expert" else 1)
    assert int(flags(words)["--micro-batch-size"]) * of_rank * 4 == 32
    assert tomllib.loads(export(file, "torchtitan").data.decode())["parallelism"][key] == 2


@pytest.mark.parametrize("name", ["vllm", "deepspeed", "tp-plan"])
def test_what_divides_tensors_alone_refuses_tokens_and_experts(name: str) -> None:
    with pytest.raises(UnsupportedProblem, match=r"divides tokens over groups of 2 .*; torchtitan and megatron do"):
        export(along(CONTEXT), name)
    with pytest.raises(UnsupportedProblem, match="samples and experts"):
        export(along(EXPERT), name)


@pytest.mark.parametrize("name", ["megatron", "torchtitan"])
def test_tokens_beside_experts_are_not_written(name: str) -> None:
    model = "moe-small,context-parallel=2,expert-parallel=2"
    file = planned(model, ["blocks.1.norm1/rms_norm"], devices=[(0, 1), (2, 3)], max_replicas=2, mini_batch=32)
    with pytest.raises(UnsupportedProblem, match="launchers lay experts over ranks of contexts"):
        export(file, name)


def test_attention_by_heads_and_by_rings_is_stated() -> None:
    text = export(along(CONTEXT), "megatron").data.decode()
    rings, heads = attention_ways(along(CONTEXT).problem.graph)
    assert rings + heads == 4
    assert ("--cp-comm-type p2p" in text) == (rings >= heads)
