"""Kinds of job for workers of tests, which load nothing and do as the request says; and a listener of a job."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from numba.core import event

from explorer.jobs.requests import Emit, Work
from explorer.jobs.workers.specs import WorkerSpec
from explorer.question.tracer import Stopped
from explorer.view import events
from solvers.kernels.compiling import COMPILE, LOCK

STEP_S = 0.01
WAIT_S = 120


@dataclass(frozen=True)
class Request:
    """seconds: how long it takes. parts: answers on the way."""

    name: str = ""
    seconds: float = 0.0
    model: str = ""
    time_limit_s: float = 0.0
    parts: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Search(Request):
    """A question like the page's. seconds: after the first plan."""

    before: str = ""
    first_only: bool = False


def busy(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Work that heeds a cancel; reports which process does it."""
    _begin(request, emit)
    for part in range(request.parts):
        _pass(request.seconds, should_stop)
        emit(events.part({"part": part}))
    _pass(request.seconds, should_stop)
    emit(events.done({"name": request.name, "by": os.getpid(), "stopped": should_stop()}))


def deaf(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Work that heeds nothing."""
    _begin(request, emit)
    _pass(request.seconds, lambda: False)
    emit(events.done({"name": request.name, "by": os.getpid()}))


def stuck(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """A search that has a plan, and then heeds nothing; one of `Search` heeds, and has a better plan and an answer."""
    _begin(request, emit)
    plan = {"planner": "auto", "notes": [], "objective_s": 2.0, "placement": [[0]]}
    step = {"kind": "progress", "elapsed_s": 0.5, "objective_s": 2.0, "bound_s": 1.0, "steps": [], "plan": plan}
    emit(step)
    if not isinstance(request, Search):
        _pass(request.seconds, lambda: False)
        return
    if request.first_only:
        raise Stopped
    _pass(request.seconds, should_stop)
    emit(step | {"objective_s": 1.0, "plan": plan | {"objective_s": 1.0}})
    emit(events.done({"name": request.name, "by": os.getpid(), "before": request.before, "stopped": should_stop()}))


def unheard(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Work that is never heard of, and heeds nothing."""
    _pass(request.seconds, lambda: False)


def hungry(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Work that needs memory."""
    _begin(request, emit)
    stored = bytearray(request.memory_bytes)
    emit(events.done({"name": request.name, "bytes": len(stored)}))


def dying(request: Request, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Work that ends its process."""
    _begin(request, emit)
    os._exit(7)


def _begin(request: Request, emit: Emit) -> None:
    emit(events.loading(f"at {request.name}"))
    if request.model:
        emit({"kind": "model", "hash": request.model, "skeleton": None})


def _pass(seconds: float, should_stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not should_stop():
        time.sleep(STEP_S)


def fake_kinds() -> Mapping[str, Work]:
    return {
        "ask": busy, "compare": busy, "help": busy, "review": busy, "place": deaf, "solve": stuck,
        "sweep": hungry, "export": dying, "unheard": unheard,
    }  # fmt: skip


def broken_kinds() -> Mapping[str, Work]:
    raise SystemExit(9)


def late_kinds() -> Mapping[str, Work]:
    """Ends the processes of as many workers as there are files in a folder, the next of which it removes."""
    left = list(Path(os.environ[STARTS]).iterdir())
    if left:
        left[0].unlink()
        raise SystemExit(9)
    return fake_kinds()


STARTS = "PLACEMENT_TEST_FAILED_STARTS"


class Kernel:
    """Stands for a dispatcher."""

    @staticmethod
    def py_func() -> None:
        return None


def compile_slowly() -> None:
    with event.trigger_event(LOCK), event.trigger_event(COMPILE, {"dispatcher": Kernel}):
        time.sleep(1.0)


def never_quick() -> bool:
    return False


LATER = WorkerSpec("pretending", fake_kinds, compile_slowly, never_quick, idle_s=0.3)
"""Its workers compile when they have been idle."""
FAKE = WorkerSpec("pretending", fake_kinds)
LATE = WorkerSpec("pretending", late_kinds)
BROKEN = WorkerSpec("pretending", broken_kinds)


class Events:
    """The events of one job, in order."""

    def __init__(self) -> None:
        self.queue: queue.Queue = queue.Queue()

    def __call__(self, event) -> None:
        self.queue.put(event)

    def until(self, *kinds):
        while True:
            event = self.queue.get(timeout=WAIT_S)
            if event["kind"] in kinds:
                return event

    def ended(self) -> bool:
        return any(event["kind"] in events.LAST for event in tuple(self.queue.queue))

    def end(self):
        """What came of it."""
        return self.until(*events.LAST)
