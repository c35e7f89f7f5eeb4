"""The one run of a server at a time, which every page sees and can end; it outlives the page that began it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from explorer.jobs.requests import ReplanRequest, RunPlanRequest
from explorer.view.events import LAST, Event
from explorer.view.run_events import running
from explorer.web.contract.backend import Backend
from solvers.errors import InvalidProblem

LINES = 200
"""Lines of the log that are kept to be looked at."""
TEXTS = 4
"""Packed plan files kept, so that a plan that ran or was made with measured costs can run again."""


@dataclass
class Going:
    """The run that goes on. what: "run" or "replan". began: as of `time.monotonic`."""

    what: str
    held: str
    target: str
    title: str
    began: float = field(default_factory=time.monotonic)
    phase: str = ""
    done: int = 0
    of: int = 0
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    stopping: bool = False
    job: str | None = None


class Runs:
    """Shared by all pages. Listeners are called from any thread, after the state has changed."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.going: Going | None = None
        self._listeners: dict[int, Callable[[Event], None]] = {}
        self._texts: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.RLock()
        self._next = 0

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """From now on, tell of every event of every run; returns how to end that."""
        with self._lock:
            self._next += 1
            key = self._next
            self._listeners[key] = listener
        return lambda: self._forget(key)

    def begin(self, request: RunPlanRequest | ReplanRequest, title: str) -> None:
        """Raises InvalidProblem while another run goes on. title: what runs, for people."""
        with self._lock:
            if self.going is not None:
                raise InvalidProblem(
                    f"one run at a time: {self.going.title} is still running on {self.going.target}; wait for it or"
                    " cancel it"
                )
            what = "replan" if isinstance(request, ReplanRequest) else "run"
            going = self.going = Going(what, request.held, request.target, title, phase="starting")
            self.store(request.held, request.text)
        try:
            going.job = self.backend.start(request, lambda event: self._on_event(going, event))
        except BaseException:
            self.going = None
            raise
        self._notify(running(going.phase, going.done, going.of, ()))

    def cancel(self) -> None:
        """Ask the run to end; it says so when it has."""
        going = self.going
        if going is not None and going.job is not None and not going.stopping:
            going.stopping = True
            self.backend.cancel(going.job)
            self._notify(running(going.phase, going.done, going.of, ()))

    def store(self, held: str, text: bytes) -> None:
        with self._lock:
            self._texts[held] = text
            self._texts.move_to_end(held)
            while len(self._texts) > TEXTS:
                self._texts.popitem(last=False)

    def text(self, held: str) -> bytes | None:
        """The packed file of a plan, if it is known here."""
        return self._texts.get(held)

    def _on_event(self, going: Going, event: Event) -> None:
        with self._lock:
            if going is not self.going:
                return
            if event["kind"] == "running":
                going.phase, going.done, going.of = event["phase"], event["done"], event["of"]
                going.lines.extend(event["lines"])
            elif event["kind"] in LAST:
                self.going = None
                if event["kind"] == "replanned" and event["text"]:
                    self.store(event["held"], event["text"])
        self._notify(event if event["kind"] != "failed" else {**event, "lines": list(going.lines)})

    def _notify(self, event: Event) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(event)

    def _forget(self, key: int) -> None:
        with self._lock:
            self._listeners.pop(key, None)
