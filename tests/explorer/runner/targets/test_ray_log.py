"""What a job prints comes back whole, or is said not to have; nothing in it is taken on trust."""

from __future__ import annotations

import base64
import json
import random
import zlib

import pytest

from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.targets import ray_log
from explorer.runner.targets.ray_log import JobFailure, JobLog, failure_line, rank_failure_line, result_lines
from solvers.errors import RunError

TEXT = json.dumps([random.Random(number).random() for number in range(2_000)])
"""Of several parts, however it is zipped."""


def read(lines: list[str]) -> JobLog:
    log = JobLog()
    log.feed("\n".join(lines), ended=True)
    return log


def test_a_result_comes_back_through_the_log_as_it_grows() -> None:
    lines = ["hello", *result_lines(TEXT), "bye"]
    assert len(lines) > 4
    whole = "\n".join(lines)
    log = JobLog()
    shown = "".join(log.feed(whole[:end]) for end in range(0, len(whole), 777)) + log.feed(whole, ended=True)
    assert shown == "hello\nbye\n"
    assert log.result_text() == TEXT


def test_without_a_result_there_is_none() -> None:
    assert read(["hello"]).result_text() is None


@pytest.mark.parametrize("lost", [1, -1])
def test_a_part_that_is_lost_is_missed(lost: int) -> None:
    lines = result_lines(TEXT)
    del lines[lost]
    with pytest.raises(RunError, match=f"of {len(lines) + 1} parts came back"):
        read(lines).result_text()


@pytest.mark.parametrize(
    "packed",
    [b"no zip", zlib.compress(b"x" * 1000)[:-6], zlib.compress(b"x") + b"more", zlib.compress(b"\xff\xfe")],
)
def test_a_damaged_result_is_refused(packed: bytes) -> None:
    with pytest.raises(RunError, match="damaged"):
        read([f"@result 1/1 {base64.b64encode(packed).decode()}"]).result_text()


def test_a_result_that_unzips_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = result_lines("x" * 10_000)
    monkeypatch.setattr(ray_log, "MAX_RESULT_BYTES", 5_000)
    with pytest.raises(RunError, match="too large"):
        read(lines).result_text()
    with pytest.raises(RunError, match="measure fewer steps"):
        result_lines("x" * 10_000)


def test_failures_come_back() -> None:
    shown = json.dumps({"type": "ValueError", "message": "no"}, indent=2)
    log = read([rank_failure_line(1, shown), failure_line(JobFailure(RunStatus.TIME_LIMIT, "too late"))])
    assert json.loads(log.rank_failures[1]) == {"type": "ValueError", "message": "no"}
    assert log.failure == JobFailure(RunStatus.TIME_LIMIT, "too late")


@pytest.mark.parametrize(
    "line",
    [
        "@failure {",
        '@failure {"status": "splendid", "reason": ""}',
        '@failure {"status": "failed", "reason": 3}',
        "@rank-failure 99999 {}",
        "@rank-failure x",
        "@result 2/3 abc",
        "@result 1/999999 abc",
        "@result 1/3 what is this",
    ],
)
def test_what_is_not_well_formed_is_log(line: str) -> None:
    log = JobLog()
    assert log.feed(line + "\n") == line + "\n"
    assert (log.failure, log.rank_failures, log.result_text()) == (None, {}, None)


def test_lines_steer_no_terminal_and_have_an_end() -> None:
    log = JobLog()
    assert log.feed("\x1b[2Jgone\ttab\x00\r\n") == " [2Jgone    tab \n"
    assert len(log.feed("\x1b[2Jgone\ttab\x00\r\n" + "y" * 100_000, ended=True)) == ray_log.MAX_LINE + 1


def test_a_log_that_shrinks_says_nothing_new() -> None:
    log = JobLog()
    assert log.feed("one\ntwo\n") == "one\ntwo\n"
    assert log.feed("one\n") == ""
    assert log.feed("one\ntwo\nthree\n") == "three\n"
