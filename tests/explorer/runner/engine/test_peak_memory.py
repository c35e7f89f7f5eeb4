"""The most memory that a rank's tensors held."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from explorer.runner.engine.peak_memory import peak_of_an_iteration


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
