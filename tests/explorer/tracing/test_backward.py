"""The mirrored backward has the operators and gradients that autograd would produce, and no others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from solvers.errors import TraceError
from solvers.problem.graph import BACKWARD_PHASES, Phase
from tests.explorer.tracing.models import WIDTH, Diamond, Function, demo, names, trace

SMALL = [
    "gpt-small",
    "resnet50-small",
    "gnmt-small",
    "dlrm-small",
    "rnnlm-small",
    "transformer-small",
    pytest.param("inception-small", marks=pytest.mark.slow),
    pytest.param("multimodal-small", marks=pytest.mark.slow),
    pytest.param("nasnet-small", marks=pytest.mark.slow),
]


@pytest.mark.first(2)
@pytest.mark.parametrize("name", SMALL)
def test_every_backward_waits_for_its_own_forward(name: str) -> None:
    graph = demo(name).graph
    for position, operator in enumerate(graph.operators):
        if operator.phase in BACKWARD_PHASES:
            assert operator.forward_of in graph.predecessors[position]


@pytest.mark.parametrize("name", SMALL)
def test_every_owner_of_parameters_has_one_update_and_receives_its_gradient(name: str) -> None:
    graph = demo(name).graph
    owners = [i for i, o in enumerate(graph.operators) if o.phase is Phase.FORWARD and o.param_bytes > 0]
    updates = {o.forward_of: i for i, o in enumerate(graph.operators) if o.phase is Phase.UPDATE}
    assert sorted(updates) == owners
    for owner, update in updates.items():
        received = [graph.tensors[t] for t in graph.inputs[update]]
        own = [t for t in received if graph.operators[t.producer].forward_of == owner]
        # DLRM's bags have sparse gradients: the rows of the samples.
        sparse = graph.operators[owner].op_type == "aten.embedding_bag"
        assert sum(t.nbytes.fixed for t in own) == (0 if sparse else graph.operators[owner].param_bytes)
        gradients = [t for t in received if graph.operators[t.producer].phase is Phase.BACKWARD_WEIGHT]
        assert any(t in gradients for t in own)
        assert all(t.nbytes.at(1) > 0 for t in gradients)


@pytest.mark.parametrize("name", SMALL)
def test_an_update_waits_for_every_gradient_that_reads_what_it_overwrites(name: str) -> None:
    graph = demo(name).graph
    waits = [
        (i, graph.operators[reader].forward_of)
        for i, o in enumerate(graph.operators)
        if o.phase is Phase.BACKWARD_WEIGHT
        for reader in graph.successors[i]
    ]
    inputs = {o.forward_of: i for i, o in enumerate(graph.operators) if o.phase is Phase.BACKWARD_INPUT}
    updates = {o.forward_of: i for i, o in enumerate(graph.operators) if o.phase is Phase.UPDATE}
    checked = 0
    for weight, owner in waits:
        home = graph.operators[weight].forward_of
        if home in inputs:
            between = [t for t in graph.outputs[inputs[home]] if updates[owner] in graph.tensors[t].consumers]
            assert [graph.tensors[t].nbytes.at(8) for t in between] == [0]
            checked += 1
    assert checked


@pytest.mark.parametrize("name", SMALL)
def test_gradients_mirror_forward_tensors(name: str) -> None:
    """The gradients of a forward tensor go from its consumers to its producer, as many bytes each."""
    graph = demo(name).graph
    forward = {(t.producer, t.nbytes, c) for t in graph.tensors for c in t.consumers}
    for tensor in graph.tensors:
        source = graph.operators[tensor.producer]
        if source.phase is Phase.BACKWARD_INPUT and tensor.consumers:
            readers = [graph.operators[c] for c in tensor.consumers]
            to = {reader.forward_of for reader in readers if reader.phase is not Phase.UPDATE}
            assert {(target, tensor.nbytes, source.forward_of) for target in to} <= forward


def test_a_tensor_with_two_consumers_has_two_partial_gradients_in_one_sum_group() -> None:
    graph = trace(Diamond()).graph
    by_name = graph.index_of()
    partial = [t for t in graph.tensors if t.sum_group is not None]
    assert {t.producer for t in partial} == {by_name["left/linear/grad_input"], by_name["right/linear/grad_input"]}
    assert {t.consumers for t in partial} == {(by_name["first/linear/grad_weight"],)}
    assert len({t.sum_group for t in partial}) == 1


def test_the_first_layer_has_no_input_gradient() -> None:
    graph = trace(Diamond()).graph
    assert "first/linear/grad_input" not in graph.index_of()
    assert "first/linear/grad_weight" in graph.index_of()


def test_a_detached_path_has_no_backward() -> None:
    workload = trace(Function(lambda h: h.relu() * h.detach().sigmoid().exp()))
    mirrored = {o.name for o in workload.graph.operators if o.phase in BACKWARD_PHASES}
    assert mirrored == {"sum/grad_input", "mul/grad_input", "relu/grad_input", "first/linear/grad_weight"}


def test_a_gradient_flows_through_a_tensor_that_is_written_in_parts() -> None:
    def assemble(h: Tensor) -> Tensor:
        both = torch.zeros(h.shape[0], 2 * WIDTH)
        both[:, :WIDTH] = h.relu()
        both[:, WIDTH:] = h.sigmoid()
        return both

    workload = trace(Function(assemble))
    assert names(workload) == ["first/linear", "zeros", "relu", "sigmoid", "sum"]
    mirrored = {o.name for o in workload.graph.operators if o.phase in BACKWARD_PHASES}
    assert mirrored == {
        "sum/grad_input", "zeros/grad_input", "relu/grad_input", "sigmoid/grad_input", "first/linear/grad_weight"
    }  # fmt: skip


def test_integers_carry_no_gradient() -> None:
    workload = trace(Function(lambda h: h * (h > 0)))
    assert "gt" in names(workload)
    assert "gt/grad_input" not in workload.graph.index_of()


def test_what_no_output_depends_on_has_no_backward() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            self.spare(x)
            return self.used(x).sum()

    updates = {o.name for o in trace(Spare()).graph.operators if o.phase is Phase.UPDATE}
    assert updates == {"used/linear/update"}


def test_frozen_parameters_have_no_gradient_and_no_update() -> None:
    module = Diamond()
    module.left.requires_grad_(False)
    workload = trace(module)
    index = workload.graph.index_of()
    assert "left/linear/grad_input" in index
    assert "left/linear/grad_weight" not in index
    assert "left/linear/update" not in index
    assert any("frozen" in note for note in workload.notes)


def test_a_product_of_activations_has_two_gradient_products() -> None:
    workload = trace(Function(lambda h: h.relu() @ h.sigmoid().t()))
    graph = workload.graph
    by_name = graph.index_of()
    forward, backward = (graph.operators[by_name[name]] for name in ("matmul", "matmul/grad_input"))
    assert backward.flops.at(2) == 2 * forward.flops.at(2)


def test_a_linear_layer_takes_two_forwards_to_go_back() -> None:
    graph = demo("gpt-small").graph
    linear = [o for o in graph.operators if o.module_path == "blocks.1.mlp.up"]
    flops = {o.phase: o.flops.per_sample for o in linear}
    assert flops[Phase.BACKWARD_INPUT] == flops[Phase.BACKWARD_WEIGHT] == flops[Phase.FORWARD]


def test_an_update_is_the_same_for_any_batch() -> None:
    for operator in demo("gpt-small").graph.operators:
        if operator.phase is Phase.UPDATE:
            assert operator.flops.per_sample == operator.moved_bytes.per_sample == 0


def test_nothing_to_train_is_an_error_that_says_so() -> None:
    with pytest.raises(TraceError, match="no output depends on a trainable parameter"):
        trace(nn.ReLU(), torch.randn(2, 3))
