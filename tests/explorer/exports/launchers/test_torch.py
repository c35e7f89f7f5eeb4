"""What is written for torch, read and run by torch."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, _simulate_comms_compute
from torch.testing._internal.distributed.fake_pg import FakeStore

from demo_models import MODELS
from explorer.exports.formats import export
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.problem import Precision
from tests.explorer.exports.planned import planned

ROOT = Path(__file__).parents[4]
QUARTERS = [f"blocks.{i}.norm1/layer_norm" for i in (1, 2, 3)]


def param_bytes(file: PlanFile) -> list[float]:
    return [sum(file.problem.graph.operators[o].param_bytes for o in stage.operators if
                file.problem.graph.operators[o].forward_of is None) for stage in file.plan.stages]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "firsts"),
    [
        ("gpt-small", ["blocks.2.norm1/layer_norm"]),
        ("gpt-small", ["blocks.1.mlp.up/linear", "blocks.2/add"]),
        ("bert-small", ["blocks.2.attention.value/linear"]),
        ("resnet50-small", ["stages.2.0.conv1/conv2d"]),
    ],
)
def test_torch_cuts_the_model_into_the_stages_of_the_plan(model: str, firsts: list[str]) -> None:
    file = planned(model, firsts)
    content = json.loads(export(file, "torch-split").data)
    module, example = MODELS[model].build()
    spec = {path: SplitPoint[kind] for path, kind in content["split_spec"].items()}
    pipe = pipeline(module, example, split_spec=spec)
    assert pipe.num_stages == len(file.plan.stages)
    stages = [pipe.get_stage_module(i) for i in range(pipe.num_stages)]
    assert [4.0 * sum(p.numel() for p in stage.parameters()) for stage in stages] == param_bytes(file)
    names = [[name for name, _ in stage.named_parameters()] for stage in stages]
    for parameters, modules in zip(names, content["stages"], strict=True):
        owned = [name for name in parameters if any(name.startswith(f"{each}.") for each in modules)]
        assert owned == parameters


@pytest.fixture
def two_ranks():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("two_ranks")
@pytest.mark.parametrize("pipeline_name", ["gpipe", "1f1b", "zero-bubble", "interleaved"])
def test_actions_load_in_the_runtime_of_torch_which_then_sends_and_receives(pipeline_name: str, tmp_path: Path) -> None:
    rounds = pipeline_name == "interleaved"
    file = planned("gpt-small", QUARTERS if rounds else QUARTERS[1:2], devices=(0, 1) * (2 if rounds else 1),
                   pipeline=pipeline_name)  # fmt: skip
    path = tmp_path / "actions.csv"
    path.write_bytes(export(file, "torch-actions").data)
    count = len(file.plan.stages)
    stages = [PipelineStage(nn.Linear(1, 1), i, count, torch.device("cpu")) for i in range(0, count, 2)]
    runtime = _PipelineScheduleRuntime(stages, 4, loss_fn=lambda output, target: output.sum())
    runtime._load_csv(str(path))
    assert runtime.stage_index_to_group_rank == {s: s % 2 for s in range(count)}
    rows = [[str(action) for action in runtime.pipeline_order[rank]] for rank in range(2)]
    assert rows == [[str(a) for a in row if a.kind != "U"] for row in file.plan.order]
    sharding = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
    done = {
        rank: [action for action in row if action and action.computation_type.value not in sharding]
        for rank, row in runtime.pipeline_order_with_comms.items()
    }
    assert {"0SEND_F3", "1SEND_B0"} <= {str(action) for row in done.values() for action in row}
    _simulate_comms_compute(done, runtime.stage_index_to_group_rank.__getitem__, count)  # raises if it does not end


def losses(printed: str) -> list[float]:
    return [float(each) for each in re.findall(r"step \d loss (\S+)", printed)]


@pytest.mark.slow
def test_the_script_trains_in_two_processes_as_the_whole_model_does_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cut amid attention, gradients of inputs and parameters apart, angles that both stages read."""
    file = planned("llama-small", ["blocks.2.attn.k/linear"], pipeline="zero-bubble")
    script = tmp_path / "planned.py"
    script.write_bytes(export(file, "torch-script").data)
    monkeypatch.setattr(sys, "argv", [str(script), "--steps", "2"])
    runpy.run_path(str(script), run_name="__main__")
    whole = losses(capsys.readouterr().out)
    assert len(whole) == 2
    assert whole[0] != whole[1]
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *launcher, str(script), "--steps", "2"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert losses(ran.stdout) == pytest.approx(whole, rel=1e-5)


def test_what_the_script_cannot_do_is_refused() -> None:
    halves = QUARTERS[1:2]
    with pytest.raises(UnsupportedProblem, match=r"demo or package\.module:callable, and this plan is of 'hf:gpt2'"):
        export(planned("gpt-small", halves)._replace(reference="hf:gpt2"), "torch-script")
    for unsafe in ("os:system('x')", "a b:c", "x.pt2", "", "a:b\nimport os"):
        with pytest.raises(UnsupportedProblem, match="makes its model by name"):
            export(planned("gpt-small", halves)._replace(reference=unsafe), "torch-script")
    own = export(planned("gpt-small", halves)._replace(reference="my.models:build"), "torch-script").data.decode()
    assert "from my.models import build as made" in own
    compile(own, "planned.py", "exec")
    with pytest.raises(UnsupportedProblem, match="every stage has 2 replicas"):
        export(planned("gpt-small", halves, devices=((0, 1), (2, 3)), max_replicas=2), "torch-script")
    with pytest.raises(UnsupportedProblem, match="does not train in mixed precision"):
        export(planned("gpt-small", halves, precision=Precision.MIXED), "torch-script")
    for name in ("torch-script", "torch-actions"):
        with pytest.raises(UnsupportedProblem, match="with a backward of every micro-batch only"):
            export(planned("gpt-small", halves, training=False), name)
