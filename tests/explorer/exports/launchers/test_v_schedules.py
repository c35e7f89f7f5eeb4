"""Orders in a V against torch's own (2.13), and what is exported of them against its runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as torchs
from torch.distributed.pipelining.schedules import (
    ScheduleDualPipeV,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    _Action,
    _PipelineScheduleRuntime,
    _simulate_comms_compute,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

from explorer.exports.formats import export
from solvers.formats.plan_json import PlanFile
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import Pipeline
from solvers.schedules.ordering.patterns import breadth_first
from solvers.schedules.ordering.v_patterns import v_orders
from solvers.schedules.realise import realise
from tests.explorer.exports.launchers.test_grammars import QUARTERS
from tests.explorer.exports.planned import planned

TORCHS = {Pipeline.ZB_V: ScheduleZBVZeroBubble, Pipeline.DUAL_PIPE_V: ScheduleDualPipeV}


def row_of_torch(made: type, rank: int, ranks: int, micro_batches: int) -> list[str]:
    """What torch's schedule says that a rank does, in words; a whole backward as its two parts."""
    schedule: Any = object.__new__(made)
    schedule.pp_group_size, schedule._n_microbatches, schedule.num_stages = ranks, micro_batches, 2 * ranks
    schedule._stages = [None, None]
    actions = []
    for action in schedule._calculate_single_rank_operations(rank):
        for part in () if action is None else action.sub_actions or (action,):
            actions += words(part)
    return actions


def words(action: _Action) -> list[str]:
    kind = action.computation_type
    kinds = "IW" if kind == torchs.FULL_BACKWARD else str(kind.value)
    return [f"{action.stage_index}{one}{action.microbatch_index}" for one in kinds]


@pytest.mark.parametrize("pipeline", TORCHS)
@pytest.mark.parametrize(("ranks", "micro_batches"), [(1, 2), (2, 4), (3, 6), (4, 8), (4, 13), (5, 20), (8, 40)])
def test_these_orders_are_those_of_torch(pipeline: Pipeline, ranks: int, micro_batches: int) -> None:
    for rank, row in enumerate(v_orders(pipeline, ranks, micro_batches)):
        own = [f"{(rank, 2 * ranks - 1 - rank)[leg]}{kind}{j}" for leg, kind, j in row]
        assert own == row_of_torch(TORCHS[pipeline], rank, ranks, micro_batches)


def test_looped_breadth_first_is_torchs_but_for_the_numbers_of_backwards() -> None:
    """torch takes micro-batches backwards in the other direction, which is the same under other numbers."""
    last = 5
    for rank in range(3):
        own = [str(action) for action in breadth_first(range(rank, 6, 3), last + 1)]
        reference = row_of_torch(ScheduleLoopedBFS, rank, 3, last + 1)
        whole = [each for each in reference if "W" not in each]
        turned = [f"{each.split('I')[0]}B{last - int(each.split('I')[1])}" if "I" in each else each for each in whole]
        assert own == turned


def quarters(pipeline: Pipeline, micro_batches: int = 4) -> PlanFile:
    """gpt-small in four stages, in a V on two devices, in the very pattern."""
    file = planned("gpt-small", QUARTERS, devices=(0, 1, 0, 1), pipeline="interleaved", mini_batch=micro_batches,
                   micro_batches=micro_batches)  # fmt: skip
    from dataclasses import replace

    problem = replace(file.problem, pipeline=pipeline)
    draft = Draft(tuple(DraftStage(stage.operators, 1) for stage in file.plan.stages))
    return file._replace(problem=problem, plan=realise(problem, draft, [(0,), (1,), (1,), (0,)]))


@pytest.fixture
def two_ranks():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("two_ranks")
@pytest.mark.parametrize("pipeline", [Pipeline.ZB_V, Pipeline.V_HALF, Pipeline.V_MIN, Pipeline.DUAL_PIPE_V])
def test_a_plan_in_a_v_loads_in_the_runtime_of_torch_which_then_sends_and_receives(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    file = quarters(pipeline)
    assert file.plan.pipeline == pipeline.value
    path = tmp_path / "actions.csv"
    path.write_bytes(export(file, "torch-actions").data)
    stages = [PipelineStage(nn.Linear(1, 1), i, 4, torch.device("cpu")) for i in (0, 3)]
    runtime = _PipelineScheduleRuntime(stages, 4, loss_fn=lambda output, target: output.sum())
    runtime._load_csv(str(path))
    assert runtime.stage_index_to_group_rank == {0: 0, 1: 1, 2: 1, 3: 0}
    rows = [[str(action) for action in runtime.pipeline_order[rank]] for rank in range(2)]
    assert rows == [[str(a) for a in row if a.kind != "U"] for row in file.plan.order]
    sharding = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
    done = {
        rank: [action for action in row if action and action.computation_type.value not in sharding]
        for rank, row in runtime.pipeline_order_with_comms.items()
    }
    _simulate_comms_compute(done, runtime.stage_index_to_group_rank.__getitem__, 4)  # raises if it does not end


def test_torchtitan_gets_the_name_of_torchs_schedule_where_the_order_is_its_very_own() -> None:
    for pipeline, name in ((Pipeline.ZB_V, b'"ZBVZeroBubble"'), (Pipeline.V_MIN, b'"ZBVZeroBubble"')):
        text = export(quarters(pipeline), "torchtitan").data
        assert name in text
        named = pipeline is Pipeline.ZB_V
        assert (b"which is none of torch's schedules" in text) is not named
