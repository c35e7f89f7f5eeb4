"""A rank that was killed is reported with what is known, and with no guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.runner.targets import log
from explorer.runner.targets.failures import Exit, explain


@pytest.mark.parametrize(
    ("kills", "message"),
    [
        (None, ""),
        (0, ""),
        (1, ": the kernel ended a process for want of memory; predicted peak 2 MiB"),
        (3, ": the kernel ended 3 processes for want of memory; predicted peak 2 MiB"),
    ],
)
def test_memory_is_blamed_only_where_the_kernel_counted_it(kills: int | None, message: str) -> None:
    reason, culprit = explain([], [Exit(1, -9)], lambda _: 2.0 * 2**20, "measuring (3 of 10)", kills)
    assert (reason, culprit) == (f"rank 1 was killed (signal 9, SIGKILL) while measuring (3 of 10){message}", 1)


def test_the_kernel_counts_what_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tmp_path / "vmstat"
    monkeypatch.setattr(log, "COUNTS", counts)
    assert log.memory_kills() is None
    counts.write_text("nr_free_pages 12\noom_kill 4\n")
    before = log.memory_kills()
    assert before == 4
    counts.write_text("nr_free_pages 12\noom_kill 6\n")
    assert log.kills_since(before) == 2
    assert log.kills_since(None) is None
