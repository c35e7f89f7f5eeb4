"""Plans pushed to a real Ray cluster: a head and a second node, both on this machine, since there is no other."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.processes import MARK
from explorer.runner.targets.ray import RayTarget
from explorer.runner.targets.target import RunProgress
from explorer.runner.targets.target_file import RaySetup
from solvers.errors import RunError
from tests.explorer.runner.plans import placed, problem_of, text
from tests.explorer.runner.targets.ray_head import ROOT, Head, running_head

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed (pip install 'placement-explorer[test]')", allow_module_level=True)

REQUEST = RunRequest(time_limit_s=120.0)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with running_head(cpus=2) as head:
        yield head


def target(head: Head, hosts: int = 0, wait_s: float = 60.0, **options: object) -> RayTarget:
    given = {"token": head.token, "module": "tests.explorer.runner.targets.ray_standin", **options}
    return RayTarget(RaySetup("cluster", head.address, hosts=hosts, wait_s=wait_s), **given)  # type: ignore[arg-type]


def push(
    to: RayTarget,
    folder: Path,
    do: str,
    request: RunRequest = REQUEST,
    received: list[RunProgress] | None = None,
    should_stop: Callable[[], bool] = never,
) -> Outcome:
    seen = [] if received is None else received
    return to.run(json.dumps({"do": do}), request, 2, folder, seen.append, should_stop)


def ranks_left(head: Head) -> list[int]:
    """Processes of ranks, or of what these started."""
    processes = []
    for process in head.processes():
        with suppress(OSError):  # ended meanwhile
            if f"{MARK}=".encode() in Path(f"/proc/{process}/environ").read_bytes():
                processes.append(process)
    return processes


def wait_until_gone(head: Head) -> None:
    for _ in range(600):
        if not ranks_left(head):
            return
        time.sleep(0.05)
    pytest.fail("processes of ranks are left")


@pytest.mark.slow
def test_a_run_streams_its_progress_and_brings_its_result_back(head: Head, tmp_path: Path) -> None:
    messages: list[RunProgress] = []
    outcome = push(target(head, hosts=2), tmp_path, "finish", replace(REQUEST, threads=2), messages)
    assert (outcome.status, outcome.reason) == (RunStatus.DONE, "")
    assert outcome.iterations_s == (0.5, 0.25) * 2000
    assert outcome.environment is not None
    assert (outcome.environment.backend, outcome.environment.threads) == ("cpu", 2)
    package, path, peer = outcome.notes
    assert "_ray_pkg_" in package  # our packages were those that were sent
    assert path.endswith(str(ROOT))
    assert peer == "0/1/"  # rank 1 is alone on its node and sees no GPU

    steps = list(dict.fromkeys((step.phase, step.done, step.of) for step in messages))
    assert steps[:4] == [
        ("submitting", 0, 0),
        ("starting", 0, 0),
        ("waiting for the cluster", 0, 0),
        ("measuring", 1, 4),
    ]
    assert steps[-1] == ("measuring", 4, 4)
    assert steps[3:] == sorted(steps[3:])

    lines = (tmp_path / "log.txt").read_text().splitlines()[1:-1]  # between when it began and how it ended
    assert [step.line for step in messages if step.line] == lines
    assert "[rank 1] here I am" in lines
    assert "secrets: " in lines
    assert any(line.startswith("[rank 0] @failure") for line in lines)
    assert not any("@result" in line or "of another rank" in line or "\x1b" in line for line in lines)
    assert head.token not in (tmp_path / "log.txt").read_text()


@pytest.mark.slow
def test_a_cancelled_run_ends_with_all_its_processes(head: Head, tmp_path: Path) -> None:
    messages: list[RunProgress] = []
    outcome = push(
        target(head), tmp_path, "hang", received=messages, should_stop=lambda: messages[-1].phase == "measuring"
    )
    assert outcome.status is RunStatus.CANCELLED
    assert outcome.reason.startswith("cancelled after ")
    assert "confirm" not in outcome.reason
    wait_until_gone(head)


@pytest.mark.slow
def test_a_time_limit_ends_a_run_that_hangs(head: Head, tmp_path: Path) -> None:
    outcome = push(target(head), tmp_path, "hang", RunRequest(time_limit_s=4.0))
    assert outcome.status is RunStatus.TIME_LIMIT
    assert outcome.reason.startswith("ended at its time limit")
    wait_until_gone(head)


@pytest.mark.slow
def test_a_rank_that_fails_says_why(head: Head, tmp_path: Path) -> None:
    outcome = push(target(head), tmp_path, "fail")
    reason = "rank 1 failed at 1F0: ValueError: the shapes do not fit"
    assert (outcome.status, outcome.culprit, outcome.reason) == (RunStatus.FAILED, 1, reason)
    wait_until_gone(head)


def test_ranks_that_find_no_room_are_a_failure(head: Head, tmp_path: Path) -> None:
    outcome = push(target(head, wait_s=1.0), tmp_path, "finish", replace(REQUEST, threads=3))
    assert outcome.status is RunStatus.FAILED
    message = re.sub(r"\([0-4] free\)", "(some free)", outcome.reason)  # Ray may not know yet that the last run ended
    assert message == (
        "the cluster found no room for 2 ranks of 3 CPUs within 1 s:"
        " it has 4 CPUs (some free), 0 GPUs (some free) on 2 hosts"
    )


@pytest.mark.parametrize(
    ("token", "message"), [("", "asks for a token (HTTP 401)"), ("not-the-right-one", "does not accept this token")]
)
def test_a_wrong_or_missing_token_is_reported(token: str, message: str, head: Head, tmp_path: Path) -> None:
    with pytest.raises(RunError) as refused:
        push(target(head, token=token), tmp_path, "finish")
    assert message in str(refused.value)
    assert head.token not in str(refused.value)
    assert not token or token not in str(refused.value)


@pytest.mark.slow
def test_a_plan_of_a_demo_model_really_runs_there(head: Head, tmp_path: Path) -> None:
    problem = problem_of("candle_uno-small", devices=2, mini_batch=4, micro_batches=2)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    plan = text(problem, placed(problem, [int(i >= count // 2) for i in range(count)], 2), "candle_uno-small")
    request = RunRequest(steps=1, warmup=0, verify=True, time_limit_s=200.0)
    outcome = target(head, module=RANK_MODULE).run(plan, request, 2, tmp_path, lambda _: None, never)
    assert (outcome.status, outcome.reason) == (RunStatus.DONE, "")
    assert len(outcome.iterations_s) == 1
    assert outcome.agreement is not None
    assert outcome.agreement.gradient < 1e-5
    assert len(outcome.rank_devices) == 2


@pytest.mark.slow
def test_a_cluster_that_loses_its_power_is_reported(head: Head, tmp_path: Path) -> None:
    """The last one: nothing of the head is left."""

    def listen(step: RunProgress) -> None:
        if step.phase == "measuring":
            head.kill()

    plan = json.dumps({"do": "hang"})
    outcome = target(head, patience_s=1.0).run(plan, REQUEST, 2, tmp_path, listen, never)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason.startswith(f"the cluster vanished: {head.address}: ")
    assert head.processes() == []

    with pytest.raises(RunError, match="connection refused"):
        push(target(head), tmp_path, "finish")
