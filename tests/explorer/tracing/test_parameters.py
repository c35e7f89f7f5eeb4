"""Parameters with several readers keep them on one device."""

from __future__ import annotations

from collections import Counter, defaultdict

import torch

from explorer.tracing import trace_module
from solvers.problem.graph import Amount, Phase
from tests.explorer.tracing.models import Tied, demo, forward


def test_operators_of_a_tied_parameter_share_a_device_and_it_is_counted_once() -> None:
    module = Tied()
    workload = trace_module(module, (torch.zeros(2, dtype=torch.int64),), name="tied")
    assert workload.parameters == sum(p.numel() for p in module.parameters())
    groups = {o.name: o.colocation for o in forward(workload)}
    assert groups["table/embedding"] == groups["head/linear"] is not None
    assert groups["middle/linear"] is None
    assert [o.param_bytes for o in forward(workload) if o.name == "head/linear"] == [0]
    assert any("tied" in note and "table.weight = head.weight" in note for note in workload.notes)


def test_both_gradients_of_a_tied_parameter_go_to_its_one_update() -> None:
    graph = trace_module(Tied(), (torch.zeros(2, dtype=torch.int64),), name="tied").graph
    by_name = graph.index_of()
    assert "head/linear/update" not in by_name
    assert set(graph.predecessors[by_name["table/embedding/update"]]) == {
        by_name["table/embedding/grad_weight"],
        by_name["head/linear/grad_weight"],
        by_name["head/linear/grad_input"],  # it reads the table, which the update overwrites
    }


def test_the_steps_of_an_unrolled_layer_share_a_device_and_layers_do_not() -> None:
    """Of the products of inputs and of states of each layer; the rest of a cell may be anywhere."""
    cells = [o for o in forward(demo("gnmt-small")) if "coder.layers." in o.module_path]
    steps = defaultdict(list)
    for operator in cells:
        if operator.op_type == "aten.linear":
            steps[operator.module_path].append(operator.colocation)
        else:
            assert operator.colocation is None
    assert [len(groups) for groups in steps.values()] == [4] * 8
    assert len({group for groups in steps.values() for group in groups}) == 8
    assert all(len(set(groups)) == 1 for groups in steps.values())


def test_every_step_of_a_cell_is_an_operator_of_its_own() -> None:
    """Two products, four gates, four elementwise steps, the candidate's and the memory's tanh."""
    cells = Counter(o.op_type for o in forward(demo("rnnlm-small")) if ".cell" in o.module_path)
    assert {kind: count // (2 * 5) for kind, count in cells.items()} == {
        "aten.linear": 2, "aten.add": 2, "aten.sigmoid": 3, "aten.tanh": 2, "aten.mul": 3
    }  # fmt: skip


def test_a_gate_receives_and_sends_back_its_own_quarter() -> None:
    graph = demo("rnnlm-small").graph
    by_name = graph.index_of()
    (read,) = graph.inputs[by_name["layers.0.cell/sigmoid"]]
    gates = by_name["layers.0.cell/add"]
    assert graph.tensors[read].producer == gates
    assert graph.tensors[read].nbytes == Amount(per_sample=4 * 16)
    sent = [t for t in graph.tensors if t.producer == by_name["layers.0.cell/sigmoid/grad_input"]]
    assert [(t.consumers, t.nbytes) for t in sent] == [
        ((by_name["layers.0.cell/add/grad_input"],), Amount(per_sample=64))
    ]


def test_mirrored_operators_carry_the_group_of_their_forward() -> None:
    graph = demo("gnmt-small").graph
    for operator in graph.operators:
        if operator.phase is not Phase.FORWARD:
            assert operator.colocation == graph.operators[operator.forward_of].colocation
