"""Equal work is equal, whichever model and operator it is of."""

from __future__ import annotations

from explorer.costs.times.calls import Class, Size, classes, sizes
from solvers.problem.graph import Phase
from tests.explorer.costs.times.libraries import LINEAR, linear_graph, linear_size
from tests.explorer.tracing.models import demo


def test_the_size_of_a_product_is_known_at_every_number_of_samples() -> None:
    of_linear, of_relu = sizes(linear_graph(), (1, 4, 32))
    assert of_linear == [linear_size(1), linear_size(4), linear_size(32)]
    assert of_relu == [Size(16 * n, 128 * n) for n in (1, 4, 32)]
    assert classes(linear_graph(), "adam")[0] == LINEAR


def test_the_gradients_of_a_product_have_its_numbers_in_other_roles() -> None:
    graph = demo("gpt-small").graph
    size, of = sizes(graph, (1, 2)), classes(graph, "sgd")
    up = graph.index_of()["blocks.0.mlp.up/linear"]
    to_input = graph.index_of()["blocks.0.mlp.up/linear/grad_input"]
    to_weight = graph.index_of()["blocks.0.mlp.up/linear/grad_weight"]
    update = graph.index_of()["blocks.0.mlp.up/linear/update"]
    assert [size[p][1][3:] for p in (up, to_input, to_weight)] == [(64, 128, 32), (64, 32, 128), (128, 32, 64)]
    assert of[to_weight] == Class("aten.linear", Phase.BACKWARD_WEIGHT, "fp32")
    assert of[update] == Class("update.sgd", Phase.UPDATE, "fp32")
    assert size[update][0] == size[update][1]  # once a mini-batch


def test_layers_that_are_alike_are_one_call() -> None:
    graph = demo("gpt-small").graph
    size, of, index = sizes(graph, (4,)), classes(graph, "adam"), graph.index_of()
    first, second = (index[f"blocks.{k}.attn.qkv/linear"] for k in (0, 1))
    assert (of[first], size[first]) == (of[second], size[second])
