"""Workers that do tasks: which begins what is its owner's to decide; what happens to them is decided here."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

from solvers.programs.processes.process import ChildProcess
from solvers.programs.processes.spec import ProcessSpec

MOST_TRIES = 2
"""How often a task that never began is given to a worker."""
FAILED_STARTS = 8
"""Workers in a row that end while they start, after which tasks that wait are given up, unless another worker can do
them."""
PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
"""Before the next start after a failed one: doubled with each in a row."""
END_S = 5.0
"""How long the end of a worker that was killed is waited for."""
WORKED, MOST_PATIENCE = 0.5, 3.0
"""A worker that got less than this share of its time to heed a cancel has up to so many times as long."""


@dataclass(eq=False)
class Task:
    """Something that one worker does at a time."""

    identifier: int | str
    _: KW_ONLY
    worker: WorkerHandle[Any] | None = None
    """That it was given to."""
    tries: int = 0
    begun: bool = False
    """True once the worker sent something of it."""
    compiling: bool = False
    """True while the worker compiles kernels for it, which nothing can interrupt."""
    cancelled: bool = False
    why: str = ""
    """Why it is ended from here, for people."""
    steps: int = 0
    """How often it showed that it gets on."""
    step_s: float = 0.0
    """When it did so last, as of time.monotonic."""
    timer: threading.Timer | None = None
    """Of its deadline."""

    def step(self) -> None:
        self.step_s = time.monotonic()


TaskT = TypeVar("TaskT", bound=Task)


@dataclass(eq=False)
class WorkerHandle(Generic[TaskT]):
    """A worker. ready: whether it can begin at once; task: what it is at."""

    process: ChildProcess = field(init=False)
    ready: bool = False
    task: TaskT | None = None

    def free(self) -> bool:
        return self.ready and self.task is None


HandleT = TypeVar("HandleT", bound=WorkerHandle[Any])


class WorkerPool(ABC, Generic[TaskT, HandleT]):
    """Workers of one kind. What its subclasses add is called under ``lock``, unless it says otherwise."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.workers: list[HandleT] = []
        self.lock = threading.RLock()
        self.failed_starts = 0
        self.closed = False
        self._pausing = False

    # -- what a kind of pool decides

    @abstractmethod
    def next(self) -> tuple[TaskT, HandleT] | None:
        """A task whose turn it is, taken from those that wait, and the worker to do it; None if none can begin."""

    @abstractmethod
    def missing(self) -> HandleT | None:
        """A worker that is worth starting now, of which there is no process yet; None where there are enough."""

    @abstractmethod
    def payload(self, task: TaskT, worker: HandleT) -> object:
        """What the worker is sent of a task."""

    @abstractmethod
    def wait_again(self, task: TaskT) -> None:
        """A task that was never begun, for its worker is gone, is the next to be taken."""

    @abstractmethod
    def forget(self, task: TaskT) -> None:
        """It is over."""

    @abstractmethod
    def failed(self, task: TaskT, why: str) -> None:
        """Its worker has ended in the middle of it, or none can be started. why: how, with the exit code. Not called
        under the lock."""

    @abstractmethod
    def received(self, worker: HandleT, kind: str, *content: object) -> None:
        """A message of a worker; not called under the lock."""

    def again(self, task: TaskT) -> bool:
        """Whether what a worker is done with waits for another turn."""
        return False

    def finished(self, task: TaskT) -> None:
        """It is over, and was forgotten; not called under the lock."""

    def lost(self, worker: HandleT) -> None:
        """A worker has ended."""

    def give_up(self) -> list[TaskT]:
        """No worker can be started: the tasks that fail for it, taken from those that wait."""
        return []

    def may_retry(self, task: TaskT) -> bool:
        """Whether a task whose worker has ended is given to another one."""
        return not (task.begun or task.cancelled) and task.tries < MOST_TRIES

    def allowed_s(self, task: TaskT) -> float | None:
        """Seconds until the task must show that it gets on; None for as long as it likes."""
        return None

    def too_long(self, task: TaskT, seconds: float) -> str:
        """Why a task is ended at its deadline, for people."""
        return ""

    def changed(self) -> None:
        """Tasks were taken, or workers came or went; not called under the lock."""

    def describe_end(self, worker: HandleT, exit_code: int | None) -> str:
        """How a worker has ended, in a line."""
        how = "unexpectedly" if worker.ready else f"{self.failed_starts} times in a row while it started"
        return f"ended {how} (exit code {exit_code})"

    # -- what is done with workers

    def serve(self) -> None:
        """Give tasks that wait to workers, and start workers that are missing. Under the lock."""
        if self.closed:
            return
        while True:
            while (begins := self.next()) is not None:
                self._give(*begins)
            worker = None if self._pausing else self.missing()
            if worker is None:
                return
            self._start(worker)

    def cancel_running(self, task: TaskT, worker: WorkerHandle[Any], *, kill: bool = True) -> None:
        """Let the worker know, and end it if it does not heed that. Under the lock."""
        task.cancelled = True
        worker.process.send(("cancel", task.identifier))
        if kill:
            self._kill_later(task, worker, (time.monotonic(), worker.process.cpu_s()))

    def stepped(self, task: TaskT, worker: HandleT) -> None:
        """The task showed that it gets on: its deadline begins again. Under the lock."""
        task.steps += 1
        task.step()
        self._watch(task, worker)

    def stop_workers(self) -> None:
        """End all of them: tasks that run are neither failed nor given to others."""
        with self.lock:
            self.closed = True
            for worker in self.workers:
                _forget(worker.task and worker.task.timer)
            processes = [worker.process for worker in self.workers]
            self.workers.clear()
        for process in processes:
            process.disconnect()
        for process in processes:
            process.wait(self.spec.end_s)
            process.kill()
        for process in processes:
            process.wait(END_S)

    # -- what becomes of them

    def _give(self, task: TaskT, worker: HandleT) -> None:
        task.worker, worker.task = worker, task
        task.tries, task.begun, task.compiling, task.steps = task.tries + 1, False, False, 0
        task.step()
        worker.process.send(("start", task.identifier, self.payload(task, worker)))
        self._watch(task, worker)

    def _start(self, worker: HandleT) -> None:
        worker.process = ChildProcess(
            self.spec, lambda message: self._message(worker, *message), lambda process: self._lost(worker, process)
        )
        self.workers.append(worker)

    def _message(self, worker: HandleT, kind: str, *content: object) -> None:
        match kind:
            case "ready":
                with self.lock:
                    worker.ready, self.failed_starts = True, 0
                    self.serve()
                self.changed()
            case "over":
                with self.lock:
                    task = self._let_go(worker)
                    over = task is not None and not self.again(task)
                    if task is not None and over:
                        self.forget(task)
                    self.serve()
                if task is not None and over:
                    self.finished(task)
                self.changed()
            case "compiling":
                identifier, kernel, _ = content
                with self.lock:
                    if (task := worker.task) is not None:
                        task.compiling = kernel != ""
                        task.begun = task.begun or task.identifier == identifier
                        task.step()
                self.received(worker, kind, *content)
            case _:
                self.received(worker, kind, *content)

    def _lost(self, worker: HandleT, process: ChildProcess) -> None:
        """A worker is gone: another may do its task, or the task fails."""
        with self.lock:
            if self.closed:
                return
            self.workers.remove(worker)
            self.lost(worker)
            task = self._let_go(worker)
            failed = [] if worker.ready else self._failed_start()
            why = self.describe_end(worker, process.exit_code)
            if task is not None and self.may_retry(task):
                self.wait_again(task)
            elif task is not None:
                failed.append(task)
            for one in failed:
                self.forget(one)
            self.serve()
        for one in failed:
            self.failed(one, why)
        self.changed()

    def _failed_start(self) -> list[TaskT]:
        """A worker ended before it could begin: the next is started after a pause. Returns the tasks that are given up,
        after too many in a row."""
        self.failed_starts += 1
        self._pausing = True
        pause_s = PAUSE_S * 2.0 ** min(self.failed_starts - 1, FAILED_STARTS)
        _after(min(LONGEST_PAUSE_S, pause_s), self._start_again)
        return [] if self.failed_starts < FAILED_STARTS else self.give_up()

    def _start_again(self) -> None:
        with self.lock:
            self._pausing = False
            self.serve()

    def _let_go(self, worker: HandleT) -> TaskT | None:
        """The worker does it no longer."""
        task: TaskT | None
        task, worker.task = worker.task, None
        if task is not None:
            task.worker = None
            _forget(task.timer)
        return task

    def _watch(self, task: TaskT, worker: HandleT) -> None:
        _forget(task.timer)
        seconds = self.allowed_s(task)
        if seconds is not None:
            left_s = max(0.0, task.step_s + seconds - time.monotonic())
            task.timer = _after(left_s, lambda: self._enforce_deadline(task, worker))

    def _enforce_deadline(self, task: TaskT, worker: HandleT) -> None:
        """End a task that takes too long, unless it has shown that it gets on."""
        with self.lock:
            seconds = self.allowed_s(task)
            if worker.task is not task or seconds is None:
                return
            if task.compiling:
                task.step()
            if task.step_s + seconds > time.monotonic():
                self._watch(task, worker)
                return
            task.why = task.why or self.too_long(task, seconds)
            self.cancel_running(task, worker)

    def _kill_later(self, task: TaskT, worker: WorkerHandle[Any], since: tuple[float, float]) -> None:
        """since: when the task was cancelled, as of time.monotonic, and the worker's seconds of work then."""
        _after(self.spec.heed_s, lambda: self._kill(task, worker, since))

    def _kill(self, task: TaskT, worker: WorkerHandle[Any], since: tuple[float, float]) -> None:
        """End the worker of a task that does not heed its cancel, if it still is at that.

        What it compiles heeds nothing until it is done; the next task would have to compile the same. One that others
        keep from the processor, on a busy machine, is given more time; one that has processes of its own works in
        these."""
        with self.lock:
            if worker.task is not task:
                return
            heed_s = self.spec.heed_s
            starved = not self.spec.end_s and worker.process.cpu_s() - since[1] < heed_s * WORKED
            if task.compiling:
                self._kill_later(task, worker, (time.monotonic(), worker.process.cpu_s()))
            elif starved and time.monotonic() - since[0] < heed_s * MOST_PATIENCE:
                self._kill_later(task, worker, since)
            else:
                worker.process.kill()


def _after(seconds: float, act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def _forget(timer: threading.Timer | None) -> None:
    if timer is not None:
        timer.cancel()
