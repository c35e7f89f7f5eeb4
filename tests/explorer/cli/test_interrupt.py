"""Ctrl-C ends the search, not the command: the best plan so far is printed."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from explorer.cli.terminal.progress import ProgressLine, stop_on_interrupt
from solvers.plan.result import Progress
from solvers.planners.baselines import SingleDevice
from solvers.planners.registry import PLANNERS
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from tests.explorer.cli.command import Command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_first_interrupt_sets_the_flag_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


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
    """Offers one plan, then somebody presses Ctrl-C, then it searches until it is stopped."""

    name: ClassVar[str] = "endless"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        SingleDevice()(problem, monitor)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            monitor.check()


def test_ctrl_c_prints_the_best_plan_so_far(command: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    ran = command("plan", model, "--planner", "endless", "--json")
    assert (ran.status, ran.json["stop_reason"]) == (0, "CANCELLED")
    assert len(ran.json["placement"]) == 4
