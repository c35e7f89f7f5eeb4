"""How many workers there are: by cores and memory."""

from __future__ import annotations

import pytest

from explorer.jobs.workers.specs import LEAST_BYTES, MOST, default_workers, memory_bytes, solving_spec
from explorer.sweeps.execution.workers import cores

GIB = 2**30


@pytest.mark.parametrize(
    ("has", "memory", "workers"),
    [(2, 24 * GIB, 2), (8, 16 * GIB, 4), (1, 64 * GIB, 1), (4, 3 * GIB, 1), (64, 512 * GIB, MOST), (4, 0, 4)],
)
def test_as_many_as_cores_and_memory_have_room_for(has, memory, workers):
    assert default_workers(has, memory) == workers


def test_each_worker_may_take_its_share():
    assert solving_spec(4, 24 * GIB).memory_bytes == 6 * GIB
    assert solving_spec(64, 24 * GIB).memory_bytes == LEAST_BYTES
    assert solving_spec(4, 0).memory_bytes == 0


def test_a_container_has_what_it_was_given(tmp_path):
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    assert (cores(tmp_path), memory_bytes(tmp_path)) == (1, GIB)


def test_without_limits_it_is_the_machine_s(tmp_path):
    has = cores(tmp_path), memory_bytes(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (cores(tmp_path), memory_bytes(tmp_path)) == has
    assert has[0] >= 1
