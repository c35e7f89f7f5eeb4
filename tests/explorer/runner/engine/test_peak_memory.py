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
