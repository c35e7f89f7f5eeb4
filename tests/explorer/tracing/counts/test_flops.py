"""FLOPs from shapes equal those of torch's own counter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from demo_models import MODELS
from explorer.tracing import trace_module
from explorer.tracing.flops import PRODUCTS
from solvers.problem.graph import Phase
from tests.explorer.tracing.models import demo, forward


class Call(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)  # type: ignore[operator]


def counted(module: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    # torch's counter knows attention's kernels on GPUs, and on a CPU only as its two products.
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        module(*inputs)
    return counter.get_total_flops()


def of_products(module: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    workload = trace_module(module, inputs, name="tiny", training=False)
    return sum(o.flops.at(workload.graph.samples) for o in forward(workload) if o.op_type in PRODUCTS)


R = torch.randn


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (F.linear, (R(2, 3, 4), R(5, 4))),
        (torch.matmul, (R(2, 3, 4), R(2, 4, 5))),
        (torch.matmul, (R(2, 3, 4), R(4, 5))),
        (torch.bmm, (R(2, 3, 4), R(2, 4, 5))),
        (torch.addmm, (R(5), R(2, 4), R(4, 5))),
        (torch.baddbmm, (R(2, 3, 5), R(2, 3, 4), R(2, 4, 5))),
        (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (R(2, 3, 4), R(2, 4, 5))),
        (F.conv1d, (R(2, 4, 9), R(6, 4, 3))),
        (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (R(2, 4, 9, 9), R(6, 4, 3, 3))),
        (F.conv3d, (R(2, 4, 5, 5, 5), R(6, 4, 3, 3, 3))),
        (lambda x, w: F.conv_transpose2d(x, w, stride=2), (R(2, 4, 5, 5), R(4, 6, 3, 3))),
        (F.scaled_dot_product_attention, (R(2, 3, 8, 4), R(2, 3, 8, 4), R(2, 3, 8, 4))),
    ],
)
def test_a_product_counts_as_torch_counts_it(function: object, inputs: tuple[Tensor, ...]) -> None:
    module = Call(function)
    assert of_products(module, inputs) == counted(module, inputs) > 0


def test_a_grouped_convolution_counts_only_its_own_channels() -> None:
    module = nn.Conv2d(8, 8, 3, groups=8, bias=False)
    assert of_products(module, (R(2, 8, 9, 9),)) == 2 * (2 * 7 * 7) * (8 * 1 * 3 * 3)


def test_a_fused_lstm_counts_as_its_unrolled_cells() -> None:
    steps, batch, width = 5, 2, 4
    fused = of_products(nn.LSTM(width, width, batch_first=True), (R(batch, steps, width),))
    assert fused == steps * batch * 2 * (2 * 4 * width * width)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "name",
    [
        "gpt-small",
        "resnet50-small",
        "multimodal-small",
        "dlrm-small",
        "gnmt-small",
        "rnnlm-small",
        "transformer-small",
        "llama-small",
        "moe-small",
    ],
)
def test_a_whole_model_counts_as_torch_counts_it(name: str) -> None:
    module, inputs = MODELS[name].build()
    assert of_products(module.eval(), inputs) == counted(module, inputs)


def test_attention_says_whether_its_mask_is_causal() -> None:
    """GPT's looks back only, BERT's everywhere; the backward is as its forward."""
    for name, causal in (("gpt-small", True), ("bert-small", False)):
        operators = [o for o in demo(name).graph.operators if o.op_type == "aten.scaled_dot_product_attention"]
        assert {o.phase for o in operators} == {Phase.FORWARD, Phase.BACKWARD_INPUT}
        assert {o.causal for o in operators} == {causal}
