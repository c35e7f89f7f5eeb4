"""Amounts are straight lines in the samples."""

from __future__ import annotations

import pytest

from explorer.tracing.sizes import Line
from solvers.problem.graph import Amount
from tests.explorer.tracing.models import demo

AMOUNTS = ("flops", "moved_bytes", "saved_bytes", "workspace_bytes")


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
