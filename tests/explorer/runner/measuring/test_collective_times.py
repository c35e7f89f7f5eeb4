"""The line through the times of collectives, and what groups are measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from explorer.costs.profile import COLLECTIVES, CollectiveTimes
from explorer.question.nodes.wired import lines_of
from explorer.runner.measuring.collective_times import SIZES, fit, group_sizes, measure_collectives

US = 1e-6


def test_a_line_is_recovered() -> None:
    sent = [1.5 * size for size in SIZES]
    latency, bandwidth = fit(6, sent, [6 * 20 * US + each / 5e9 for each in sent])
    assert latency == pytest.approx(20 * US)
    assert bandwidth == pytest.approx(5e9)


def test_groups_are_of_the_first_host() -> None:
    assert group_sizes(["a"]) == []
    assert group_sizes(["a", "a", "a"]) == [2]
    assert group_sizes(["a"] * 8 + ["b"] * 8) == [2, 4, 8]


def test_a_profile_gives_the_line_of_as_many_members() -> None:
    of_two, of_four = (CollectiveTimes("all_reduce", count, (1,), (1.0,), count * US, 1e9) for count in (2, 4))
    profile: Any = SimpleNamespace(collectives=(of_two, of_four))
    assert lines_of(profile)("any", "all_reduce", 4) is of_four
    assert lines_of(profile)("any", "all_reduce", 8) is None
    assert lines_of(profile)("any", "reduce_scatter", 2) is None


def _measure(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    times = measure_collectives(rank, ["here", "here"], torch.device("cpu"), sizes=(4096, 65536))
    Path(folder, f"{rank}").write_text(repr(times))
    dist.destroy_process_group()


@pytest.mark.slow
def test_every_kind_is_measured_on_two_processes(tmp_path: Path) -> None:
    """Both ranks get the same."""
    processes.spawn(_measure, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    message = [(tmp_path / str(rank)).read_text() for rank in range(2)]
    assert message[0] == message[1]
    for kind in COLLECTIVES:
        assert f"kind='{kind}', members=2" in message[0]
