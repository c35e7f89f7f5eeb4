"""A trace in a process of its own: as one here, reported while it lasts, and ended without leftovers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explorer.question.loading import load
from explorer.question.tracer import Stopped, Tracer
from solvers.errors import TraceError
from solvers.formats.graph_json import write_graph

MODEL = """
import time
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, layers, wait_s=0.0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.wait_s = wait_s

    def forward(self, x):
        print("forward")
        for layer in self.layers:
            x = layer(x).relu()
        time.sleep(self.wait_s)
        return x.sum()


def small():
    return Deep(3), (torch.zeros(2, 8),)


def endless():
    return Deep(3, 10000.0), (torch.zeros(2, 8),)


def wrong():
    raise ValueError("no data")


def dying():
    import os
    os._exit(7)
"""


def never() -> bool:
    return False


def ignore(calls: int, seconds: float) -> None:
    return None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "deep.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def tracer():
    made = Tracer()
    yield made
    made.close()


def test_the_graph_is_that_of_a_trace_here(tracer, model):
    there = tracer.trace(f"{model}:small", None, None, ignore, never)
    assert write_graph(there) == write_graph(load(f"{model}:small"))


def test_an_error_is_the_one_line_that_it_would_be_here_and_the_process_goes_on(tracer, model):
    tracer.trace(f"{model}:small", None, None, ignore, never)
    process = tracer.process
    with pytest.raises(TraceError, match="ValueError: no data"):
        tracer.trace(f"{model}:wrong", None, None, ignore, never)
    assert tracer.process is process


def test_a_trace_that_never_ends_tells_how_far_it_is_and_can_be_stopped(tracer, model):
    messages: list[int] = []
    with pytest.raises(Stopped):
        tracer.trace(f"{model}:endless", None, None, lambda calls, _: messages.append(calls), lambda: any(messages))
    assert tracer.process is None
    assert 0 < messages[-1] <= 3 * 10


def test_after_a_stop_the_next_trace_is_as_any(tracer, model):
    with pytest.raises(Stopped):
        tracer.trace(f"{model}:endless", None, None, ignore, lambda: True)
    assert len(tracer.trace(f"{model}:small", None, None, ignore, never).graph) > 6


def test_a_process_that_ends_is_reported_in_one_line_and_replaced(tracer, model):
    with pytest.raises(TraceError, match=r"ended unexpectedly \(exit code 7\)"):
        tracer.trace(f"{model}:dying", None, None, ignore, never)
    assert len(tracer.trace(f"{model}:small", None, None, ignore, never).graph) > 6


@pytest.mark.slow
def test_the_child_is_gone_when_it_is_closed(model):
    tracer = Tracer()
    tracer.trace(f"{model}:small", None, None, ignore, never)
    child = tracer.process.pid
    tracer.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
