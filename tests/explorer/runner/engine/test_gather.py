"""What all ranks measured becomes one outcome."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine import gather as gathering
from explorer.runner.engine.measure import Measured
from explorer.runner.model.exchanges.group import Group


@pytest.mark.parametrize("training", [True, False])
def test_the_first_loss_that_is_no_number_fails_a_training_and_is_a_note_otherwise(
    monkeypatch: pytest.MonkeyPatch, training: bool
) -> None:
    def from_both(own: dict[str, Any], results: list[Any]) -> None:
        results[:] = [own, {**own, "losses": [-math.inf], "not_finite": (1, 3, math.nan)}]

    monkeypatch.setattr(gathering.dist, "gather_object", from_both)
    monkeypatch.setattr(gathering.dist, "get_backend", lambda: "gloo")
    script = SimpleNamespace(segments=(), devices=(0, 1), training=training)
    machine = SimpleNamespace(
        script=script, process=0, processes=2, members=Group(), device=torch.device("cpu"), has_loss=True, notes=()
    )  # fmt: skip
    measured = Measured(
        lengths_s=[1.0], records=[{"actions": [], "sent": [], "arrived": [], "exchanged": []}], losses=[math.inf]
    )
    measured.not_finite = (2, 0, math.inf)
    outcome = gathering.gather(machine, RunRequest(warmup=2), measured, None, [0.01], False, {})
    assert outcome is not None
    assert math.isnan(outcome.losses[0])
    shown = "the loss is no finite number: nan, first in iteration 2 of the warm-up, micro-batch 3, on rank 1"
    assert (outcome.status, outcome.reason) == ((RunStatus.FAILED, shown) if training else (RunStatus.DONE, ""))
    assert outcome.notes == (() if training else (shown,))
