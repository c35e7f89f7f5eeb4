"""A bundle holds all that is needed to run a plan again, no secret, and nobody else's files are removed."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from explorer.runner.bundles import bundle as bundles
from explorer.runner.bundles.bundle import (
    MARKER,
    Bundle,
    command_line,
    finish_bundle,
    new_folder,
    prune,
    read_about,
    read_bundle,
    read_result,
    write_bundle,
)
from explorer.runner.bundles.history import UNFINISHED, find_run, past_runs
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.places import state_folder
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


def test_the_script_is_one_torchrun_command_for_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run with a torchrun that tells its arguments, in a folder whose name a shell would take apart."""
    root = tmp_path / "a b; touch $HOME"
    root.mkdir()
    tool = tmp_path / "bin" / "torchrun"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$OMP_NUM_THREADS" "$@"\n')
    tool.chmod(0o700)
    monkeypatch.setattr(bundles.sys, "executable", str(tool.with_name("python")))
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    made = make(root, "run")
    told = subprocess.run([str(made.script)], capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()
    options = [
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        "29511",
        "--nproc-per-node",
        "2",
        "-m",
        "explorer.runner.rank",
        str(made.folder),
    ]
    assert told == [str(tmp_path), "2", *options]
    assert shlex.split(command_line(made.folder, 2, 2)) == ["OMP_NUM_THREADS=2", "torchrun", *options]


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
    assert prune(tmp_path, kept=2) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "e"]


def test_the_end_of_a_run_in_the_default_place_removes_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path))
    monkeypatch.setattr(bundles, "KEPT", 2)
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
    assert prune(root, kept=0) == 1
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
