"""trace_module leaves the module alone, takes inputs in several forms, and fails in one clear line."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from demo_models import MODELS
from explorer.tracing import capture as capturing
from explorer.tracing import trace_demo, trace_module
from solvers.errors import TraceError
from tests.explorer.tracing.models import BATCH, WIDTH, Diamond, names, trace

X = torch.randn(BATCH, WIDTH)


def test_tracing_does_not_change_the_module() -> None:
    torch.manual_seed(0)
    module, inputs = MODELS["resnet50-small"].build()
    module.eval()
    before = {name: (t, t.data_ptr(), t.clone()) for name, t in module.state_dict(keep_vars=True).items()}
    parts = [(name, part, part.training) for name, part in module.named_modules()]
    trace_module(module, inputs, name="resnet", training=True, dtype="bf16")
    after = module.state_dict(keep_vars=True)
    for name, (tensor, pointer, values) in before.items():
        assert after[name] is tensor
        assert tensor.data_ptr() == pointer
        assert torch.equal(tensor, values)
        assert tensor.grad is None
    assert [(name, part, part.training) for name, part in module.named_modules()] == parts


def test_a_module_on_meta_and_one_with_weights_give_the_same_graph() -> None:
    with torch.device("meta"):
        empty = Diamond()
    assert trace(empty).graph == trace(Diamond()).graph


def test_inputs_may_be_a_tensor_a_tuple_or_a_dict() -> None:
    graphs = [trace_module(Diamond(), inputs, name="tiny").graph for inputs in (X, (X,), [X], {"x": X})]
    assert all(graph == graphs[0] for graph in graphs)


def test_the_example_gives_the_traced_batch() -> None:
    assert trace(Diamond(), torch.randn(7, WIDTH)).graph.samples == 7
    assert trace(Diamond(), torch.randn(1, WIDTH)).graph.samples == 1
    assert trace_demo("gpt-small", batch=3).graph.samples == 3


def test_a_graph_that_differs_at_another_batch_is_taken_as_proportional_with_a_note() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            h = self.layer(x)
            return (h.relu() if x.shape[0] > BATCH else h).sum()

    workload = trace(Changing())
    assert names(workload) == ["layer/linear", "sum"]
    assert workload.graph.operators[0].flops.per_sample == 2 * WIDTH * WIDTH
    assert any("proportional" in note for note in workload.notes)


class DataDependent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() if x.sum() > 0 else x.sigmoid()


class Selecting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0].sum()


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class Wrong(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("module", "inputs", "message"),
    [
        (DataDependent(), X, "depends on the values of a tensor"),
        (Selecting(), X, "depends on the values of a tensor"),
        (Branching(), X, "control flow inside the graph"),
        (Wrong(), X, "could not trace it"),
        (nn.LazyLinear(3), X, "run it once"),
        (Diamond(), (X, X, X), "could not trace it"),
        (Diamond(), (), "no tensor with a batch dimension"),
        (Diamond(), (torch.tensor(1.0),), "no tensor with a batch dimension"),
        (Diamond(), 3, "must be a tensor, a tuple"),
        (Diamond(), (torch.zeros(0, WIDTH),), "empty batch"),
        (print, X, "expected a torch.nn.Module"),
        (nn.Identity(), X, "calls no operator"),
    ],
)
def test_a_failure_is_one_line_that_says_why(module: nn.Module, inputs: object, message: str) -> None:
    with pytest.raises(TraceError, match=message) as raised:
        trace_module(module, inputs, name="tiny")
    assert "\n" not in str(raised.value)


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(TraceError, match="gpt, gpt-small"):
        trace_demo("gtp")
    with pytest.raises(TraceError, match="fp32, bf16, fp16"):
        trace_demo("gpt-small", dtype="int4")


def test_logging_is_as_before_after_a_trace() -> None:
    import logging

    before = logging.root.manager.disable
    with capturing.quiet():
        assert logging.root.manager.disable == logging.ERROR
    assert logging.root.manager.disable == before
