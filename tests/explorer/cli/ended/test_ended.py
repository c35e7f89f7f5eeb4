"""Ctrl-C and SIGTERM end a command in the midst of anything: with a line, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from explorer.__main__ import ENDED, WORDS
from explorer.cli.launching import ENDED as ENDED_RUN
from tests.browser.fakes.ports import free_port
from tests.explorer.cli.command import Command

ROOT = Path(__file__).parents[4]
HERE = b"here\n"
IN_PYTHON = "while True: pass"
NATIVE = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
"""Minutes in which no code of Python's runs, so that no handler of a signal does."""
TERM, INT = signal.SIGTERM, signal.SIGINT
LOAD, BOUND = "explorer.question.loading.load", "solvers.planners.solve.lower_bound_s"


def signalled(function: str, stretch: str, number: int, *args: object) -> tuple[int, str, str]:
    """A command that is sent a signal once it is in ``function``, which never returns: exit status, stdout, stderr."""
    module, name = function.rsplit(".", 1)
    code = f"""
import importlib, os, sys
def endless(*_, **__):
    os.write(2, {HERE!r})
    {stretch}
setattr(importlib.import_module({module!r}), {name!r}, endless)
from explorer.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == HERE
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("function", "stretch", "number", "args"),
    [
        (LOAD, NATIVE, TERM, ("trace", "gpt-small")),
        (LOAD, IN_PYTHON, TERM, ("compare", "MODEL", "--no-library")),
        (BOUND, NATIVE, INT, ("plan", "MODEL", "--no-library")),
        ("explorer.exports.formats.export", NATIVE, TERM, ("export", "PLAN", "--to", "plan", "-o", "OUT")),
        ("solvers.planners.check.verify", IN_PYTHON, INT, ("check", "PLAN")),
        ("explorer.jobs.comparison.compare", NATIVE, TERM, ("compare", "MODEL", "--no-library")),
        ("explorer.sweeps.sweep.cell_rows", NATIVE, INT, ("sweep", "MODEL", "--devices", "1,2", "--no-library")),
    ],
)
def test_a_signal_ends_a_command_wherever_it_is(
    model: Path, plan_file: Path, tmp_path: Path, function: str, stretch: str, number: int, args: tuple[str, ...]
) -> None:
    there = {"MODEL": model, "PLAN": plan_file, "OUT": tmp_path / "out.json"}
    before = set(tmp_path.iterdir())
    assert signalled(function, stretch, number, *(there.get(arg, arg) for arg in args)) == (ENDED, "", f"{WORDS}\n")
    assert set(tmp_path.iterdir()) == before


def test_a_search_that_never_asks_whether_to_stop_ends_with_the_best_plan_so_far(
    command: Command, model: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "best.json"
    status, out, err = signalled(BOUND, IN_PYTHON, TERM, "plan", model, "--no-library", "-o", saved)
    assert (status, err) == (0, "")
    assert "(cancelled)" in out
    assert command("check", saved).status == 0


def test_a_run_that_is_ended_has_the_same_status() -> None:
    assert ENDED_RUN == ENDED


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_stops_the_page_and_takes_the_files_of_visitors_away(tmp_path: Path, number: int) -> None:
    port = free_port()
    app = [sys.executable, "-m", "explorer", "app", "--port", port, "--no-browser", "--no-library", "--workers", "1"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(list(map(str, app)), cwd=ROOT, env=environ, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert f":{port}/" in line, line or process.stderr.read()
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            page.read()
        (shelf,) = tmp_path.glob("placement-explorer-*")
        (shelf / "uploaded.json").write_text("{}")
        process.send_signal(number)
        _, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "placement-explorer: stopped\n")
    assert not list(tmp_path.iterdir())
