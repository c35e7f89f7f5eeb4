"""Ctrl-C and SIGTERM end the search, not the command: the best plan so far is printed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from explorer.__main__ import ENDED, WORDS
from explorer.cli.terminal.progress import ProgressLine, stop_on_interrupt
from solvers.plan.result import Progress
from solvers.planners.baselines import SingleDevice
from solvers.planners.registry import PLANNERS
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from tests.explorer.cli.command import Command

ROOT = Path(__file__).parents[4]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_flag_and_the_second_ends(number: int) -> None:
    before = signal.getsignal(number)
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_the_progress_line_is_for_terminals_only() -> None:
    piped, terminal = io.StringIO(), Terminal()
    for stream in (piped, terminal):
        line = ProgressLine(stream)
        line(Progress(1.0, 2e-3, 1e-3), None)
        line.clear()
    assert piped.getvalue() == ""
    assert "best 2 ms  bound 1 ms  gap 50 %" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")


@dataclass(frozen=True)
class Endless:
    """Offers one plan, then somebody sends a signal, then it searches until it is stopped."""

    name: ClassVar[str] = "endless"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"
    number: ClassVar[int] = signal.SIGINT

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        SingleDevice()(problem, monitor)
        os.kill(os.getpid(), self.number)
        while True:
            monitor.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_prints_and_writes_the_best_plan_so_far(
    command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    monkeypatch.setattr(Endless, "number", number)
    ran = command("plan", model, "--planner", "endless", "--json", "-o", tmp_path / "plan.json")
    assert (ran.status, ran.json["stop_reason"]) == (0, "CANCELLED")
    assert len(ran.json["placement"]) == 4
    assert command("check", tmp_path / "plan.json").status == 0


@pytest.mark.parametrize("being_imported", ["explorer.cli", "explorer.cli.compare", "solvers.planners.registry"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_imported_is_one_line(being_imported: str, number: int) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    begin, name = scripts["placement-explorer"].split(":")
    code = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background is deaf to it
class Impatient:
    def find_spec(self, name, *_):
        if name == {being_imported!r}:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Impatient())
from {begin} import {name}
sys.exit({name}(["planners"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (ENDED, f"{WORDS}\n")
