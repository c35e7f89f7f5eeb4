"""A bundle holds all that is needed to run a plan again, no secret, and nobody else's files are removed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.runner.bundles import bundle as bundles
from explorer.runner.bundles import free_port, reproduce
from explorer.runner.bundles.bundle import (
    MARKER,
    Bundle,
    finish_bundle,
    new_folder,
    prune,
    read_about,
    read_bundle,
    read_result,
    state_folder,
    write_bundle,
)
from explorer.runner.bundles.history import UNFINISHED, find_run, past_runs
from explorer.runner.bundles.outcome import Agreement, Outcome, RunStatus, judged
from explorer.runner.bundles.reproduce import command_line
from explorer.runner.bundles.request import Backend, RunRequest
from solvers.errors import InvalidProblem, RunError
from tests.explorer.runner.two_ranks import two_rank_text

REQUEST = RunRequest(steps=3, threads=2, backend=Backend.CPU)


def make(root: Path, name: str, outcome: Outcome | None = None) -> Bundle:
    made = write_bundle(root / name, two_rank_text(), REQUEST, "local", predicted_s=8.0)
    if outcome is not None:
        finish_bundle(made, outcome)
    return made


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    made = make(tmp_path, "run")
    assert read_bundle(made.folder) == (two_rank_text(), REQUEST)
    about = read_about(made.folder)
    assert (about.model, about.target, about.ranks, about.predicted_s) == ("gpt", "local", 2, 8.0)
    assert made.folder.stat().st_mode & 0o077 == 0


def started(script: Path, python: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "PYTHON": str(python), **variables}
    return subprocess.run(["sh", str(script)], capture_output=True, text=True, env=environ, cwd="/")


@pytest.fixture
def carried(tmp_path: Path) -> tuple[Path, Path]:
    """A bundle that was moved to a folder whose name a shell would take apart, and an interpreter that reports what it
    is started with."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\nprintf "%s\\n" "$PWD" "$OMP_NUM_THREADS" "$@"\n')
    python.chmod(0o700)
    folder = tmp_path / "a b; touch $HOME"
    make(tmp_path, "run").folder.rename(folder)
    return folder, python


def test_a_bundle_can_be_carried_elsewhere_and_names_no_place_of_this_machine(
    carried: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, python = carried
    for part in ("run.sh", "run.env", "requirements.txt"):
        message = (folder / part).read_text()
        assert not {str(tmp_path), sys.prefix, os.getcwd(), str(Path.home())} & set(re.findall(r"/[^\s\"']+", message))
        assert str(tmp_path) not in message
    message = started(folder / "run.sh", python).stdout.splitlines()
    words = ["/", "", "-m", "explorer.runner.start.contract"]
    words += ["/", "", "-m", "explorer.runner.bundles.free_port", "127.0.0.1", "29511"]
    options = ["--nnodes", "1", "--node-rank", "0", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    options += ["--master-port", "29511", "-m", "explorer.runner.rank", str(folder)]
    assert message == [*words, "/", "2", "-m", "torch.distributed.run", *options]


def test_the_script_runs_a_part_of_the_ranks_on_each_of_several_hosts(carried: tuple[Path, Path]) -> None:
    folder, python = carried
    output = started(
        folder / "run.sh", python, NNODES="2", NODE_RANK="1", MASTER_ADDR="head", MASTER_PORT="2", MODEL_DIR="/tmp"
    ).stdout.splitlines()
    assert "explorer.runner.bundles.free_port" not in output  # the first host asks that
    assert output[4:6] == ["/tmp", "2"]
    assert output[8:18] == [
        "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "1", "--master-addr", "head", "--master-port", "2",
    ]  # fmt: skip


def test_the_script_says_what_is_missing_in_a_line(carried: tuple[Path, Path], tmp_path: Path) -> None:
    folder, python = carried
    refused = started(folder / "run.sh", python, NNODES="3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "the plan has 2 ranks, but NNODES=3 times RANKS_PER_NODE=0" in refused.stderr
    other_python = tmp_path / "bare"
    other_python.write_text("#!/bin/sh\nexit 1\n")
    other_python.chmod(0o700)
    refused = started(folder / "run.sh", other_python)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{other_python} has no placement-explorer with torch: install what requirements.txt names" in refused.stderr


def test_what_came_of_it_is_reported_in_a_line() -> None:
    right = Agreement(0.0, 2e-8, 1e-9, "w", "float32")
    done = Outcome(RunStatus.DONE, iterations_s=(0.2, 0.1, 0.3), losses=(2.5, 2.0), agreement=right)
    assert reproduce.summary(done) == (
        "done; 200 ms an iteration (median of 3); loss 2.5, at last 2; agrees with the whole model (relative"
        " differences up to 2.0e-08); all of it in result.json"
    )
    wrong = judged(replace(done, agreement=replace(right, gradient=0.3)))
    assert "failed; " in reproduce.summary(wrong)
    assert "it differs from the whole model, relative: gradients by 3.0e-01" in reproduce.summary(wrong)


def test_a_port_that_somebody_has_is_reported_with_one_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        shown = free_port.trouble("127.0.0.1", taken)
        other = re.fullmatch(
            rf"port {taken} of 127.0.0.1 is in use: set MASTER_PORT to another one, such as (\d+)", shown
        )
        assert other is not None
        assert free_port.trouble("127.0.0.1", other[1]) == ""
    assert "MASTER_PORT: expected a number" in free_port.trouble("127.0.0.1", "0")
    assert "no host is called" in free_port.trouble("no host", "29511")
    assert free_port.main(["127.0.0.1", "x"]) == 2


def test_the_command_says_which_interpreter_unless_it_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce.sys, "executable", "/there/python 3")
    assert command_line(Path("/a b")) == "PYTHON='/there/python 3' sh '/a b/run.sh'"


def test_a_model_with_a_strange_name_cannot_add_a_line_to_the_script(tmp_path: Path) -> None:
    text = two_rank_text("gpt\ntouch /tmp/owned\r\u2028#")
    made = write_bundle(tmp_path / "run", text, REQUEST, "local\ntouch x")
    lines = made.script.read_text().split("\n")
    assert [line for line in lines if "touch" in line and not line.startswith("#")] == []
    assert sum(line.startswith("exec ") for line in lines) == 1


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        write_bundle(tmp_path, two_rank_text(), REQUEST, "local")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_what_is_no_plan_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem):
        write_bundle(tmp_path / "run", "{}", REQUEST, "local")
    assert not (tmp_path / "run").exists()


def test_folders_are_named_by_time_and_model_below_the_place_of_runs(tmp_path: Path) -> None:
    place = new_folder("../../etc/my model.pt2", {"PLACEMENT_EXPLORER_HOME": str(tmp_path)})
    assert place.parent == tmp_path / "runs"
    assert place.name.split("Z-")[1].rsplit("-", 1)[0] == "my-model-pt2"
    assert new_folder("gpt").name != new_folder("gpt").name
    assert state_folder({"XDG_STATE_HOME": "/state"}) == Path("/state/placement-explorer")


def test_of_many_runs_the_newest_are_kept(tmp_path: Path) -> None:
    for name in "abcde":
        make(tmp_path, name, Outcome(RunStatus.DONE, iterations_s=(1.0,)))
    assert prune(tmp_path, most=2) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "e"]


def test_the_end_of_a_run_in_the_default_place_removes_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path))
    monkeypatch.setattr(bundles, "MOST_RUNS", 2)
    for name in "abc":
        make(tmp_path / "runs", name, Outcome(RunStatus.DONE))
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["b", "c"]


def test_only_what_a_run_wrote_is_removed(tmp_path: Path) -> None:
    """Of ten old folders: one without our mark, one with a false mark, one with a note, one with a folder, one
    with a link, and one that is a link."""
    outside = tmp_path / "outside"
    elsewhere = make(outside, "run")
    root = tmp_path / "runs"
    for name in ("note", "folder", "link", "old"):
        make(root, name)
    (root / "note" / "notes.txt").write_text("mine")
    for name in ("result.json", "run.sh", "failure-12.json"):  # being written when the power went
        (root / "old" / f"{name}.0123abcd.part").write_text("{")
    (root / "folder" / "log.txt").mkdir()
    (root / "link" / "log.txt").symlink_to(elsewhere.plan)
    (root / "whole").symlink_to(elsewhere.folder)
    (root / "plain").mkdir()
    (root / "plain" / "plan.json").write_text("mine")
    (root / "false").mkdir()
    (root / "false" / MARKER).write_text("{}")
    before = sorted(path.name for path in root.iterdir())
    assert prune(root, most=0) == 1
    assert sorted(path.name for path in root.iterdir()) == [name for name in before if name != "old"]
    assert elsewhere.plan.is_file()


def test_the_history_lists_runs_newest_first_with_how_they_ended(tmp_path: Path) -> None:
    make(tmp_path, "1", Outcome(RunStatus.DONE, iterations_s=(3.0, 1.0, 2.0)))
    make(tmp_path, "2", Outcome(RunStatus.FAILED, "rank 1 was killed", 1))
    make(tmp_path, "3")
    runs = past_runs(tmp_path)
    assert [(run.id, run.status, run.iteration_s) for run in runs] == [
        ("3", UNFINISHED, None),
        ("2", "failed", None),
        ("1", "done", 2.0),
    ]
    assert {(run.model, run.target, run.ranks, run.predicted_s) for run in runs} == {("gpt", "local", 2, 8.0)}
    assert [run.id for run in past_runs(tmp_path, limit=1)] == ["3"]
    assert find_run("1", tmp_path).reason == ""
    assert read_result(Bundle(tmp_path / "1")).iterations_s == (3.0, 1.0, 2.0)


def test_damaged_folders_do_not_spoil_the_history(tmp_path: Path) -> None:
    make(tmp_path, "1", Outcome(RunStatus.DONE, iterations_s=(1.0,)))
    make(tmp_path, "2").marker.write_text('{"format"')
    make(tmp_path, "3").summary.write_text("[]")
    (tmp_path / "4").mkdir()
    assert [(run.id, run.status) for run in past_runs(tmp_path)] == [("3", UNFINISHED), ("1", "done")]
    assert past_runs(tmp_path / "none") == []


@pytest.mark.parametrize("identifier", ["../runs/1", "/etc", "", ".", "2"])
def test_an_id_is_a_name_and_never_a_path(identifier: str, tmp_path: Path) -> None:
    make(tmp_path / "runs", "1")
    with pytest.raises(InvalidProblem, match="no run"):
        find_run(identifier, tmp_path / "runs")
