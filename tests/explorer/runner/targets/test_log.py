"""What many processes print into one pipe comes out as progress, exits and log, whatever the pieces it comes in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explorer.runner.targets import log as run_log
from explorer.runner.targets.failures import Exit, exit_line
from explorer.runner.targets.log import RunLog
from explorer.runner.targets.target import RunProgress
from solvers.errors import RunError

PROGRESS = '@progress {"phase": "measuring", "done": 1, "of": 2}'
PRINTED = f"one\n{PROGRESS}\nleft open {PROGRESS}begun in it\ntwo{exit_line(1, -9)}\r\n@progress {{}}\n@exit x\nlast"
LINES = ["one", "left open begun in it", "two", "@progress {}", "@exit x", "last"]


def feed(path: Path, pieces: list[bytes]) -> tuple[list[RunProgress], RunLog]:
    messages: list[RunProgress] = []
    with RunLog(path, messages.append) as log:
        for piece in pieces:
            log.feed(piece)
    return messages, log


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_lines_are_distinguished_whatever_the_pieces(size: int, tmp_path: Path) -> None:
    data = PRINTED.encode()
    shown, log = feed(tmp_path / "log.txt", [data[i : i + size] for i in range(0, len(data), size)])
    assert log.exits == [Exit(1, -9)]
    assert log.progress == RunProgress("measuring", 1, 2)
    assert [step for step in shown if not step.line] == [RunProgress("starting"), log.progress, log.progress]
    first, *lines, end, exit_reported = (tmp_path / "log.txt").read_text().splitlines()
    assert lines == LINES
    assert first.startswith("# begun 20")
    assert re.fullmatch(r"# ended after \d+\.\d s, while measuring", end)
    assert exit_reported == "# rank 1 ended with status -9"
    assert log.last == "last"


def test_a_line_without_an_end_and_a_log_without_an_end_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(run_log, "MAX_LOG_BYTES", 30)
    shown, _ = feed(tmp_path / "log.txt", [b"x" * 25] * 40)
    lines = (tmp_path / "log.txt").read_text().splitlines()[1:-1]
    assert lines == ["x" * 10, "x" * 10, "(the log was too long: the rest is left out)"]
    assert sum(len(step.line) for step in shown) == 1000


@pytest.mark.parametrize(
    "line",
    [
        '@progress {"phase": "a", "done": -1, "of": 2}',
        '@progress {"phase": "a", "done": 1e99, "of": 2}',
        '@progress {"phase": "a", "done": 1}',
        '@progress {"phase": "a", "done": 1, "of": 2, "more": 3}',
        "@progress [",
        '@exit {"rank": -1, "code": 0}',
        '@exit {"rank": 0, "code": true}',
    ],
)
def test_what_only_looks_like_progress_is_log(line: str, tmp_path: Path) -> None:
    shown, log = feed(tmp_path / "log.txt", [f"{line}\n".encode()])
    assert (log.progress, log.exits) == (RunProgress("starting"), [])
    assert shown[1:] == [RunProgress("starting", 0, 0, line)]


def test_a_full_disk_costs_the_log_and_not_the_run() -> None:
    shown, log = feed(Path("/dev/full"), [PRINTED.encode()])
    assert log.notes == ("could not write /dev/full while keeping the log of the run: no space left on device",)
    assert log.exits == [Exit(1, -9)]
    assert [step.line for step in shown if step.line] == LINES


def test_a_log_that_cannot_be_begun_is_a_failed_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"log.txt while keeping the log of the run: no such file or directory"):
        feed(tmp_path / "none" / "log.txt", [])
