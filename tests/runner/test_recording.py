"""What a rank writes down of its times, and of the hardware they were measured on."""

from __future__ import annotations

import time

import pytest
import torch

from explorer.runner.engine import recording
from explorer.runner.engine.gather import device_name
from explorer.runner.engine.recording import start_together


def test_a_rank_that_is_late_counts_from_the_common_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    common = time.perf_counter() - 0.01
    monkeypatch.setattr(recording.dist, "barrier", lambda: None)
    monkeypatch.setattr(recording.dist, "broadcast", lambda moment, _: moment.fill_(common + 5.0))
    assert start_together(1, 5.0, torch.device("cpu")) == pytest.approx(common, abs=1e-6)


def test_a_gpu_tells_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU {device.index}")
    assert device_name(torch.device("cuda", 1)) == "the GPU 1"
