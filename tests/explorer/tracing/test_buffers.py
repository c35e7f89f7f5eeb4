"""Buffers of a module are bytes of the operators that read them: told once, in training and in inference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from explorer.tracing.files.pt2 import load_pt2
from solvers.formats.op_graph_json import graph_hash, graph_json
from solvers.problem.graph import OpGraph


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


def test_a_file_says_the_same_as_the_module(tmp_path) -> None:
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
