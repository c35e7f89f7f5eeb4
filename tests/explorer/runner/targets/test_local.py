"""Whatever happens to its processes, a local run ends with an outcome that says so, and with none of them left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.bundle import Bundle, write_bundle
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets import log, processes
from explorer.runner.targets.local import LocalTarget, core_notes
from explorer.runner.targets.processes import MARK, marked
from explorer.runner.targets.target import RunProgress
from solvers.errors import InvalidProblem
from tests.explorer.runner.standin_rank import is_alive
from tests.explorer.runner.two_ranks import two_rank_text

STANDIN = "tests.explorer.runner.standin_rank"
LIGHT = LocalTarget(module=STANDIN, launcher="tests.explorer.runner.standin_launch")
REAL = LocalTarget(module=STANDIN)
PATIENT = RunRequest(time_limit_s=120.0)


def never() -> bool:
    return False


def run(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    *,
    target: LocalTarget = LIGHT,
    request: RunRequest = PATIENT,
    received: list[RunProgress] | None = None,
    should_stop: Callable[[], bool] = never,
) -> Outcome:
    """The outcome of a bundle whose ranks behave as ``how`` says; all its processes must have ended."""
    monkeypatch.setenv("STANDIN", how)
    bundle = write_bundle(folder, two_rank_text(), request, target.name)
    seen = [] if received is None else received
    outcome = target.run(two_rank_text(), request, 2, bundle.folder, seen.append, should_stop)
    assert living(folder) == []
    return outcome


def living(folder: Path) -> list[str]:
    """The processes that left their id in the bundle and still are."""
    return [path.name for path in folder.glob("pid-*") if is_alive(int(path.read_text()))]


def test_a_run_tells_its_progress_and_leaves_its_log_and_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[RunProgress] = []
    folder = tmp_path / "run"
    outcome = run(folder, monkeypatch, "finish", request=RunRequest(threads=3), received=messages)
    assert (outcome.status, outcome.iterations_s) == (RunStatus.DONE, (0.5, 0.25))
    steps = [(step.phase, step.done, step.of) for step in messages if not step.line]
    assert steps == [("starting", 0, 0), ("tracing", 0, 0), ("measuring", 1, 2)]
    lines = [line for line in Bundle(folder).log.read_text().splitlines() if not line.startswith("# ")]
    assert [step.line for step in messages if step.line] == lines
    assert {"threads 3", "a line left open "} <= set(lines)
    assert sum("-1" in line for line in lines) == 1  # what is no progress is log


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("how", "culprit", "reason"),
    [
        ("fail_alone", 1, "rank 1 failed at 1F0: ValueError: the shapes do not fit"),
        ("lost_in_thought", 1, "rank 1 failed while measuring (3 of 10): ValueError: no"),
        ("refuse", 0, "rank 0: 2 ranks need 2 GPUs on this host, found 0; run with --backend cpu"),
        ("no_memory", 1, "rank 1 is out of memory at 1B0; predicted peak 2 MiB"),
        ("killed", 1, "rank 1 was killed (signal 9, SIGKILL) while starting"),
        ("crash", 1, "rank 1 ended with status 3; the log may say why"),
        ("mumble", -1, "the launcher ended with status 137; its last words: [31mfatal: no room [0m"),
    ],
)
def test_a_failure_says_which_rank_and_why(
    how: str, culprit: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run(tmp_path / "run", monkeypatch, how)
    assert (outcome.status, outcome.culprit, outcome.reason) == (RunStatus.FAILED, culprit, reason)


def test_a_damaged_result_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "damage")
    assert outcome.status is RunStatus.FAILED
    assert "the result of the run is damaged" in outcome.reason


def test_a_crash_after_the_result_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "crash_late")
    assert (outcome.status, outcome.iterations_s) == (RunStatus.DONE, (0.5,))
    assert any("failed after the result was written" in note for note in outcome.notes)


def test_a_cancelled_run_leaves_no_process_not_even_one_that_went_its_own_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    messages: list[RunProgress] = []
    outcome = run(folder, monkeypatch, "hang", received=messages, should_stop=lambda: messages[-1].phase == "measuring")
    assert {path.name for path in folder.glob("pid-*")} == {"pid-0", "pid-1", "pid-child"}
    assert outcome.status is RunStatus.CANCELLED
    assert outcome.reason.endswith("while measuring (3 of 10)")


def test_a_time_limit_ends_a_run_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "hang", request=RunRequest(time_limit_s=1.5))
    assert outcome.status is RunStatus.TIME_LIMIT
    assert "ended at its time limit" in outcome.reason


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("stopped", r"rank 1 is stopped \(process (\d+), at 1F0; kill -CONT lets it go on\)"),
        ("silent", r"rank 1 \(process (\d+)\) has been at 1F0 for .* or more, and the others wait for it"),
    ],
)
def test_a_rank_that_stands_still_is_named_while_the_run_goes_on(
    how: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SILENT_S", 0.5)
    folder = tmp_path / "run"
    messages: list[RunProgress] = []
    outcome = run(folder, monkeypatch, how, received=messages, should_stop=lambda: any(step.stall for step in messages))
    (message,) = [step.stall for step in messages if step.stall]
    match = re.fullmatch(words, message)
    assert match
    assert match[1] == (folder / "pid-1").read_text()
    assert outcome.reason.endswith(f"while starting; {message}")
    assert f"# {message}\n" in Bundle(folder).log.read_text()
    assert not list(folder.glob("beat-*"))


@pytest.mark.slow
def test_a_time_limit_names_the_rank_that_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "stopped", request=RunRequest(time_limit_s=4.0))
    assert (outcome.status, outcome.culprit) == (RunStatus.TIME_LIMIT, 1)
    assert "while starting; rank 1 is stopped (process " in outcome.reason


def test_ranks_that_work_and_wait_for_nobody_are_not_blamed(tmp_path: Path) -> None:
    look = log.Watch(tmp_path, 2)
    (tmp_path / "beat-0").write_bytes(heartbeat(waits=False))
    (tmp_path / "beat-1").write_bytes(heartbeat(waits=False))
    assert not look.look(100.0)
    assert not look.look(200.0)
    (tmp_path / "beat-0").write_bytes(heartbeat(waits=True))
    assert not look.look(300.0)  # it has just moved
    assert look.look(400.0)
    assert look.stall is not None
    assert look.stall.rank == 1
    (tmp_path / "beat-1").write_bytes(heartbeat(waits=True))
    assert look.look(500.0)
    assert look.stall is None


def heartbeat(*, waits: bool) -> bytes:
    return heartbeats._HEAD.pack(os.getpid(), 1, waits) + b"0F0".ljust(heartbeats._TEXT)


def test_an_error_of_whoever_listens_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BaseException):
        pass

    def listen(step: RunProgress) -> None:
        if step.phase == "measuring":
            raise Interrupted

    monkeypatch.setenv("STANDIN", "hang")
    folder = write_bundle(tmp_path / "run", two_rank_text(), RunRequest(), "local").folder
    with pytest.raises(Interrupted):
        LIGHT.run(two_rank_text(), RunRequest(), 2, folder, listen, never)
    assert living(folder) == []


def test_a_bundle_runs_again_without_what_the_first_run_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    run(folder, monkeypatch, "refuse")
    monkeypatch.setenv("STANDIN", "finish")
    again = LIGHT.run(two_rank_text(), RunRequest(), 2, folder, lambda _: None, never)
    assert again.status is RunStatus.DONE
    assert not list(folder.glob("failure-*"))


def test_folders_that_are_called_like_ours_do_no_harm_where_a_run_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("solvers", "explorer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path / "run", monkeypatch, "finish").status is RunStatus.DONE


def test_more_ranks_than_the_owner_allows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="needs 2 ranks; target local takes at most 1"):
        LocalTarget(max_ranks=1).run(two_rank_text(), RunRequest(), 2, tmp_path, lambda _: None, never)


def test_ranks_that_share_cores_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert core_notes(2, 1) == ()
    assert core_notes(2, 2) == (
        "2 ranks of 2 threads share 2 cores: they take turns, so times are longer than on as many devices",
    )


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Another process that runs a bundle which hangs, and the bundle."""
    folder = write_bundle(tmp_path / "run", two_rank_text(), RunRequest(), "local").folder
    code = (
        "import sys; from pathlib import Path; from explorer.runner.bundles.request import RunRequest;"
        " from tests.explorer.runner.targets.test_local import LIGHT;"
        " LIGHT.run('', RunRequest(), 2, Path(sys.argv[1]), lambda _: None, lambda: False)"
    )
    environ = {**os.environ, "STANDIN": "hang"}
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environ)
    yield process, folder
    process.kill()
    process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen")


@pytest.mark.slow
def test_when_the_client_is_killed_nothing_survives(parent: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, folder = parent
    wait_until(lambda: len(list(folder.glob("pid-*"))) == 3)
    assert len(living(folder)) == 3
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: living(folder) == [])


def test_a_mark_finds_its_processes_only() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(sleeper, env={**os.environ, MARK: "a" * 16}) as own:
        try:
            wait_until(lambda: marked("a" * 16) == [own.pid])
            assert marked("a" * 15) == []
        finally:
            own.kill()


def test_a_process_whose_mark_can_no_longer_be_read_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being killed has no environment left, and has not ended yet."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", deaf]
    with subprocess.Popen(command, env={**os.environ, MARK: "b" * 16}, stdout=subprocess.PIPE) as own:
        try:
            assert own.stdout is not None
            assert own.stdout.readline() == b"\n"
            looks = iter([[own.pid]])
            monkeypatch.setattr(processes, "marked", lambda _: next(looks, []))
            processes.end_marked("b" * 16, 0.0)
            assert not is_alive(own.pid)
        finally:
            own.kill()


def test_under_torchrun_a_run_ends_with_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "finish", target=REAL)
    assert (outcome.status, outcome.iterations_s) == (RunStatus.DONE, (0.5, 0.25))


def test_under_torchrun_a_killed_rank_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path / "run", monkeypatch, "killed", target=REAL)
    assert (outcome.status, outcome.culprit) == (RunStatus.FAILED, 1)
    assert outcome.reason.startswith("rank 1 was killed (signal 9, SIGKILL)")
