"""The embedded workers: processes of this machine, started as they are needed, that stay warm until the end."""

from __future__ import annotations

import queue
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from explorer.sweeps.execution.questions import (
    FAILED,
    Answer,
    GraphText,
    Question,
    graph_text,
    question_text,
    read_answer,
    start_text,
)
from explorer.sweeps.execution.solving import GRAPHS, answer_to, main
from explorer.sweeps.execution.workers import Returned
from solvers.errors import PlacementError
from solvers.plan.plan import Plan
from solvers.plan.result import Progress
from solvers.problem.graph import OpGraph
from solvers.programs.processes.pool import MOST_TRIES, Task, WorkerHandle, WorkerPool
from solvers.programs.processes.spec import ProcessSpec
from solvers.search.monitor import ignore, never

SPEC = ProcessSpec(main=main, name="placement-sweep", ignored=(signal.SIGINT, signal.SIGTERM))
"""Both signals go to all processes of a terminal or a batch system alike; they are whoever asked's to act on."""

OnCompiling = Callable[[str, float], None]


@dataclass(eq=False)
class Search(Task):
    """A question; identifier: its position."""

    identifier: int
    question: Question
    start: Plan | None
    text: str | None = None
    """Of the answer."""

    @property
    def graph(self) -> OpGraph:
        return self.question.problem.as_traced.graph


@dataclass(eq=False)
class GraphWorker(WorkerHandle[Search]):
    """sent: keys of the graphs that it has, as it keeps them: the one that was asked about last is the last."""

    sent: list[str] = field(default_factory=list)


class Pool(WorkerPool[Search, GraphWorker]):
    """At most ``count`` processes. on_compiling: the kernel that one of them compiles ("" when it is done), and the
    seconds of it so far. A process that ends in the middle of a question costs that question another try, once."""

    def __init__(self, count: int, on_compiling: OnCompiling = lambda *_: None) -> None:
        super().__init__(SPEC)
        self.count = count
        self.on_compiling = on_compiling
        self._waiting: deque[Search] = deque()
        self._done: queue.SimpleQueue[Returned | tuple[Search, str] | tuple[str, float]] = queue.SimpleQueue()
        self._graphs: dict[int, tuple[OpGraph, GraphText]] = {}
        self._unreturned = 0
        self._stopping = False

    def processes(self) -> list[int]:
        """Their numbers."""
        with self.lock:
            return [worker.process.pid for worker in self.workers]

    def free(self) -> bool:
        """A question counts until ``wait`` returns it, though its process may be idle before."""
        return self._unreturned < self.count

    def give(self, position: int, question: Question, start: Plan | None) -> None:
        self._unreturned += 1
        with self.lock:
            self._waiting.append(Search(position, question, start))
            self.serve()

    def wait(self, seconds: float) -> Sequence[Returned]:
        returned: list[Returned] = []
        try:
            item = self._done.get(timeout=seconds)
            while True:
                if isinstance(item, Returned):
                    returned.append(item)
                elif isinstance(item[0], Search):
                    returned.append(Returned(item[0].identifier, _read(str(item[1]), item[0].question)))
                else:
                    self.on_compiling(item[0], float(item[1]))
                item = self._done.get_nowait()
        except queue.Empty:
            self._unreturned -= len(returned)
            return returned

    def stop(self) -> None:
        with self.lock:
            self._stopping = True
            for worker in self.workers:
                if worker.task is not None:
                    self.cancel_running(worker.task, worker, kill=False)
            while self._waiting:
                self.finished(self._waiting.popleft())

    def close(self) -> None:
        self.stop_workers()

    def next(self) -> tuple[Search, GraphWorker] | None:
        """To one that is just starting, too: it begins as soon as it can."""
        idle = [worker for worker in self.workers if worker.task is None]
        if not idle or not self._waiting:
            return None
        search = self._waiting.popleft()
        key = self._graph(search.graph).key
        return search, next((worker for worker in idle if key in worker.sent), idle[0])

    def missing(self) -> GraphWorker | None:
        return GraphWorker() if self._waiting and len(self.workers) < self.count else None

    def payload(self, search: Search, worker: GraphWorker) -> tuple[str, str, str, str]:
        graph = self._graph(search.graph)
        text = "" if graph.key in worker.sent else graph.text
        worker.sent = [*(key for key in worker.sent if key != graph.key), graph.key][-GRAPHS:]
        return graph.key, text, question_text(search.question), start_text(search.start) if search.start else ""

    def received(self, worker: GraphWorker, kind: str, *content: object) -> None:
        if kind == "compiling":
            _, kernel, seconds = cast("tuple[str, str, float]", content)
            self._done.put((kernel, seconds))
        elif worker.task is not None:
            _, worker.task.text = cast("tuple[str, str]", content)

    def finished(self, search: Search) -> None:
        self._done.put(Returned(search.identifier, None) if search.text is None else (search, search.text))

    def may_retry(self, search: Search) -> bool:
        return search.tries < MOST_TRIES and not self._stopping

    def wait_again(self, search: Search) -> None:
        self._waiting.appendleft(search)

    def forget(self, search: Search) -> None:
        """It is in no list."""

    def failed(self, search: Search, why: str) -> None:
        answer = Answer(FAILED, reason=why) if search.tries >= MOST_TRIES else None
        self._done.put(Returned(search.identifier, answer))

    def describe_end(self, worker: GraphWorker, exit_code: int | None) -> str:
        return f"the process that searched ended unexpectedly (exit code {exit_code}), twice"

    def _graph(self, graph: OpGraph) -> GraphText:
        """Its text; made once for questions about one graph in a row."""
        known = self._graphs.get(id(graph))
        if known is None or known[0] is not graph:
            if len(self._graphs) >= GRAPHS:
                self._graphs.clear()
            known = self._graphs[id(graph)] = (graph, graph_text(graph))
        return known[1]


def _read(text: str, question: Question) -> Answer:
    try:
        return read_answer(text, question.problem, verified=True)
    except PlacementError as error:
        return Answer(FAILED, reason=str(error))


@dataclass(eq=False)
class Here:
    """This process itself: one question at a time, while it waits."""

    should_stop: Callable[[], bool] = never
    on_progress: Callable[[Progress, Plan | None], None] = ignore
    _search: Search | None = None

    def free(self) -> bool:
        return self._search is None

    def give(self, position: int, question: Question, start: Plan | None) -> None:
        self._search = Search(position, question, start)

    def wait(self, seconds: float) -> Sequence[Returned]:
        search, self._search = self._search, None
        if search is None:
            return []
        answer = answer_to(search.question, search.start, self.should_stop, self.on_progress)
        return [Returned(search.identifier, answer)]

    def stop(self) -> None:
        """It asks for itself."""

    def close(self) -> None:
        self._search = None
