"""A module of which a part is frozen, as adapters are trained beside weights that stay as they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explorer.tracing import trace_module
from solvers.problem.graph import Phase


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


def test_frozen_parameters_are_told_apart_and_have_neither_gradient_nor_update() -> None:
    workload = trace_module(Adapted(), (torch.zeros(4, 16),), name="adapted")
    operators = workload.graph.operators
    assert sum(o.param_bytes for o in operators) == FROZEN + TRAINED
    assert sum(o.frozen_bytes for o in operators) == FROZEN
    weights = {operators[o.forward_of or 0].name for o in operators if o.phase is Phase.BACKWARD_WEIGHT}
    assert not any(name.startswith("layers.") for name in weights)
    assert sum(o.moved_bytes.fixed for o in operators if o.phase is Phase.UPDATE) == 7 * TRAINED
    assert any("2 parameters are frozen (2,048 of 2,560 bytes)" in note for note in workload.notes)


def test_in_inference_nothing_is_said_to_be_frozen() -> None:
    workload = trace_module(Adapted(), (torch.zeros(4, 16),), name="adapted", training=False)
    assert not any(o.frozen_bytes for o in workload.graph.operators)


def test_a_file_says_the_same_as_the_module(tmp_path) -> None:
    from explorer.tracing.files.pt2 import load_pt2

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


def test_what_adafactor_saves_is_told_of_trained_matrices_alone() -> None:
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
