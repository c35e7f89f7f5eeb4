"""A run on a cluster ends with an outcome that says why, whatever the cluster answers, and holds no token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.runner.bundles.bundle import Bundle, write_bundle
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.result_json import write_outcome
from explorer.runner.targets import ray_jobs
from explorer.runner.targets.failures import exit_line
from explorer.runner.targets.ray import RayTarget
from explorer.runner.targets.ray_http import Refused, Unreachable
from explorer.runner.targets.ray_log import JobFailure, failure_line, rank_failure_line, result_lines
from explorer.runner.targets.target import RunProgress
from explorer.runner.targets.target_file import RaySetup
from solvers.errors import InvalidProblem, RunError
from tests.explorer.runner.targets.fake_ray import TOKEN, Answer, FakeRay, fake_ray, json_answer
from tests.explorer.runner.two_ranks import two_rank_text

PATIENT = RunRequest(time_limit_s=60.0)
OUTCOME = Outcome(RunStatus.DONE, iterations_s=(0.5, 0.25), notes=(f"the token is {TOKEN}",))


def result_text(folder: Path) -> str:
    path = folder / "of-rank-0.json"
    write_outcome(path, OUTCOME)
    return path.read_text()


class Cluster:
    """A cluster with one job, which goes through ``states``, a status and the log so far each; the last one stays.

    also: (method, last part of the path) -> what is answered instead.
    """

    def __init__(self, *states: tuple[str, str], also: dict[tuple[str, str], Answer] | None = None) -> None:
        self.states = list(states)
        self.also = also or {}
        self.stopped = False

    def __call__(self, method: str, path: str) -> Answer:
        last = path.rstrip("/").rpartition("/")[2]
        if (method, last) in self.also:
            return self.also[method, last]
        if path == "/api/version":
            return json_answer({"version": "4", "ray_version": "2.60.0"})
        if path.startswith("/api/packages/"):
            return Answer(404 if method == "GET" else 200)
        if (method, path) == ("POST", "/api/jobs/"):
            return json_answer({"submission_id": "as asked"})
        if last == "stop":
            self.stopped = True
            return json_answer({"stopped": True})
        if last == "logs":
            log = self.states[0][1]
            if len(self.states) > 1:
                del self.states[0]
            return json_answer({"logs": log})
        return json_answer({"status": "STOPPED" if self.stopped else self.states[0][0], "message": "Ray's own words"})


def push(
    cluster: Callable[[str, str], Answer],
    folder: Path,
    *,
    request: RunRequest = PATIENT,
    seen: list[RunProgress] | None = None,
    should_stop: Callable[[FakeRay], bool] = lambda fake: False,
    patience_s: float = 0.2,
) -> tuple[Outcome, FakeRay]:
    bundle = write_bundle(folder / "run", two_rank_text(), request, "cluster")
    steps = [] if seen is None else seen
    with fake_ray(cluster) as fake:
        target = RayTarget(RaySetup("cluster", fake.address), TOKEN, patience_s=patience_s, poll_s=0.02)
        outcome = target.run(two_rank_text(), request, 2, bundle.folder, steps.append, lambda: should_stop(fake))
    for path in bundle.folder.iterdir():
        assert TOKEN not in path.read_text()
    assert TOKEN not in outcome.reason
    return outcome, fake


def test_a_job_is_followed_to_its_result(tmp_path: Path) -> None:
    lines = [
        f"my token is {TOKEN}",
        '@progress {"phase": "measuring", "done": 1, "of": 2}',
        *result_lines(result_text(tmp_path)),
    ]
    log = "\n".join(lines) + "\n"
    cluster = Cluster(("PENDING", ""), ("RUNNING", log[:30]), ("RUNNING", log[: len(log) // 2]), ("SUCCEEDED", log))
    seen: list[RunProgress] = []
    outcome, fake = push(cluster, tmp_path, seen=seen)
    assert outcome == replace(OUTCOME, notes=("the token is <token>",))
    assert seen[-1] == RunProgress("measuring", 1, 2)
    assert "my token is <token>\n" in (tmp_path / "run" / "log.txt").read_text()

    assert {token for _, _, token in fake.requests} == {f"Bearer {TOKEN}"}
    request = json.loads(fake.bodies["POST /api/jobs/"])
    uploaded = [path for method, path, _ in fake.requests if method == "PUT"]
    assert [f"gcs://{path.rpartition('/')[2]}" for path in uploaded] == [request["runtime_env"]["working_dir"]]
    assert "--ranks 2 --hosts 0 --module explorer.runner.rank" in request["entrypoint"]
    assert TOKEN not in json.dumps(request)


def test_a_package_that_is_there_is_not_sent_again(tmp_path: Path) -> None:
    def answer(method: str, path: str) -> Answer:
        return Answer() if path.startswith("/api/packages/") else cluster(method, path)

    cluster = Cluster(("FAILED", ""))
    _, fake = push(answer, tmp_path)
    assert "PUT" not in {method for method, _, _ in fake.requests}


FAILED = json.dumps({"type": "RuntimeError", "message": "no memory", "step": "1B0", "out_of_memory": True})


@pytest.mark.parametrize(
    ("log", "reason", "culprit"),
    [
        (
            [rank_failure_line(1, FAILED), exit_line(1, 1), exit_line(0, -15)],
            "rank 1 is out of memory at 1B0; predicted peak 2 MiB",
            1,
        ),
        ([exit_line(0, -11)], "rank 0 was killed (signal 11, SIGSEGV)", 0),
        ([failure_line(JobFailure(RunStatus.FAILED, "no room"))], "no room", -1),
        (["python: not found"], "the job ended without a result; its last words: python: not found", -1),
        ([], "the job ended without a result (failed): Ray's own words", -1),
        (
            ["ModuleNotFoundError: No module named 'torch'"],
            "the job ended without a result; its last words: ModuleNotFoundError: No module named 'torch' (what a"
            " model needs must be installed on the cluster)",
            -1,
        ),
    ],
)
def test_a_job_that_fails_says_why(log: list[str], reason: str, culprit: int, tmp_path: Path) -> None:
    outcome, _ = push(Cluster(("FAILED", "\n".join(log))), tmp_path)
    assert (outcome.status, outcome.reason, outcome.culprit) == (RunStatus.FAILED, reason, culprit)


def test_a_time_limit_of_the_job_is_one(tmp_path: Path) -> None:
    log = failure_line(JobFailure(RunStatus.TIME_LIMIT, "ended at its time limit, after 5 s"))
    outcome, _ = push(Cluster(("FAILED", log)), tmp_path)
    assert (outcome.status, outcome.reason) == (RunStatus.TIME_LIMIT, "ended at its time limit, after 5 s")


def test_a_failure_after_the_result_is_a_note(tmp_path: Path) -> None:
    outcome, _ = push(Cluster(("FAILED", "\n".join(result_lines(result_text(tmp_path))))), tmp_path)
    assert outcome.status is RunStatus.DONE
    assert any("failed after the result was written" in note for note in outcome.notes)


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"format": "placement-explorer/run", "version": 99}'])
def test_a_result_that_is_none_is_a_failure(text: str, tmp_path: Path) -> None:
    outcome, _ = push(Cluster(("SUCCEEDED", "\n".join(result_lines(text)))), tmp_path)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason.startswith("the result of the run cannot be used: ")


def test_a_job_that_somebody_else_stops_is_cancelled(tmp_path: Path) -> None:
    outcome, _ = push(Cluster(("STOPPED", "")), tmp_path)
    assert (outcome.status, outcome.reason) == (RunStatus.CANCELLED, "the job was stopped on the cluster")


def test_a_cancelled_run_stops_the_job_and_keeps_its_log(tmp_path: Path) -> None:
    cluster = Cluster(("RUNNING", "one line"))
    outcome, fake = push(
        cluster, tmp_path, should_stop=lambda fake: any("logs" in path for _, path, _ in fake.requests)
    )
    assert cluster.stopped
    assert outcome.status is RunStatus.CANCELLED
    assert "confirm" not in outcome.reason
    _, line, end = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert line == "one line"
    assert end.startswith("# ended after")
    assert sum(path.endswith("/stop") for _, path, _ in fake.requests) == 1


def test_a_run_cancelled_before_its_submission_is_not_submitted(tmp_path: Path) -> None:
    pause = threading.Event()
    cluster = Cluster(("RUNNING", ""), also={("GET", "version"): Answer(body=b"{}", pause=pause)})
    outcome, fake = push(cluster, tmp_path, should_stop=lambda fake: bool(fake.requests and (pause.set() or True)))
    assert outcome.status is RunStatus.CANCELLED
    assert [path for _, path, _ in fake.requests] == ["/api/version"]


def test_a_run_cancelled_while_it_is_submitted_is_stopped_afterwards(tmp_path: Path) -> None:
    pause = threading.Event()
    cluster = Cluster(("RUNNING", ""), also={("POST", "jobs"): Answer(body=b'{"submission_id": "x"}', pause=pause)})

    def should_stop(fake: FakeRay) -> bool:
        return ("POST", "/api/jobs/") in [(method, path) for method, path, _ in fake.requests]

    threading.Timer(0.3, pause.set).start()
    outcome, fake = push(cluster, tmp_path, should_stop=should_stop)
    assert (outcome.status, cluster.stopped) == (RunStatus.CANCELLED, True)
    assert next(path for method, path, _ in fake.requests if method == "POST") == "/api/jobs/"


def test_a_time_limit_stops_the_job(tmp_path: Path) -> None:
    cluster = Cluster(("RUNNING", ""))
    outcome, _ = push(cluster, tmp_path, request=RunRequest(time_limit_s=0.3))
    assert cluster.stopped
    assert outcome.status is RunStatus.TIME_LIMIT


def test_a_stop_that_the_cluster_does_not_confirm_is_reported(tmp_path: Path) -> None:
    cluster = Cluster(("RUNNING", ""), also={("POST", "stop"): Answer(500, b"Traceback\nValueError: not today\n")})
    outcome, _ = push(cluster, tmp_path, request=RunRequest(time_limit_s=0.3))
    assert outcome.status is RunStatus.TIME_LIMIT
    assert "does not confirm that the job placement-explorer-" in outcome.reason


class Vanishing(Cluster):
    """After some polls every connection is closed at once."""

    polls = 0

    def __call__(self, method: str, path: str) -> Answer:
        self.polls += path.endswith("/logs")
        return Answer(cut=True) if self.polls > 3 else super().__call__(method, path)


def test_a_cluster_that_vanishes_is_a_failure(tmp_path: Path) -> None:
    outcome, _ = push(Vanishing(("RUNNING", "")), tmp_path)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason.startswith("the cluster vanished: http://127.0.0.1:")
    assert "may still run there until its time limit" in outcome.reason


class Busy(Cluster):
    """Every fifth answer is that it has no time."""

    number = 0

    def __call__(self, method: str, path: str) -> Answer:
        self.number += "placement-explorer" in path
        return Answer(503, b"busy") if self.number % 5 == 2 else super().__call__(method, path)


def test_a_cluster_that_is_busy_for_a_moment_is_requested_again(tmp_path: Path) -> None:
    outcome, _ = push(Busy(("RUNNING", ""), ("SUCCEEDED", "bye")), tmp_path, patience_s=30.0)
    assert outcome.reason == "the job ended without a result; its last words: bye"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"<html>", "is that a Ray cluster's address? its reply: not JSON"),
        (b"[]", "expected an object"),
        (b'{"status": "RUNNING"}', "its reply.message: missing"),
        (b'{"status": "GREAT", "message": null}', "expected one of PENDING, RUNNING"),
        (b'{"status": "RUNNING", "message": {"deep": []}}', "expected a text"),
        (b" " * 2**21, "more than 1,048,576 bytes"),
    ],
)
def test_a_reply_that_makes_no_sense_ends_the_run(reply: bytes, message: str, tmp_path: Path) -> None:
    cluster = Cluster(("RUNNING", ""))

    def answer(method: str, path: str) -> Answer:
        is_status = method == "GET" and path.rpartition("/")[2].startswith("placement-explorer-")
        return Answer(body=reply) if is_status else cluster(method, path)

    outcome, _ = push(answer, tmp_path)
    assert outcome.status is RunStatus.FAILED
    assert message in outcome.reason
    assert cluster.stopped


def test_a_log_that_is_too_long_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_jobs, "MAX_LOG_BYTES", 1_000)
    outcome, _ = push(Cluster(("RUNNING", "x" * 2_000)), tmp_path)
    assert (outcome.status, "more than 1,000 bytes" in outcome.reason) == (RunStatus.FAILED, True)


def test_a_job_that_the_cluster_forgot_ends_the_run(tmp_path: Path) -> None:
    outcome, _ = push(Cluster(("RUNNING", ""), also={("GET", "logs"): Answer(404, b"Job x does not exist")}), tmp_path)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason.endswith("(HTTP 404): Job x does not exist")


@pytest.mark.parametrize(
    ("status", "message"), [(401, "asks for a token (HTTP 401)"), (403, "does not accept this token (HTTP 403)")]
)
def test_a_token_that_is_not_accepted_is_reported_before_anything_is_sent(
    status: int, message: str, tmp_path: Path
) -> None:
    also = {("GET", "version"): Answer(status, f"{TOKEN} is wrong".encode())}
    with pytest.raises(Refused) as refused:
        push(Cluster(("RUNNING", ""), also=also), tmp_path)
    assert message in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_where_nothing_listens_there_is_no_run(tmp_path: Path) -> None:
    with fake_ray(Cluster(("RUNNING", ""))) as fake:
        pass
    with pytest.raises(Unreachable, match="connection refused"):
        RayTarget(RaySetup("cluster", fake.address)).run("{}", PATIENT, 2, tmp_path, lambda _: None, lambda: False)


def test_a_listener_that_fails_stops_the_job(tmp_path: Path) -> None:
    cluster = Cluster(("RUNNING", "a line\n"))

    def listen(step: RunProgress) -> None:
        if step.line:
            raise KeyboardInterrupt

    with fake_ray(cluster) as fake, pytest.raises(KeyboardInterrupt):
        RayTarget(RaySetup("cluster", fake.address)).run("{}", PATIENT, 2, tmp_path, listen, lambda: False)
    assert cluster.stopped


def test_what_an_earlier_run_left_is_not_of_this_one(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path)
    bundle.failure(0).write_text(FAILED)
    bundle.result.write_text("{}")
    with fake_ray(Cluster(("FAILED", ""))) as fake:
        outcome = RayTarget(RaySetup("cluster", fake.address)).run(
            "{}", PATIENT, 2, tmp_path, lambda _: None, lambda: False
        )
    assert outcome.reason == "the job ended without a result (failed): Ray's own words"
    assert not bundle.result.exists()


def test_more_ranks_than_the_owner_allows_and_unsafe_addresses_are_refused(tmp_path: Path) -> None:
    def run(target: RayTarget) -> None:
        target.run("{}", PATIENT, 2, tmp_path, lambda _: None, lambda: False)

    with pytest.raises(InvalidProblem, match="needs 2 ranks; target cluster takes at most 1"):
        run(RayTarget(RaySetup("cluster", "http://127.0.0.1:1", max_ranks=1)))
    with pytest.raises(RunError, match="needs a token"):
        run(RayTarget(RaySetup("cluster", "https://head.example.org:8265")))
    assert TOKEN not in repr(RayTarget(RaySetup("cluster", "https://head.example.org:8265"), TOKEN))
