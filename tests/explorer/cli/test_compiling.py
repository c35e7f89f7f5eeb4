"""The terminal says that kernels are compiled; on compilations of the test's own."""

from __future__ import annotations

import io

import pytest
from numba.core import event

from explorer.cli.terminal import progress
from explorer.cli.terminal.progress import COMPILING, report_compiling
from solvers.kernels.compiling import COMPILE, LOCK


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Kernel:
    """Stands for a dispatcher."""

    @staticmethod
    def py_func() -> None:
        return None


def compile_one() -> None:
    with event.trigger_event(LOCK), event.trigger_event(COMPILE, {"dispatcher": Kernel}):
        pass


def test_a_pipe_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "COMPILING_S", 0.0)
    stream = io.StringIO()
    with report_compiling(stream):
        compile_one()
        compile_one()
    assert stream.getvalue() == COMPILING + "\n"


def test_a_pipe_gets_further_lines_of_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with report_compiling(stream) as report:
        for seconds in (1.0, 4.0, 5.0, 6.0, 11.0):
            report("pipeline draft", seconds)
    assert stream.getvalue().splitlines() == [
        COMPILING,
        "compiling kernels, once: pipeline draft (5 s so far)",
        "compiling kernels, once: pipeline draft (11 s so far)",
    ]


def test_a_terminal_shows_which_and_how_long_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "COMPILING_S", 0.0)
    stream = Terminal()
    with report_compiling(stream):
        compile_one()
    output = stream.getvalue().split("\r")
    assert "compiling kernels, once: test compiling (0 s so far)" in output[1]
    assert output[2].strip() == output[3] == ""


def test_nothing_is_reported_where_nothing_is_compiled_or_it_takes_no_time() -> None:
    stream = Terminal()
    with report_compiling(stream):
        compile_one()
    assert COMPILING not in stream.getvalue()
