"""What is sent to a cluster and accepted from it, with a server that answers like one, or as badly as a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from explorer.question.problems import make_problem
from explorer.runner.targets.target_file import RaySetup
from explorer.sweeps.execution.cluster import Cluster, Interrupted
from explorer.sweeps.execution.job_text import answer_lines, code_hash, refusal_line
from explorer.sweeps.execution.pool import Here
from explorer.sweeps.execution.questions import Question, answer_text
from explorer.sweeps.execution.queue import Nothing
from explorer.sweeps.execution.ray_driver import main as driver
from explorer.sweeps.execution.solving import answer_to
from explorer.sweeps.sweep import cell_rows
from solvers.errors import RunError
from tests.explorer.cli.command import Command, workload, write
from tests.explorer.runner.targets.fake_ray import Answer, FakeRay, fake_ray, json_answer
from tests.explorer.sweeps.execution.remembered import BASE, LIMITS, Remembered, few
from tests.explorer.sweeps.execution.remembered import plain_rows as rows_of

QUESTIONS = few(("equal",))
COUNT = len(QUESTIONS)


def answer(position: int) -> list[str]:
    """The lines of an honest answer."""
    cell = QUESTIONS[position]
    question = Question(make_problem(cell.workload, cell.point.settings(BASE)), cell.planner, LIMITS)
    return answer_lines(position, answer_text(answer_to(question, None)))


@dataclass
class Jobs:
    """A cluster whose jobs say what ``logs`` holds for them, by the number in which they were submitted, and then are
    as ``status`` says. submitted: their names."""

    logs: list[list[str]]
    status: str = "SUCCEEDED"
    submitted: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    refuses: int = 0

    def __call__(self, method: str, path: str) -> Answer:
        if self.refuses:
            return Answer(self.refuses)
        name = path.split("/")[3] if path.startswith("/api/jobs/") else ""
        if path == "/api/version":
            return json_answer({"ray_version": "2.60"})
        if path.startswith("/api/packages"):
            return Answer(404) if method == "GET" else json_answer({})
        if method == "POST" and not name:
            self.submitted.append(json.loads(self.fake.bodies["POST /api/jobs/"])["submission_id"])
            return json_answer({})
        if name not in self.submitted:
            return Answer(404)
        number = self.submitted.index(name)
        if path.endswith("/stop"):
            self.stopped.append(name)
            return json_answer({})
        if path.endswith("/logs"):
            return json_answer({"logs": "".join(f"{line}\n" for line in self.logs[number])})
        return json_answer({"status": "STOPPED" if name in self.stopped else self.status, "message": "as it is"})

    fake: FakeRay = field(init=False)


@contextmanager
def served(logs: list[list[str]], status: str = "SUCCEEDED", **more: Any) -> Iterator[tuple[Jobs, Cluster]]:
    jobs = Jobs(logs, status, **more)
    with fake_ray(jobs) as jobs.fake:
        setup = RaySetup("here", jobs.fake.address, installed=True)
        yield jobs, Cluster(setup, owner="me", patience_s=0.5, poll_s=0.05)


def sent_to(cluster: Cluster, library: Any = None, **more: Any) -> list[dict[str, Any]]:
    return rows_of(cell_rows(QUESTIONS, BASE, LIMITS, cluster, library or Nothing(), **more))


EXPECTED = rows_of(cell_rows(QUESTIONS, BASE, LIMITS, Here(), Nothing()))


def test_answers_are_rows_in_whatever_order_they_come() -> None:
    with served([[*answer(2), "a warning", *answer(0), *answer(3), *answer(1)]]) as (jobs, cluster):
        assert sent_to(cluster) == EXPECTED
    (name,) = jobs.submitted
    submitted = json.loads(jobs.fake.bodies["POST /api/jobs/"])
    assert submitted["entrypoint"].endswith(f"--most 0 --code {code_hash()}")
    assert list(submitted["runtime_env"]) == ["working_dir", "env_vars"]  # what is installed is not sent
    assert jobs.stopped == []
    assert name.startswith("placement-explorer-sweep-")


def test_a_job_that_was_left_behind_goes_on_and_only_the_rest_is_sent() -> None:
    with served([[*answer(1), *answer(2)], [*answer(0), *answer(3)]], "RUNNING") as (jobs, cluster):
        rows = cell_rows(QUESTIONS, BASE, LIMITS, cluster, Nothing())
        assert next(rows)[0] == 1
        rows.close()  # whoever asked is gone
        assert jobs.stopped == jobs.submitted
        jobs.status = "SUCCEEDED"
        library = Remembered()
        assert sent_to(cluster, library) == EXPECTED
        assert len(library.stored) == COUNT
        assert len(jobs.submitted) == 2
        # another one's jobs are left alone, and so are those of a question that is not resumed
        jobs.logs += [[line for i in range(COUNT) for line in answer(i)]] * 2
        for other in (Cluster(cluster.setup, owner="you"), Cluster(cluster.setup, owner="me", resume=False)):
            assert sent_to(other) == EXPECTED
        assert len(set(jobs.submitted)) == 4


def test_who_stops_ends_the_job_and_keeps_what_came() -> None:
    with served([answer(1)], "RUNNING") as (jobs, cluster):
        seen: list[int] = []
        library = Remembered()
        rows = dict(cell_rows(QUESTIONS, BASE, LIMITS, cluster, library, should_stop=lambda: bool(seen),
                              on_course=lambda course: seen.extend([1] * course.done)))  # fmt: skip
    assert list(rows) == [1]
    assert (jobs.stopped, len(library.stored)) == (jobs.submitted, 1)


@pytest.mark.parametrize(
    ("logs", "status", "kind", "words"),
    [
        ([refusal_line("there is no room")], "FAILED", RunError, "without all answers: there is no room"),
        (["Traceback", "No module named 'explorer'"], "FAILED", RunError, "No module named 'explorer'"),
        ([], "FAILED", RunError, "its last words: as it is"),
        (answer(0), "SUCCEEDED", Interrupted, "ended without all answers"),
        (answer(0), "STOPPED", Interrupted, "somebody stopped it"),
        (answer_lines(99, "{}"), "RUNNING", RunError, "answers what nobody asked (position 99)"),
    ],
)
def test_a_job_that_gives_up_is_reported_in_one_line(logs: list[str], status: str, kind: type, words: str) -> None:
    with served([logs], status) as (_, cluster), pytest.raises(RunError) as ended:
        sent_to(cluster)
    assert type(ended.value) is kind
    assert words in str(ended.value)
    assert "\n" not in str(ended.value)


def test_an_answer_that_is_none_is_a_row_that_says_so() -> None:
    lies = answer_lines(0, '{"status":"FEASIBLE","reason":""}')
    with served([[*lies, *answer(1), *answer(2), *answer(3)]]) as (_, cluster):
        rows = sent_to(cluster)
    assert [row["status"] for row in rows] == ["FAILED", *["FEASIBLE"] * 3]
    assert rows[0]["reason"].startswith("the cluster's answer cannot be used: answer:")


def test_a_cluster_that_vanishes_leaves_what_came() -> None:
    library = Remembered()
    with served([answer(0)], "RUNNING") as (jobs, cluster):
        rows = cell_rows(QUESTIONS, BASE, LIMITS, cluster, library)
        assert next(rows)[0] == 0
        jobs.refuses = 503
        with pytest.raises(Interrupted, match="the cluster vanished"):
            next(rows)
    assert len(library.stored) == 1


def test_the_driver_refuses_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver(["--most", "0", "--code", "0123456789abcdef"]) == 1
    line = capsys.readouterr().out
    assert line.startswith('@refusal {"reason":"the cluster\'s packages are of another version, ')
    assert "(code 01234567)" in line


def test_bad_targets_are_refused_and_the_rest_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, file, targets = Command(capsys), write(tmp_path, workload(maxCPUs=0)), tmp_path / "targets.toml"
    arguments = ("sweep", file, "--devices", "1,2", "--planner", "equal", "--targets", targets)
    with served([]) as (jobs, cluster):
        targets.write_text(f'[here]\nkind = "ray"\naddress = "{cluster.setup.address}"\ntoken_env = "A_TOKEN"\n')
        assert "no target 'there'" in command.refused(*arguments, "--on", "there")
        assert "the environment variable A_TOKEN holds no token" in command.refused(*arguments, "--on", "here")
        monkeypatch.setenv("A_TOKEN", "not-the-right-one")
        jobs.refuses = 403
        refusal = command.refused(*arguments, "--on", "here")
        assert "does not accept this token (HTTP 403)" in refusal
        assert "not-the-right-one" not in refusal
    assert "connection refused" in command.refused(*arguments, "--on", "here")
    targets.write_text('[two]\nkind = "local"\n')
    assert command(*arguments, "--on", "two", "--workers", 1).status == 0  # as --on local
