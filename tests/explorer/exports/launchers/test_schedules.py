"""Schedules that a launcher would reject are refused, in a line that says which numbers of micro-batches it takes."""

from __future__ import annotations

import pytest

from explorer.exports.formats import export
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from tests.explorer.exports.launchers.test_grammars import QUARTERS
from tests.explorer.exports.planned import planned


def file(pipeline: str, micro_batches: int, mini_batch: int = 60) -> PlanFile:
    places = (0, 1, 0, 1) if pipeline == "interleaved" else None
    return planned("gpt-small", QUARTERS, devices=places, pipeline=pipeline, mini_batch=mini_batch,
                   micro_batches=micro_batches)  # fmt: skip


@pytest.mark.parametrize(
    ("to", "pipeline", "micro_batches", "why"),
    [
        ("torchtitan", "1f1b", 1, "1F1B of torch wants at least 4 micro-batches, one a stage, and the plan has 1 .*with"
         " --micro-batches 4"),
        ("torchtitan", "1f1b", 3, "and the plan has 3 .*with --micro-batches 4"),
        ("torchtitan", "interleaved", 5, "Interleaved1F1B of torch wants .* and the plan has 5 .*with --micro-batches 4"
         " or 6"),
        ("torchtitan", "interleaved", 15, "the plan has 15 .*with --micro-batches 12 or 20"),
        ("megatron", "interleaved", 5, "interleaved Megatron wants a multiple of 2 micro-batches, one a rank, and the"
         " plan has 5 .*with --micro-batches 4 or 6"),
        ("megatron", "interleaved", 1, "and the plan has 1 .*with --micro-batches 2"),
    ],
)  # fmt: skip
def test_a_number_of_micro_batches_that_the_launcher_rejects_is_refused(
    to: str, pipeline: str, micro_batches: int, why: str
) -> None:
    with pytest.raises(UnsupportedProblem, match=why):
        export(file(pipeline, micro_batches), to)


@pytest.mark.parametrize(
    ("to", "pipeline", "micro_batches"),
    [
        ("torchtitan", "1f1b", 4),
        ("torchtitan", "gpipe", 1),
        ("torchtitan", "interleaved", 3),  # one round of three
        ("torchtitan", "interleaved", 6),
        ("megatron", "1f1b", 1),
        ("megatron", "interleaved", 6),
    ],
)
def test_a_number_that_it_takes_is_written(to: str, pipeline: str, micro_batches: int) -> None:
    assert export(file(pipeline, micro_batches), to).data


@pytest.mark.parametrize("schedule", ["1F1B", "Interleaved1F1B", "InterleavedZeroBubble"])
def test_what_torch_takes_is_what_torch_takes(schedule: str) -> None:
    """The rule, against the constructors of torch 2.13 themselves."""
    from explorer.exports.launchers.torchtitan import takes

    ranks, stages = (4, 4) if schedule == "1F1B" else (2, 4)
    for count in range(1, 25):
        assert takes(schedule, count, ranks, stages) == constructs(schedule, count, ranks, stages), count


def constructs(schedule: str, count: int, ranks: int, stages: int) -> bool:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        parts = [PipelineStage(nn.Linear(1, 1), s, stages, torch.device("cpu")) for s in range(0, stages, ranks)]
        made = get_schedule_class(schedule)
        made(parts[0] if schedule == "1F1B" else parts, count, loss_fn=lambda output, target: output.sum())
    except ValueError:
        return False
    finally:
        dist.destroy_process_group()
    return True
