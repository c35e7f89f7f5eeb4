"""What ranks compute on is one decision, from what all of them found."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra [torch] is not installed")

from explorer.runner.bundles.request import Backend
from explorer.runner.start.transport import GLOO, NCCL, decided
from solvers.errors import RunError


@pytest.mark.parametrize(
    ("question", "message", "expected"),
    [
        (Backend.AUTO, [(2, 2), (2, 2)], NCCL),
        (Backend.AUTO, [(2, 8)] * 2 + [(1, 0)], GLOO),  # one host without a GPU: all of them on CPUs
        (Backend.CPU, [(2, 8)] * 2, GLOO),
        (Backend.CUDA, [(2, 2)] * 2, NCCL),
        (Backend.AUTO, [(2, 0)] * 2, GLOO),
    ],
)
def test_all_ranks_are_on_one_kind_of_device(question: Backend, message: list[tuple[int, int]], expected: str) -> None:
    assert decided(question, message) == expected


def test_a_host_that_is_short_of_gpus_is_named_on_every_rank() -> None:
    with pytest.raises(RunError, match="2 ranks need 2 GPUs on the host of rank 2, found 1; run with --backend cpu"):
        decided(Backend.CUDA, [(2, 2), (2, 2), (2, 1), (2, 1)])
    with pytest.raises(RunError, match="2 ranks need 2 GPUs on this host, found 0"):
        decided(Backend.CUDA, [(2, 0), (2, 0)])
