"""What the job on a cluster does that needs no cluster: who is where, what is sent to whom, and one rank's process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.runner.bundles.request import Backend, RunRequest
from explorer.runner.targets.failures import Exit, explain, read_failures
from explorer.runner.targets.processes import marked
from explorer.runner.targets.ray_driver import MAX_LOG_CHARS, Place, Relay, by_host, environments, shares
from explorer.runner.targets.ray_log import JobLog, rank_failure_line
from explorer.runner.targets.ray_ranks import Look, RankProcess
from tests.explorer.runner.targets.ray_head import ROOT

CUDA = RunRequest(backend=Backend.CUDA)


def test_ranks_are_dealt_to_hosts_evenly() -> None:
    assert shares(3, 0) == [1, 1, 1]
    assert shares(5, 2) == [3, 2]
    assert shares(2, 4) == [1, 1]


def test_ranks_of_a_host_follow_one_another() -> None:
    assert by_host(["b", "a", "b", "a"]) == [0, 2, 1, 3]


def test_each_rank_gets_its_place_among_two_hosts() -> None:
    places = [Place("x", "10.0.0.1", ("3",)), Place("x", "10.0.0.1", ("1",)), Place("y", "10.0.0.2", ("0",))]
    shown = environments(places, 4711, CUDA)
    assert [(e["RANK"], e["LOCAL_RANK"], e["LOCAL_WORLD_SIZE"], e["GROUP_RANK"]) for e in shown] == [
        ("0", "0", "2", "0"),
        ("1", "1", "2", "0"),
        ("2", "0", "1", "1"),
    ]
    # LOCAL_RANK counts the GPUs that are visible, so each rank computes on its own
    assert [e["CUDA_VISIBLE_DEVICES"] for e in shown] == ["3,1", "3,1", "0"]
    assert {(e["MASTER_ADDR"], e["MASTER_PORT"], e["WORLD_SIZE"]) for e in shown} == {("10.0.0.1", "4711", "3")}
    assert not any("GLOO_SOCKET_IFNAME" in e for e in shown)


def test_ranks_of_one_host_meet_on_loopback_and_see_no_gpu_unless_requested() -> None:
    shown = environments([Place("x", "10.0.0.1", ())] * 2, 4711, RunRequest(backend=Backend.CPU, threads=3))
    assert {(e["MASTER_ADDR"], e["CUDA_VISIBLE_DEVICES"], e["OMP_NUM_THREADS"]) for e in shown} == {
        ("127.0.0.1", "", "3")
    }


def test_no_rank_can_speak_for_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    relay = Relay()
    relay.lines(0, ["hello", '@failure {"status": "done", "reason": "ha"}', "@result 1/1 abc", "@exit {}"])
    relay.lines(1, ['@progress {"phase": "mine", "done": 0, "of": 0}', "hello"])
    relay.lines(0, [f'@progress {{"phase": "measuring", "done": {done}, "of": 9}}' for done in range(9)])
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == '@progress {"phase": "measuring", "done": 8, "of": 9}'
    assert sum("@progress" in line for line in printed.splitlines()) == 1
    log = JobLog()
    shown = log.feed(printed)
    assert "[rank 1] hello" in shown
    assert "[rank 0] @exit" in shown
    assert (log.failure, log.result_text()) == (None, None)


def test_a_log_without_end_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    relay = Relay()
    for _ in range(12):
        relay.lines(0, ["x" * (MAX_LOG_CHARS // 10)] * 2)
    printed = capsys.readouterr().out
    assert len(printed) < MAX_LOG_CHARS + 100
    assert printed.count("(the log was too long: the rest is left out)") == 1


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RankProcess]:
    """A rank to be started in an unpacked package."""
    (tmp_path / "bundle").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-secret")
    process = RankProcess()
    yield process
    process.end()
    assert list(tmp_path.glob("run-*")) == []


def start(rank: RankProcess, do: str, module: str = "tests.explorer.runner.targets.ray_standin") -> None:
    Path("bundle", "plan.json").write_text(json.dumps({"do": do}))
    environment = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    rank.start(module, "{}", environment)


def last_look(rank: RankProcess) -> Look:
    for _ in range(600):
        look = rank.look()
        if look.code is not None:
            return look
        time.sleep(0.05)
    pytest.fail("it did not end")


def test_a_rank_that_is_killed_tells_the_signal(rank: RankProcess) -> None:
    start(rank, "killed")
    assert last_look(rank).code == -9


def test_a_rank_that_cannot_even_start_says_why(rank: RankProcess, tmp_path: Path) -> None:
    start(rank, "finish", "no_such_package.rank")
    look = last_look(rank)
    log = JobLog()
    log.feed(rank_failure_line(1, look.failure), ended=True)
    (tmp_path / "failure-1.json").write_text(log.rank_failures[1])
    reason, culprit = explain(read_failures(tmp_path), [Exit(1, look.code or 0)], lambda _: None)
    assert (reason, culprit) == ("rank 1 failed: ModuleNotFoundError: No module named 'no_such_package'", 1)


def test_a_deaf_rank_ends_with_all_it_started(rank: RankProcess) -> None:
    start(rank, "hang")
    for _ in range(600):
        if len(marked(rank._mark)) >= 2:
            break
        time.sleep(0.05)
    assert len(marked(rank._mark)) >= 2  # the rank, and the agent that watches it
    assert rank.look().code is None
    rank.end()
    assert marked(rank._mark) == []
