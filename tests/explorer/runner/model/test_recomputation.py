"""Regions of a segment that run again: the same outputs and gradients, with less kept in between."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

import pytest
import torch
from torch import Tensor, fx, nn

from explorer.runner.model.recomputation import Again, Region, in_regions

WIDTH = 64


class Layers(nn.Module):
    """Two layers of a product, a norm that counts its calls, and an activation, joined by a sum; then a head."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH) / 8) for _ in range(3))
        self.register_buffer("calls", torch.zeros(()))


def segment(model: Layers) -> fx.GraphModule:
    """The module as segments are: calls, each with its name, in the order in which they run."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    root = nn.Module()
    names = []

    def call(name: str, target: object, *args: object) -> fx.Node:
        node = graph.call_function(target, args)  # type: ignore[arg-type]
        node.meta["call"] = name
        names.append(name)
        return node

    for i in range(2):
        root.register_parameter(f"weight_{i}", model.weights[i])
        product = call(f"linear_{i}", torch.ops.aten.linear.default, x, graph.get_attr(f"weight_{i}"))
        if i == 0:
            root.register_buffer("calls", model.calls)
            call("count", torch.ops.aten.add_.Tensor, graph.get_attr("calls"), 1.0)
        dropped = call(f"dropout_{i}", torch.ops.aten.dropout.default, product, 0.5, True)
        bent = call(f"gelu_{i}", torch.ops.aten.gelu.default, dropped)
        outside = call(f"outside_{i}", torch.ops.aten.mul.Tensor, x, 2.0)
        x = call(f"add_{i}", torch.ops.aten.add.Tensor, bent, outside)
    root.register_parameter("weight_2", model.weights[2])
    head = call("head", torch.ops.aten.linear.default, x, graph.get_attr("weight_2"))
    graph.output((head, x))
    return fx.GraphModule(root, graph, "Segment")


LAYERS: dict[str, Region] = {
    f"{kind}_{i}": (f"layer {i}", False) for i in range(2) for kind in ("linear", "dropout", "gelu", "add")
} | {"count": ("layer 0", False)}
CACHED = LAYERS | {f"linear_{i}": (f"layer {i}", True) for i in range(2)}
SEPARATE: dict[str, Region] = {"linear_0": ("a", False), "add_0": ("a", False), "gelu_1": ("b", False)}


def ran(module: nn.Module, x: Tensor) -> tuple[list[Tensor], int]:
    """(outputs and gradients, bytes that autograd keeps from the forward for the backward)."""
    stored: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            stored[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(3)
    x = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        outputs = module(x)
    wanted = [x, *dict.fromkeys(module.parameters())]
    gradients = torch.autograd.grad(sum(o.square().sum() for o in outputs), wanted)
    gradient_of = {id(p): g for p, g in zip(wanted, gradients, strict=True)}
    order = sorted(dict(module.named_parameters()).items(), key=lambda item: item[0].rsplit(".", 1)[-1])
    return [*outputs, gradient_of[id(x)], *(gradient_of[id(p)] for _, p in order)], sum(stored.values())


@pytest.mark.parametrize("regions", [LAYERS, CACHED, SEPARATE], ids=["layers", "products cached", "in parts"])
def test_what_comes_out_and_every_gradient_is_the_same_and_less_is_kept(regions: Mapping[str, Region]) -> None:
    model = Layers().double()
    x = torch.randn(32, WIDTH, dtype=torch.float64)
    whole = segment(model)
    expected, stored = ran(whole, x)
    assert model.calls == 1
    again = in_regions(segment(model), regions)
    tensors, fewer = ran(again, x)
    assert model.calls == 2  # once more, not twice
    for own, reference in zip(tensors, expected, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-12, atol=1e-12)
    assert fewer <= stored if regions is SEPARATE else fewer < stored
    assert any(isinstance(part, Again) for part in again.children())
    with torch.no_grad():
        torch.manual_seed(3)
        torch.testing.assert_close(again(x)[0], expected[0])


def test_a_region_stays_in_one_part_around_what_does_not_read_it() -> None:
    """What is outside, between the calls of a layer, goes before it."""
    again = in_regions(segment(Layers()), LAYERS)
    parts = [part for part in again.children() if isinstance(part, Again)]
    assert len(parts) == 2
    assert [sum(n.op == "call_function" for n in part.body.graph.nodes) for part in parts] == [5, 4]


def test_without_regions_a_segment_stays_as_it_is() -> None:
    module = segment(Layers())
    assert in_regions(module, {"elsewhere": ("layer", False)}) is module


FACTOR: ContextVar[float] = ContextVar("factor", default=0.0)


def scaled(x: Tensor) -> Tensor:
    return (x * FACTOR.get()).exp()


def test_a_region_runs_again_in_the_context_in_which_it_was_called() -> None:
    """Seeds of calls are such: they are set for a call of a segment, and the backward comes when they are others."""
    graph = fx.Graph()
    made = graph.call_function(scaled, (graph.placeholder("x"),))
    made.meta["call"] = "scaled"
    graph.output((made,))
    again = in_regions(fx.GraphModule(nn.Module(), graph, "Segment"), {"scaled": ("layer", False)})
    x = torch.ones(3, requires_grad=True)
    token = FACTOR.set(2.0)
    (output,) = again(x)
    FACTOR.reset(token)
    output.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 2.0).exp() * 2)
