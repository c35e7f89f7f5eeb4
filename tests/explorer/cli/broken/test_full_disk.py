"""On a full disk a command says which file it could not write and while doing what, and what was there is there."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from explorer import files
from tests.explorer.cli.command import SEEN, Command

LIMITED = """
import json, resource, sys
from explorer.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
for line in json.loads(sys.argv[2]):
    print(main(line), file=sys.stderr)
"""
OLD = b"valid, and worth something\n"


def test_the_old_files_survive(model: Path, plan_file: Path, tmp_path: Path) -> None:
    """The kernel lets no file grow beyond 256 bytes: the commands find out in the middle of writing."""
    before = plan_file.read_bytes()
    graph, trace = tmp_path / "graph.json", tmp_path / "trace.json"
    graph.write_bytes(OLD)
    lines = [
        ["plan", str(model), "-o", str(plan_file)],
        ["trace", str(model), "-o", str(graph)],
        ["simulate", str(plan_file), "--chrome-trace", str(trace)],
    ]
    listed = sorted(path.name for path in tmp_path.iterdir())
    environ = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    script = [sys.executable, "-c", LIMITED, "256", json.dumps(lines)]
    ran = subprocess.run(script, capture_output=True, text=True, check=False, env=environ)
    why = "file too large"
    assert ran.stderr.splitlines() == [
        f"{SEEN}could not write {plan_file} while saving the plan: {why}; the file there is as it was",
        "2",
        f"{SEEN}could not write {graph} while saving the graph: {why}; the file there is as it was",
        "2",
        f"{SEEN}could not write {trace} while saving the schedule as a trace: {why}; no file was made",
        "2",
    ]
    assert plan_file.read_bytes() == before
    assert graph.read_bytes() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == listed


def test_the_report_is_printed_all_the_same(
    command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    ran = command("plan", model, "-o", tmp_path / "new.json")
    assert ran.status == 2
    assert "max-load" in ran.out
    assert "written" not in ran.out
    path = shlex.quote(str(tmp_path / "new.json"))
    assert ran.err == f"{SEEN}could not write {path} while saving the plan: no space left on device; no file was made\n"


def test_a_special_file_takes_a_plan(command: Command, model: Path) -> None:
    assert command("plan", model, "-o", "/dev/null").status == 0
