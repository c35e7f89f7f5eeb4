"""The embedded workers: processes of this machine, started as they are needed, that stay warm until the end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from explorer.sweeps.asking import worker
from explorer.sweeps.asking.questions import (
    FAILED,
    Answer,
    GraphText,
    Question,
    graph_text,
    question_text,
    read_answer,
    start_text,
)
from explorer.sweeps.asking.solving import GRAPHS, answer_to
from explorer.sweeps.asking.workers import Told
from solvers.errors import PlacementError
from solvers.plan.plan import Plan
from solvers.plan.result import Progress
from solvers.problem.graph import OpGraph
from solvers.search.monitor import ignore, never

MOST_TRIES = 2
"""How often a question is asked whose process ended in the middle of it."""
END_S = 5.0

OnCompiling = Callable[[str, float], None]


@dataclass(eq=False)
class _Asked:
    position: int
    question: Question
    start: Plan | None
    tries: int = 0


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    sent: list[str] = field(default_factory=list)
    """Graphs that it has, as it keeps them: the one that was asked about last is the last."""
    at: _Asked | None = None


@dataclass(eq=False)
class Pool:
    """At most ``count`` processes. on_compiling: the kernel that one of them compiles ("" when it is done), and the
    seconds of it so far. A process that ends in the middle of a question costs that question another try, once."""

    count: int
    on_compiling: OnCompiling = lambda *_: None
    _workers: list[_Worker] = field(default_factory=list)
    _again: list[_Asked] = field(default_factory=list)
    _told: list[Told] = field(default_factory=list)
    _graphs: dict[int, tuple[OpGraph, GraphText]] = field(default_factory=dict)
    _stopping: bool = False

    def processes(self) -> list[int]:
        """Their numbers."""
        return [one.process.pid or 0 for one in self._workers]

    def free(self) -> bool:
        busy = sum(one.at is not None for one in self._workers)
        return not self._again and busy < self.count

    def give(self, position: int, question: Question, start: Plan | None) -> None:
        self._begin(_Asked(position, question, start))

    def wait(self, seconds: float) -> Sequence[Told]:
        ready = wait([one.connection for one in self._workers], seconds) if not self._told else []
        for one in [one for one in self._workers if one.connection in ready]:
            self._hear(one)
        while self._again and not self._stopping:
            self._begin(self._again.pop())
        self._told += [Told(asked.position, None) for asked in self._again]
        self._again.clear()
        told, self._told = self._told, []
        return told

    def stop(self) -> None:
        self._stopping = True
        for one in self._workers:
            with suppress(OSError):
                one.connection.send(("stop",))

    def close(self) -> None:
        for one in self._workers:
            one.connection.close()
            one.process.kill()
        for one in self._workers:
            one.process.join(END_S)
        self._workers.clear()

    def _begin(self, asked: _Asked) -> None:
        graph = self._graph(asked.question.problem.as_traced.graph)
        idle = [one for one in self._workers if one.at is None]
        has = [one for one in idle if graph.key in one.sent]
        one = next(iter(has or idle), None) or self._start()
        text = "" if graph.key in one.sent else graph.text
        one.sent = [*(key for key in one.sent if key != graph.key), graph.key][-GRAPHS:]
        one.at = asked
        asked.tries += 1
        start = "" if asked.start is None else start_text(asked.start)
        with suppress(OSError):  # one that is gone: found out when it is listened to
            one.connection.send(("ask", asked.position, graph.key, text, question_text(asked.question), start))

    def _graph(self, graph: OpGraph) -> GraphText:
        """Its text; made once for questions about one graph in a row."""
        known = self._graphs.get(id(graph))
        if known is None or known[0] is not graph:
            if len(self._graphs) >= GRAPHS:
                self._graphs.clear()
            known = self._graphs[id(graph)] = (graph, graph_text(graph))
        return known[1]

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=worker.main, args=(theirs,), name="placement-sweep", daemon=False)
        # until it says what it does with them; one that is sent to us meanwhile waits
        before = signal.pthread_sigmask(signal.SIG_BLOCK, worker.SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _hear(self, one: _Worker) -> None:
        try:
            message = one.connection.recv()
        except (EOFError, OSError):
            self._lost(one)
            return
        if message[0] == "compiling":
            self.on_compiling(message[1], message[2])
            return
        asked, one.at = one.at, None
        if asked is not None:
            self._told.append(Told(asked.position, self._read(message[2], asked)))

    def _read(self, text: str, asked: _Asked) -> Answer:
        try:
            return read_answer(text, asked.question.problem, verified=True)
        except PlacementError as error:
            return Answer(FAILED, reason=str(error))

    def _lost(self, one: _Worker) -> None:
        self._workers.remove(one)
        one.connection.close()
        one.process.join(END_S)
        asked = one.at
        if asked is None:
            return
        if asked.tries < MOST_TRIES:
            self._again.append(asked)
            return
        reason = f"the process that searched ended unexpectedly (exit code {one.process.exitcode}), twice"
        self._told.append(Told(asked.position, Answer(FAILED, reason=reason)))


@dataclass(eq=False)
class Here:
    """This process itself: one question at a time, while it waits."""

    should_stop: Callable[[], bool] = never
    on_progress: Callable[[Progress, Plan | None], None] = ignore
    _asked: _Asked | None = None

    def free(self) -> bool:
        return self._asked is None

    def give(self, position: int, question: Question, start: Plan | None) -> None:
        self._asked = _Asked(position, question, start)

    def wait(self, seconds: float) -> Sequence[Told]:
        asked, self._asked = self._asked, None
        if asked is None:
            return []
        return [Told(asked.position, answer_to(asked.question, asked.start, self.should_stop, self.on_progress))]

    def stop(self) -> None:
        """It asks for itself."""

    def close(self) -> None:
        self._asked = None
