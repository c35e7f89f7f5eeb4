"""Bytes saved for the backward are those that a real training step saves."""

from __future__ import annotations

import pytest
import torch

from demo_models import MODELS
from explorer.tracing import trace_module
from tests.explorer.tracing.models import demo


def saved_by_a_real_step(name: str) -> int:
    """Distinct storages that autograd saves on a CPU, parameters, buffers and inputs excluded."""
    torch.manual_seed(0)
    module, inputs = MODELS[name].build()
    seen = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers(), *inputs)}
    total, alive = 0, []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal total
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            alive.append(tensor)
            total += storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = module(*inputs)
    assert loss.requires_grad
    return total


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "name",
    [
        "gpt-small",
        "resnet50-small",
        "inception-small",
        "gnmt-small",
        "multimodal-small",
        "dlrm-small",
        "rnnlm-small",
        "transformer-small",
        "nasnet-small",
    ],
)
def test_the_trace_saves_what_a_real_step_saves(name: str) -> None:
    graph = demo(name).graph
    traced = sum(operator.saved_bytes.at(graph.samples) for operator in graph.operators)
    assert traced == pytest.approx(saved_by_a_real_step(name), rel=0.01)


def test_inference_saves_nothing() -> None:
    assert all(operator.saved_bytes.at(4) == 0 for operator in demo("gpt-small", training=False).graph.operators)


def test_half_precision_halves_what_is_saved() -> None:
    module, inputs = MODELS["gpt-small"].build()
    full, half = (trace_module(module, inputs, name="gpt", dtype=dtype).graph for dtype in ("fp32", "bf16"))
    ratio = sum(o.saved_bytes.at(4) for o in half.operators) / sum(o.saved_bytes.at(4) for o in full.operators)
    assert ratio == pytest.approx(0.5, abs=0.03)  # statistics stay in fp32
    assert sum(o.param_bytes for o in half.operators) * 2 == sum(o.param_bytes for o in full.operators)
