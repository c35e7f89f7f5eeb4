"""What a rank writes down of its times, and of the hardware they were measured on."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch

from explorer.runner.engine import recording
from explorer.runner.engine.gather import device_name
from explorer.runner.engine.recording import HostClock, Recorder, StreamClock, start_together
from explorer.runner.engine.runtime import ScriptRuntime
from explorer.runner.measuring.events import Events
from explorer.runner.measuring.instrument import CudaClock
from explorer.runner.scripts.script import Do, HostCopies, Step


def test_a_rank_that_is_late_counts_from_the_common_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    common = time.perf_counter() - 0.01
    monkeypatch.setattr(recording.dist, "barrier", lambda: None)
    monkeypatch.setattr(recording.dist, "broadcast", lambda moment, _: moment.fill_(common + 5.0))
    assert start_together(1, 5.0, torch.device("cpu")) == pytest.approx(common, abs=1e-6)


def test_a_gpu_tells_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU {device.index}")
    assert device_name(torch.device("cuda", 1)) == "the GPU 1"


class Gpu:
    """A stand-in for torch.cuda: work is queued at once and done in ``queued_s`` by the device's own clock, which is
    asked for nothing before somebody waits. calls: what was asked of it, in order."""

    def __init__(self) -> None:
        self.queued_s = 0.0
        self.host_s = 100.0
        self.done = 0
        self.calls: list[str] = []
        self.events: list[Event] = []

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802
        assert enable_timing
        self.events.append(Event(self))
        return self.events[-1]

    def current_stream(self, device: torch.device) -> str:
        assert device == DEVICE
        return "the stream that computes"

    def synchronize(self, device: torch.device) -> None:
        assert device == DEVICE
        self.calls.append("synchronize")
        self.done = len(self.calls)

    def takes(self, seconds: float) -> None:
        self.queued_s += seconds


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at_s, self.recorded = gpu, 0.0, -1

    def record(self, stream: str) -> None:
        assert stream == "the stream that computes"
        self.gpu.calls.append("record")
        self.at_s, self.recorded = self.gpu.queued_s, len(self.gpu.calls)

    def elapsed_time(self, end: Event) -> float:
        assert 0 <= self.recorded < self.gpu.done, "asked before it was waited for"
        assert 0 <= end.recorded < self.gpu.done, "asked before it was waited for"
        return (end.at_s - self.at_s) * 1e3


DEVICE = torch.device("cuda", 1)


def runtime_on(gpu: Gpu) -> ScriptRuntime:
    runtime = object.__new__(ScriptRuntime)
    runtime.recorder = Recorder(StreamClock(Events(DEVICE, gpu), now=lambda: gpu.host_s))
    runtime._first_port = 4
    runtime._copies = HostCopies({}, {})
    runtime.fwd_recv_ops = {(5, 0): [SimpleNamespace(wait=lambda: gpu.takes(3.0))]}
    runtime.work = SimpleNamespace(
        exchange=SimpleNamespace(incoming={(1, 0): [(0, 0)], (1, 1): []}),
        settle=lambda segment: gpu.takes(3.0), update=lambda segment: gpu.takes(0.5),
        sends=SimpleNamespace(answered=lambda message: None),
    )  # fmt: skip
    runtime._forward = lambda segment, micro_batch: gpu.takes(2.0)
    return runtime


def test_waiting_for_a_message_is_not_counted_as_computing_where_calls_return_at_once() -> None:
    gpu = Gpu()
    runtime = runtime_on(gpu)
    runtime.recorder.start()
    runtime._take(1, Step(1, Do.FORWARD, 0))
    runtime.recorder.finish()
    shown = runtime.recorder.iteration(start=90.0)
    assert shown["actions"] == [["1F0", 10.0, 13.0, 15.0]]
    assert shown["arrived"] == [[0, 0, False, 13.0, True]]


def test_an_update_does_not_count_the_sum_that_it_waits_for() -> None:
    gpu = Gpu()
    runtime = runtime_on(gpu)
    runtime.recorder.start()
    runtime._take(1, Step(1, Do.UPDATE, 0))
    runtime.recorder.finish()
    assert runtime.recorder.iteration(start=100.0)["actions"] == [["1U", 0.0, 3.0, 3.5]]


def test_an_iteration_on_a_gpu_waits_for_it_once_and_uses_its_events_again() -> None:
    gpu = Gpu()
    runtime = runtime_on(gpu)
    steps = [Step(1, Do.FORWARD, 0), Step(1, Do.FORWARD, 1), Step(1, Do.UPDATE, 0)]
    for count in range(3):
        gpu.host_s, gpu.calls = 100.0 + count, []
        runtime.fwd_recv_ops = {(5, 0): [SimpleNamespace(wait=lambda: gpu.takes(3.0))]}
        runtime.recorder.start()
        runtime.recorder.posted(7, 0, False)
        for step in steps:
            runtime._take(1, step)
        assert "synchronize" not in gpu.calls
        runtime.recorder.finish()
        shown = runtime.recorder.iteration(start=100.0 + count)
        assert gpu.calls.count("synchronize") == 1
        assert shown["actions"] == [["1F0", 0.0, 3.0, 5.0], ["1F1", 5.0, 5.0, 7.0], ["1U", 7.0, 10.0, 10.5]]
        assert shown["sent"] == [[7, 0, False, 0.0]]
        # the start, the message that is posted, the one that is waited for, and three of every action
        assert gpu.calls.count("record") == len(gpu.events) == 1 + 1 + 2 + 3 * len(steps)


def test_actions_of_nobody_who_asks_for_times_wait_for_nothing() -> None:
    gpu = Gpu()
    runtime = runtime_on(gpu)
    runtime._take(1, Step(1, Do.FORWARD, 1))
    assert "synchronize" not in gpu.calls


def test_operators_on_a_gpu_are_marked_by_events_and_reported_after_one_wait() -> None:
    gpu = Gpu()
    clock = CudaClock(DEVICE, gpu)
    for _ in range(2):
        gpu.calls = []
        clock.start()
        for operator in (4, 2):
            clock.mark(operator)
            gpu.takes(operator)
        marks, end = clock.stop()
        assert (marks, end) == ([(4, 0.0), (2, 4.0)], 6.0)
        assert gpu.calls == ["synchronize", "record", "record", "record", "synchronize"]
    assert len(gpu.events) == 3


def test_on_a_cpu_a_stamp_is_the_time() -> None:
    moments = iter([1.0, 2.0, 4.0, 4.0, 8.0])
    runtime = runtime_on(Gpu())
    runtime.recorder = Recorder(HostClock(lambda: next(moments)))
    runtime.recorder.start()
    runtime._take(1, Step(1, Do.FORWARD, 0))
    runtime.recorder.finish()
    shown = runtime.recorder.iteration(start=0.5)
    assert shown["actions"] == [["1F0", 0.5, 3.5, 7.5]]
    assert shown["arrived"] == [[0, 0, False, 3.5, True]]
