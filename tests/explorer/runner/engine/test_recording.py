"""What a rank writes down of its times, and of the hardware they were measured on."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch

from explorer.runner.engine import recording
from explorer.runner.engine.gather import device_name
from explorer.runner.engine.recording import Recorder, start_together
from explorer.runner.engine.runtime import ScriptRuntime
from explorer.runner.scripts.script import Do, Step


def test_a_rank_that_is_late_counts_from_the_common_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    common = time.perf_counter() - 0.01
    monkeypatch.setattr(recording.dist, "barrier", lambda: None)
    monkeypatch.setattr(recording.dist, "broadcast", lambda moment, _: moment.fill_(common + 5.0))
    assert start_together(1, 5.0, torch.device("cpu")) == pytest.approx(common, abs=1e-6)


def test_a_gpu_tells_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU {device.index}")
    assert device_name(torch.device("cuda", 1)) == "the GPU 1"


class _OnAGpu:
    """Work of a device whose calls return at once; the clock stands still until it is waited for."""

    def __init__(self) -> None:
        self.now_s = self.queued_s = 0.0

    def takes(self, seconds: float) -> None:
        self.queued_s += seconds

    def finish(self) -> None:
        self.now_s, self.queued_s = self.now_s + self.queued_s, 0.0


def test_waiting_for_a_message_is_not_counted_as_computing_where_calls_return_at_once() -> None:
    gpu = _OnAGpu()
    runtime = object.__new__(ScriptRuntime)
    runtime.recorder = Recorder(now=lambda: gpu.now_s, finish=gpu.finish)
    runtime._first_port = 4
    runtime.fwd_recv_ops = {(5, 0): [SimpleNamespace(wait=lambda: gpu.takes(3.0))]}
    runtime.work = SimpleNamespace(exchange=SimpleNamespace(incoming={(1, 0): [(0, 0)]}))
    runtime._forward = lambda segment, micro_batch: gpu.takes(2.0)
    runtime._take(1, Step(1, Do.FORWARD, 0))
    assert runtime.recorder.actions == [(Step(1, Do.FORWARD, 0), 0.0, 3.0, 5.0)]
    assert runtime.recorder.arrived == {(0, 0, False): (3.0, True)}


def test_an_update_does_not_count_the_sum_that_it_waits_for() -> None:
    gpu = _OnAGpu()
    runtime = object.__new__(ScriptRuntime)
    runtime.recorder = Recorder(now=lambda: gpu.now_s, finish=gpu.finish)
    runtime.work = SimpleNamespace(settle=lambda segment: gpu.takes(3.0), update=lambda segment: gpu.takes(2.0))
    runtime._take(1, Step(1, Do.UPDATE, 0))
    assert [(asked, began, ended) for _, asked, began, ended in runtime.recorder.actions] == [(0.0, 3.0, 5.0)]
