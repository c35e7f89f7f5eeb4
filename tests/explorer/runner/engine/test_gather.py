"""What all ranks measured becomes one outcome."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine import gather as gathering
from explorer.runner.engine.measure import Measured


def test_a_loss_that_is_not_a_number_is_told_and_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_both(mine: dict[str, Any], found: list[Any]) -> None:
        found[:] = [mine, {**mine, "losses": [-math.inf]}]

    monkeypatch.setattr(gathering.dist, "gather_object", from_both)
    monkeypatch.setattr(gathering.dist, "get_backend", lambda: "gloo")
    script = SimpleNamespace(segments=(), devices=(0, 1))
    machine = SimpleNamespace(
        script=script, rank=0, ranks=2, device=torch.device("cpu"), has_loss=True, notes=()
    )  # fmt: skip
    measured = Measured(lengths_s=[1.0], records=[{"actions": [], "sent": [], "arrived": []}], losses=[math.inf])
    outcome = gathering.gather(machine, RunRequest(), measured, None, [0.01], False, {})
    assert outcome is not None
    assert math.isnan(outcome.losses[0])
