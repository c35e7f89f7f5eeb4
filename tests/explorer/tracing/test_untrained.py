"""What a module holds and nobody trains: frozen parameters, as of adapters beside weights that stay as they are, and
buffers, which are bytes of the operators that read them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from explorer.tracing.files.pt2 import load_pt2
from solvers.formats.op_graph_json import graph_hash, graph_json
from solvers.problem.graph import OpGraph, Phase


class Adapted(nn.Module):
    """Two products whose weights are frozen, each beside a trained one through 2 numbers (LoRA, Hu et al., 2022)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(16, 2, bias=False) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(2, 16, bias=False) for _ in range(2))
        self.layers.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for layer, down, up in zip(self.layers, self.down, self.up, strict=True):
            x = layer(x) + up(down(x))
        return x.square().mean()


FROZEN, TRAINED = 2 * 16 * 16 * 4.0, 2 * 2 * 16 * 2 * 4.0


def test_frozen_parameters_are_distinguished_and_have_neither_gradient_nor_update() -> None:
    workload = trace_module(Adapted(), (torch.zeros(4, 16),), name="adapted")
    operators = workload.graph.operators
    assert sum(o.param_bytes for o in operators) == FROZEN + TRAINED
    assert sum(o.frozen_bytes for o in operators) == FROZEN
    weights = {operators[o.forward_of or 0].name for o in operators if o.phase is Phase.BACKWARD_WEIGHT}
    assert not any(name.startswith("layers.") for name in weights)
    assert sum(o.moved_bytes.fixed for o in operators if o.phase is Phase.UPDATE) == 7 * TRAINED
    assert any("2 parameters are frozen (2,048 of 2,560 bytes)" in note for note in workload.notes)


def test_in_inference_nothing_is_frozen() -> None:
    workload = trace_module(Adapted(), (torch.zeros(4, 16),), name="adapted", training=False)
    assert not any(o.frozen_bytes for o in workload.graph.operators)


def test_a_file_says_the_same_as_the_module(tmp_path) -> None:
    path = tmp_path / "adapted.pt2"
    with torch.device("meta"):
        module, inputs = Adapted(), (torch.zeros(4, 16),)
    torch.export.save(torch.export.export(module, inputs, strict=False), path)
    assert sum(o.frozen_bytes for o in load_pt2(path).graph.operators) == FROZEN


class Shapes(nn.Module):
    """A matrix of 8 by 16, a bias of 8, and a frozen matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.trained = nn.Linear(16, 8)
        self.frozen = nn.Linear(8, 8, bias=False).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(self.trained(x)).square().mean()


def test_what_adafactor_saves_is_counted_of_trained_matrices_alone() -> None:
    """8 sums of rows and 16 of columns in place of 128 squares; PyTorch's own keeps as many."""
    graph = trace_module(Shapes(), (torch.zeros(4, 16),), name="shapes").graph
    assert sum(o.factorable_bytes for o in graph.operators) == 4 * (128 - 8 - 16)
    module = Shapes()
    optimizer = torch.optim.Adafactor([p for p in module.parameters() if p.requires_grad])
    module(torch.ones(4, 16)).backward()
    optimizer.step()
    states = [v for s in optimizer.state.values() for name, v in s.items() if name != "step"]
    trained = sum(o.trained_bytes for o in graph.operators)
    assert 4 * sum(v.numel() for v in states) == trained - 4 * (128 - 8 - 16)
    inference = trace_module(Shapes(), (torch.zeros(4, 16),), name="shapes", training=False).graph
    assert not any(o.factorable_bytes for o in inference.operators)


class Net(nn.Module):
    """A batch norm of 8 channels, a mask of 8 numbers that two operators read, and a buffer that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(8))
        self.register_buffer("unread", torch.ones(1000))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.up(x)) * self.mask
        return (self.down(x) * self.mask).square().mean()


STATISTICS, MASK = 2 * 8 * 4.0, 8 * 4.0


def held(graph: OpGraph) -> dict[str, float]:
    return {operator.name: operator.buffer_bytes for operator in graph.operators if operator.buffer_bytes}


@pytest.mark.parametrize("training", [True, False])
def test_whoever_reads_a_buffer_first_holds_it(training: bool) -> None:
    graph = trace_module(Net(), (torch.zeros(4, 16),), name="net", training=training).graph
    assert held(graph) == {"norm/batch_norm": STATISTICS, "mul": MASK}


def test_in_16_bits_they_are_as_the_module_has_them() -> None:
    graph = trace_module(Net(), (torch.zeros(4, 16),), name="net", dtype="bf16").graph
    assert held(graph) == {"norm/batch_norm": STATISTICS / 2, "mul": MASK / 2}


def test_a_file_says_of_buffers_what_the_module_does(tmp_path) -> None:
    path = tmp_path / "net.pt2"
    with torch.device("meta"):
        module, inputs = Net(), (torch.zeros(4, 16),)
    torch.export.save(torch.export.export(module.train(), inputs, strict=False), path)
    assert sum(held(load_pt2(path).graph).values()) == STATISTICS + MASK


def test_they_do_not_name_a_graph() -> None:
    """Plans and profiles of before, which do not know them, are of the same graph."""
    graph = trace_module(Net(), (torch.zeros(4, 16),), name="net").graph
    without = OpGraph(
        tuple(replace(operator, buffer_bytes=0.0) for operator in graph.operators), graph.tensors, graph.samples,
        graph.name,
    )  # fmt: skip
    assert graph_hash(graph) == graph_hash(without)
    assert graph_json(graph) != graph_json(without)
