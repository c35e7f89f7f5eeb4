"""Scripts of empty segments run as scripts do, and what they took is fitted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from explorer.runner.engine.empty_segments import Load, runtime_of, script_of
from explorer.runner.engine.engine_times import ACROSS, ALONE, engine_times
from explorer.runner.engine.measure import settled_memory
from explorer.runner.scripts.replay import replay

CPU = torch.device("cpu")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("load", [*ALONE, *ACROSS], ids=str)
def test_an_empty_script_is_one_that_ranks_can_run(load: Load) -> None:
    replay(script_of(load))


def test_every_action_runs_and_every_gradient_comes_back(alone: None) -> None:
    runtime = runtime_of(Load(False, True, 3, segments=4), 0, 1, CPU)
    runtime.iterate()
    ran = [str(step) for step, *_ in runtime.recorder.actions]
    assert ran == [str(step) for step in runtime.script.steps[0]]
    assert len(ran) == 2 * 4 * 3
    first = runtime.work.stages[0].program.module
    assert [parameter.grad is not None for parameter in first.parameters()] == [True]
    assert not runtime.work.exchange.arrived
    assert not runtime.work.stages[0].saved


def test_steps_are_measured_on_a_rank_by_itself(alone: None) -> None:
    shown = engine_times(0, 1, CPU, own_core=False, training=True, rounds=2)
    assert shown.costs.forward_s > 0
    assert shown.costs.sent_s == shown.costs.received_byte_s == 0.0
    assert shown.measurements == len(ALONE)


def test_what_is_there_is_left_alone_by_the_collector_of_garbage() -> None:
    before = gc.get_freeze_count()
    with settled_memory():
        assert gc.get_freeze_count() > before + 1000
    assert gc.get_freeze_count() == 0
