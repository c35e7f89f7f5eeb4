"""What other processes do with a library in the tests: they are forked from one that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from explorer.library.answer import read_answer, write_answer
from explorer.library.cached_solver import CachedSolver
from explorer.library.library import Library
from tests.explorer.library.questions import answer, chain, search_question

NOBODY = 65534
PATIENCE_S = 240.0
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload([__name__])
QUESTION = search_question()
with tempfile.TemporaryDirectory() as folder, CachedSolver(Path(folder) / "plans.sqlite") as solver:
    solver(chain(), "equal")
RESULT = read_answer(write_answer(QUESTION, answer(QUESTION), QUESTION.hash).encode(), QUESTION)
"""Made when this is imported: kernels, sources and packages are read by then, for all that are forked."""


class Child:
    """A process that does ``work(pipe, *given)``, and what it says."""

    def __init__(self, work: Callable[..., None], *given: object) -> None:
        self.pipe, child_end = forks.Pipe()
        self.process = forks.Process(target=work, args=(child_end, *given), daemon=True)
        self.process.start()
        child_end.close()

    def messages(self) -> list[object]:
        """All that it says until it ends."""
        messages = []
        try:
            while True:
                messages.append(self.pipe.recv())
        except EOFError:
            self.process.join()
            return messages

    def kill(self) -> list[object]:
        """-9; what it had said."""
        os.kill(self.process.pid or 0, signal.SIGKILL)
        return self.messages()


def keep_on(pipe: Connection, path: Path, first: int) -> None:
    """Keep one answer after the other, and say so after each, however long others write: SQLite has no queue."""
    from explorer.library import layout

    layout.BUSY_S = PATIENCE_S
    with Library(path) as library:
        for seed in range(first, first + 100_000):
            library.store(search_question(seed=seed), RESULT, "m" * 5000)
            pipe.send(seed)


def make_and_die(pipe: Connection, path: Path, stop: int) -> None:
    """Make a file, and be killed after so many statements."""
    from explorer.library import layout

    before = layout._make

    class Counting:
        def __init__(self, inner: object) -> None:
            self.inner, self.count = inner, 0

        def execute(self, *given: object) -> object:
            self.count += 1
            if self.count > stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return self.inner.execute(*given)  # type: ignore[attr-defined]

    layout._make = lambda path, connection: before(path, Counting(connection))  # type: ignore[arg-type]
    layout.opened(path)
    pipe.send("made")


def ask_with_little_room(pipe: Connection, path: Path, limit: int) -> None:
    """Ask where no file grows beyond ``limit`` bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    _send_answers(pipe, path)


def ask_as_nobody(pipe: Connection, path: Path) -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    _send_answers(pipe, path)


def _send_answers(pipe: Connection, path: Path) -> None:
    with CachedSolver(path, report=lambda line: pipe.send(("said", line))) as solver:
        for seconds in (1.0, 2.0):
            result = solver(chain(seconds), "equal")
            pipe.send(("plan", result.objective_s, result.notes[-1:]))
