"""The most memory that a rank's tensors held."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch.optim import Adafactor

from explorer.runner.engine.peak_memory import CountedStorage, peak_of_an_iteration
from explorer.runner.model.optimizers import OPTIMIZERS
from solvers.problem.gradient_room import TEMPORARIES
from solvers.problem.problem import Optimizer


def test_a_gpu_does_not_count_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 10_000)
    samples = (torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64))
    machine = SimpleNamespace(device=torch.device("cuda", 0), samples=samples)
    assert peak_of_an_iteration(machine, 1_000.0) == 10_000 - 1_000 - 8 * 4 * 4 - 8 * 8


class Rank:
    """A rank on a CPU: one parameter and one buffer, and an iteration over micro-batches of the samples."""

    def __init__(self, micro_batches: int) -> None:
        self.device = torch.device("cpu")
        self.samples = (torch.zeros(8, 16),)
        self.held = SimpleNamespace(parameters={"w": torch.zeros(16, 4)}, buffers={"mean": torch.zeros(4)})
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self.micro_batches = micro_batches

    def iterate(self) -> None:
        share = 8 // self.micro_batches
        for m in range(self.micro_batches):
            _ = self.samples[0].narrow(0, m * share, share) @ self.held.parameters["w"]


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_a_cpu_does_not_count_the_samples(micro_batches: int) -> None:
    """A micro-batch is a view of the samples, whose storage is older than the iteration."""
    products = 8 // micro_batches * 4 * 4 * (2 if micro_batches > 1 else 1)  # the last one is there while one is made
    counted = peak_of_an_iteration(Rank(micro_batches), 0.0)  # type: ignore[arg-type]
    assert counted == 16 * 4 * 4 + 4 * 4 + products


MADE: dict[Optimizer, Callable[..., torch.optim.Optimizer]] = {
    **{Optimizer(word): make for word, make in OPTIMIZERS.items()},
    Optimizer.ADAFACTOR: Adafactor,
}


@pytest.mark.parametrize("optimizer", MADE)
def test_a_step_makes_what_plans_count_of_it(optimizer: Optimizer) -> None:
    """Of a matrix of 1,000 numbers; Adafactor's sums by row and by column, of 110, come and go too."""
    parameter = torch.nn.Parameter(torch.randn(100, 10))
    stepping = MADE[optimizer]([parameter], lr=1e-3)
    for _ in range(2):  # states are made by the first step
        parameter.grad = torch.randn(100, 10)
        states = [value for value in stepping.state[parameter].values() if isinstance(value, torch.Tensor)]
        held = [parameter.data, parameter.grad, *states]
        before = sum(tensor.untyped_storage().nbytes() for tensor in held)
        with CountedStorage(held) as counted:
            stepping.step()
    made = (counted.peak_bytes - before) / 4_000
    assert made == pytest.approx(TEMPORARIES.get(optimizer, 0.0), abs=0.12)
