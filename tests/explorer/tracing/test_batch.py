"""Amounts are straight lines in the samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from explorer.tracing.sizes import Line
from solvers.problem.graph import Amount
from tests.explorer.tracing.models import WIDTH, demo

AMOUNTS = ("flops", "moved_bytes", "saved_bytes", "workspace_bytes")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "name",
    [
        "gpt-small",
        "resnet50-small",
        "gnmt-small",
        "multimodal-small",
        "dlrm-small",
        "rnnlm-small",
        "transformer-small",
    ],
)
def test_a_trace_at_another_batch_gives_the_same_amounts(name: str) -> None:
    two, six = demo(name, batch=2).graph, demo(name, batch=6).graph
    assert [o.name for o in two.operators] == [o.name for o in six.operators]
    for a, b in zip(two.operators, six.operators, strict=True):
        for what in AMOUNTS:
            assert getattr(a, what).at(5) == pytest.approx(getattr(b, what).at(5)), (a.name, what)
    for s, t in zip(two.tensors, six.tensors, strict=True):
        assert s.nbytes.at(5) == pytest.approx(t.nbytes.at(5))


def test_activations_grow_with_the_samples_and_parameter_gradients_do_not() -> None:
    graph = demo("gpt-small").graph
    by_name = graph.index_of()
    (activation,) = graph.outputs[by_name["blocks.0.mlp.up/linear"]][:1]
    assert graph.tensors[activation].nbytes == Amount(per_sample=4 * 32 * 128)
    (gradient,) = graph.outputs[by_name["blocks.0.mlp.up/linear/grad_weight"]]
    assert graph.tensors[gradient].nbytes == Amount(fixed=4 * (32 * 128 + 128))


def test_what_grows_faster_than_the_samples_is_taken_as_proportional_and_never_negative() -> None:
    assert Line(2, 4).amount(8.0, 32.0) == Amount(per_sample=4.0)
    assert Line(2, 4).amount(8.0, 4.0) == Amount(fixed=8.0)
    assert Line(2, 4).amount(7.0, 9.0) == Amount(5.0, 1.0)


class Positions(nn.Module):
    """Adds a vector for every position, broadcast over the samples, and lays heads side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1]).expand(x.shape[0], -1)
        heads = self.layer(x + places[..., None].float()).view(*x.shape[:2], 2, -1).transpose(1, 2)
        return heads.reshape(x.shape[0], -1).sum()


def test_an_example_of_one_sample_gives_the_same_as_one_of_several_and_no_warning() -> None:
    one = trace_module(Positions(), (torch.randn(1, 6, WIDTH),), name="tiny")
    three = trace_module(Positions(), (torch.randn(3, 6, WIDTH),), name="tiny")
    assert one.notes == three.notes == ()
    for a, b in zip(one.graph.operators, three.graph.operators, strict=True):
        for what in AMOUNTS:
            assert getattr(a, what).at(5) == pytest.approx(getattr(b, what).at(5)), (a.name, what)


class SequenceFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0].sum()


def test_a_layer_that_takes_the_sequence_first_is_reported_and_the_batch_may_be_the_second_dimension() -> None:
    x = torch.randn(6, 2, WIDTH)
    taken = trace_module(SequenceFirst(), (x,), name="tiny")
    assert taken.graph.samples == 6
    (note,) = taken.notes
    assert "--batch-dim 1" in note
    stated = trace_module(SequenceFirst(), (x,), name="tiny", batch_dim=1)
    assert (stated.graph.samples, stated.notes) == (2, ())
    lstm = next(o for o in stated.graph.operators if o.op_type == "aten.lstm")
    assert lstm.flops == Amount(per_sample=6 * 2 * 8 * WIDTH * WIDTH)
