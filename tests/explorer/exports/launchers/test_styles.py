"""Styles of modules: parameters lie as the plan says, and a model that is divided so computes what a whole one does."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from demo_models import MODELS
from explorer.exports.formats import export
from explorer.exports.layers.styles import styles_of
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from tests.browser.fakes.ports import free_port
from tests.explorer.exports.planned import planned

LLAMA = "llama-small,tensor-parallel=2"


def file_of(model: object, *inputs: Tensor, degree: int = 2) -> PlanFile:
    traced = model if isinstance(model, str) else explorer.trace(model, inputs, tensor_parallel=degree)
    result = explorer.plan(traced, devices=2, effort="quick", bandwidth=450e9)
    assert result.plan is not None
    return PlanFile(result.problem, result.plan, None, "m")


def program(file: PlanFile, folder: Path) -> dict[str, object]:
    path = folder / "divide.py"
    path.write_bytes(export(file, "torch-parallelize").data)
    return runpy.run_path(str(path))


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_parameters_lie_as_the_plan_says(tmp_path: Path) -> None:
    file = file_of(LLAMA)
    module, _ = MODELS["llama-small"].build()
    namespace = program(file, tmp_path)
    divided = namespace["parallelize"](module, init_device_mesh("cpu", (2,)))  # type: ignore[operator]
    division = file.problem.graph.division
    assert division is not None
    stated = {tensor.name: tensor.placement for tensor in division.tensors if tensor.parameter}
    checked = 0
    for name, parameter in divided.named_parameters():
        placement = stated[f"p_{name.replace('.', '_')}"]
        if placement.startswith("S("):
            assert isinstance(parameter, DTensor)
            assert str(parameter.placements[0]) == placement
            checked += 1
        else:
            assert not isinstance(parameter, DTensor) or parameter.placements[0].is_replicate()
    assert checked > 20


def test_hugging_face_gets_each_kind_of_module_once() -> None:
    made = export(file_of(LLAMA), "tp-plan")
    plan = json.loads(made.data)
    assert plan["blocks.*.attn.q"] == plan["blocks.*.mlp.up"] == "colwise"
    assert plan["blocks.*.attn.o"] == plan["blocks.*.mlp.down"] == "rowwise"
    assert plan["tokens"].startswith("embedding_")
    assert any("start 2 processes" in line for line in made.lost)


class Block(nn.Module):
    """Norm, columns, rows: loss of [batch, tokens, width]."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.norm(x)))).square().sum(-1).mean()


def _member(rank: int, port: int, path: str, wanted: dict[str, Tensor], loss: float) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    block, x = Block().double(), torch.randn(2, 8, 16, dtype=torch.float64)
    namespace = runpy.run_path(path)
    namespace["parallelize"](block, namespace["mesh_of"]("cpu"))
    made = block(x)
    made.backward()
    assert abs(made.item() - loss) < 1e-9
    for name, parameter in block.named_parameters():
        gradient = parameter.grad.full_tensor() if isinstance(parameter.grad, DTensor) else parameter.grad
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-9, atol=1e-12)
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_compute_the_loss_and_the_gradients_of_one(tmp_path: Path, port: int) -> None:
    file = file_of(Block(), torch.zeros(2, 8, 16))
    assert {"up", "down"} <= styles_of(file.problem.graph, "x").of.keys()
    program(file, tmp_path)
    torch.manual_seed(0)
    block, x = Block().double(), torch.randn(2, 8, 16, dtype=torch.float64)
    loss = block(x)
    loss.backward()
    wanted = {
        name: parameter.grad.clone() for name, parameter in block.named_parameters() if parameter.grad is not None
    }
    mp.spawn(_member, (port, str(tmp_path / "divide.py"), wanted, loss.item()), nprocs=2)


@pytest.fixture
def port() -> int:
    return free_port()


def test_what_no_style_says_is_listed() -> None:
    made = export(file_of("gpt-small,tensor-parallel=2"), "torch-parallelize")
    assert any("how aten.linear is divided, of blocks.0.attn.qkv" in line for line in made.lost)
    assert b"blocks.0.attn.qkv" not in made.data.partition(b"STYLES")[2]


@pytest.mark.parametrize("to", ["tp-plan", "torch-parallelize"])
def test_whole_tensors_have_no_styles(to: str) -> None:
    with pytest.raises(UnsupportedProblem, match="its tensors are whole"):
        export(planned("gpt-small", ["blocks.2.norm1/layer_norm"], devices=[(0,), (1,)]), to)


def test_transformers_takes_the_plan_of_its_own_model() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=128,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    tokens = torch.zeros((2, 16), dtype=torch.int64)
    traced = explorer.trace(
        model, example_kwargs={"input_ids": tokens, "labels": tokens, "use_cache": False}, tensor_parallel=2
    )
    result = explorer.plan(traced, devices=2, effort="quick", bandwidth=450e9)
    assert result.plan is not None
    plan = json.loads(export(PlanFile(result.problem, result.plan, None, "m"), "tp-plan").data)
    own = {f"model.{module}": word for module, word in config.base_model_tp_plan.items()}
    assert own.items() <= plan.items()
    model.tp_plan = plan
