"""What holds for every traced demonstration model."""

from __future__ import annotations

import pytest
import torch

from demo_models import MODELS
from solvers.formats.workload import Workload
from solvers.problem.graph import Phase
from tests.explorer.tracing.models import demo, forward, shipped

REAL = (
    "gpt", "bert", "resnet50", "inception", "gnmt", "multimodal", "dlrm", "candle_uno", "rnnlm", "transformer",
    "nasnet",
)  # fmt: skip
SMALL = tuple(f"{name}-small" for name in REAL)


def graph_of(name: str) -> Workload:
    """Traced now if it is small; the large ones as they ship."""
    return demo(name) if name in SMALL else shipped(name)


@pytest.mark.first(18)
@pytest.mark.parametrize("name", REAL + SMALL)
def test_every_parameter_is_counted_once(name: str) -> None:
    with torch.device("meta"):
        module, _ = MODELS[name].build()
    expected = sum(p.numel() for p in module.parameters())
    workload = graph_of(name)
    assert workload.parameters == expected
    assert sum(operator.param_bytes for operator in workload.graph.operators) == 4 * expected


@pytest.mark.parametrize("name", REAL)
def test_names_are_unique_and_the_graph_is_acyclic(name: str) -> None:
    graph = shipped(name).graph
    assert len(graph.index_of()) == len(graph) == len(graph.topological_order)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", REAL)
def test_inference_is_the_forward_alone(name: str) -> None:
    assert {operator.phase for operator in demo(f"{name}-small", training=False).graph.operators} == {Phase.FORWARD}


def test_resnet50_takes_the_published_operations_for_an_image() -> None:
    # 4.1 billion multiply-adds in products and convolutions (torchvision states 4.09 GFLOPS).
    heavy = ("aten.conv2d", "aten.linear")
    flops = sum(o.flops.per_sample for o in forward(shipped("resnet50")) if o.op_type in heavy)
    assert flops == pytest.approx(2 * 4.09e9, rel=0.01)


def test_inception_takes_the_published_operations_for_an_image() -> None:
    heavy = ("aten.conv2d", "aten.linear")
    flops = sum(o.flops.per_sample for o in forward(shipped("inception")) if o.op_type in heavy)
    assert flops == pytest.approx(2 * 5.71e9, rel=0.01)  # torchvision states 5.71 GFLOPS


def test_nasnet_takes_the_published_operations_for_an_image() -> None:
    heavy = ("aten.conv2d", "aten.linear")
    flops = sum(o.flops.per_sample for o in forward(shipped("nasnet")) if o.op_type in heavy)
    assert flops == pytest.approx(2 * 23.8e9, rel=0.01)  # table 2 of the paper


@pytest.mark.parametrize("name", ["rnnlm", "gnmt", "transformer", "nasnet"])
def test_there_is_enough_to_schedule_in_a_training_step(name: str) -> None:
    graph = shipped(name).graph
    assert {operator.phase for operator in graph.operators} == {
        Phase.FORWARD, Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT, Phase.UPDATE
    }  # fmt: skip
    assert len(graph) > 700


def test_rnnlm_takes_two_operations_for_a_product_s_weight_and_word() -> None:
    workload = shipped("rnnlm")
    linear = sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear")
    assert linear == 2 * 20 * (2 * 4 * 1500 * 2 * 1500 + 1500 * 10_000)


def test_transformer_takes_two_operations_for_a_product_s_weight_and_token_beside_attention() -> None:
    workload = shipped("transformer")
    width, inner, tokens = 512, 2048, 64
    linear = sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear")
    layers = 6 * (4 * width**2 + 2 * width * inner) + 6 * (8 * width**2 + 2 * width * inner)
    assert linear == 2 * tokens * (layers + width * 37000)
    attention = sum(o.flops.per_sample for o in forward(workload) if "attention" in o.op_type)
    assert attention == 18 * 4 * tokens**2 * width


def test_gpt_takes_two_operations_for_a_parameter_and_token_beside_attention() -> None:
    workload = shipped("gpt")
    linear = sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear")
    tables = (50304 + 1024) * 1792  # looked up, not multiplied
    assert linear == pytest.approx(2 * 1024 * (workload.parameters - tables), rel=0.01)
    attention = sum(o.flops.per_sample for o in forward(workload) if "attention" in o.op_type)
    assert attention == 24 * 4 * 1024**2 * 1792  # every query with every key, twice


def test_bert_takes_two_operations_for_a_product_s_weight_and_token_beside_attention() -> None:
    workload = shipped("bert")
    width, tokens = 1024, 512
    linear = sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear")
    of_every_token = 24 * 12 * width**2 + width**2 + width * 30522  # blocks, masked-token head
    of_the_first = width**2 + 2 * width  # pooler, next sentence
    assert linear == pytest.approx(2 * (tokens * of_every_token + of_the_first), rel=0.001)
    attention = sum(o.flops.per_sample for o in forward(workload) if "attention" in o.op_type)
    assert attention == 24 * 4 * tokens**2 * width


def test_dlrm_takes_two_operations_for_a_weight_beside_its_tables_and_saves_what_relu_makes() -> None:
    workload = shipped("dlrm")
    joined, width = 7 * 4096 + 7 * 64, 4096
    weights = 7 * (2048 + 3 * width) * width + (joined + 3 * width) * width + width
    assert sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear") == 2 * weights
    assert workload.parameters == 7 * 1_000_000 * 64 + weights + 32 * width + 1
    saved = sum(o.saved_bytes.per_sample for o in forward(workload))
    # Each ReLU's result, the join, three numbers of 8 bytes for every bag, and the score.
    assert saved == 4 * (32 * width + joined) + 7 * 3 * 8 + 4


def test_uno_takes_two_operations_for_a_weight() -> None:
    workload = shipped("candle_uno")
    features, width = 942 + 2 * 5270 + 2 * 2048 + 2, 4096
    weights = (features + 7 * 3 * width) * width + (7 * width + 3 * width) * width + width
    assert sum(o.flops.per_sample for o in forward(workload) if o.op_type == "aten.linear") == 2 * weights
    assert workload.parameters == weights + 32 * width + 1


@pytest.mark.parametrize("name", SMALL)
def test_operators_are_named_after_their_module(name: str) -> None:
    with torch.device("meta"):
        module, _ = MODELS[name].build()
    modules = dict(module.named_modules())
    for operator in demo(name).graph.operators:
        assert operator.module_path in modules
        assert operator.name.startswith(operator.module_path)


def test_positions_and_zero_states_may_be_copied_and_nothing_else() -> None:
    assert [o.name for o in forward(demo("gpt-small")) if o.replicable] == ["arange"]
    assert {o.op_type for o in forward(demo("gnmt-small")) if o.replicable} == {"aten.zeros"}
    assert not [o for o in forward(demo("resnet50-small")) if o.replicable]
