"""Parameters with several readers keep them on one device."""

from __future__ import annotations

import torch

from explorer.tracing import trace_module
from solvers.graph import Phase
from tests.tracing.models import Tied, demo, forward


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
    }


def test_the_steps_of_an_unrolled_layer_share_a_device_and_layers_do_not() -> None:
    cells = [o for o in forward(demo("gnmt-small")) if o.op_type == "aten.lstm_cell"]
    by_layer = {o.module_path: {c.colocation for c in cells if c.module_path == o.module_path} for o in cells}
    assert all(len(groups) == 1 for groups in by_layer.values())
    assert len(set.union(*by_layer.values())) == len(by_layer) == 4


def test_mirrored_operators_carry_the_group_of_their_forward() -> None:
    graph = demo("gnmt-small").graph
    for operator in graph.operators:
        if operator.phase is not Phase.FORWARD:
            assert operator.colocation == graph.operators[operator.forward_of].colocation
