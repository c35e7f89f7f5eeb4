"""A job as seen by the process that submits it, its listeners, and the worker that does it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field

from explorer.jobs.held_plans import MOST_PLANS
from explorer.jobs.requests import KIND_OF
from explorer.view import events
from explorer.view.events import Event, ProgressEvent
from solvers.programs.processes.pool import Task, WorkerHandle

BRIEF, LONG = ({kind.name for kind in KIND_OF.values() if getattr(kind, what)} for what in ("brief", "long"))
FIRST, IMPROVING, LATER = 1, 2, 3
"""Ranks of searches: a plan that somebody waits for, a better one than the first, and what is found out beside it.
Brief jobs have rank 0."""
OnEvent = Callable[[Event], None]
STATES = ("waiting", "loading", "compiling")
"""Kinds of event of which the last one counts, until there is a model or a step of the search."""

log = logging.getLogger(__name__)


def always() -> bool:
    return True


class Listeners:
    """Each hears one event after the other: exactly one of `events.LAST`, and nothing after it. Who comes later than
    others hears first of what there is: the model, the best plan so far, how the job stands.

    names: of those who have not left; whoever starts and cancels jobs sees to it, under a lock of its own. best: the
    last ``progress`` event with a plan.
    """

    def __init__(self, name: str, on_event: OnEvent) -> None:
        self.names = {name}
        self.best: ProgressEvent | None = None
        self._on_event = {name: on_event}
        self._model: Event | None = None
        self._state: Event | None = None
        self._gate = threading.RLock()

    def join(self, name: str, on_event: OnEvent) -> bool:
        """Let another hear of the job from now on; False if it has ended."""
        with self._gate:
            if not self._on_event:
                return False
            self._on_event[name] = on_event
            for event in (self._model, self.best, self._state):
                if event is not None:
                    self._send([name], event)
            return True

    def pass_on(self, event: Event, still: Callable[[], bool] = always) -> None:
        """To all of them. still: whether it is true by the time that it is reported."""
        with self._gate:
            if not still():
                return
            if event["kind"] in STATES:
                self._state = event
            elif event["kind"] == "model":
                self._model, self._state = event, None
            elif event["kind"] == "progress":
                self._state = None
                if event["plan"] is not None and self.best is not None and _is_worse(event, self.best):
                    event = {**event, "plan": None}
                if event["plan"] is not None:
                    self.best = event
            self._send(tuple(self._on_event), event)

    def end(self, name: str, event: Event) -> None:
        """The last event for one of them, who leaves."""
        with self._gate:
            self._send([name], event)

    def _send(self, names: Iterable[str], event: Event) -> None:
        """What goes wrong where it is heard is no reason not to hear the next."""
        for name in names:
            last = event["kind"] in events.LAST
            on_event = self._on_event.pop(name, None) if last else self._on_event.get(name)
            if on_event is None:
                continue
            try:
                on_event(event)
            except Exception:
                log.exception("an event could not be passed on")


def _is_worse(event: ProgressEvent, best: ProgressEvent) -> bool:
    """Of a search that begins again: what is drawn gets better only."""
    now_s, best_s = event["objective_s"], best["objective_s"]
    return now_s is not None and best_s is not None and now_s > best_s


@dataclass(eq=False)
class Job(Task):
    """kind: a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asked."""

    identifier: str
    kind: str
    request: object
    on_event: InitVar[OnEvent]
    visitor: str = ""
    listeners: Listeners = field(init=False)
    ended: bool = False
    """True once its last event has come."""
    first_only: bool = False
    """True while the worker is to end it with its first plan, since others have none yet."""
    improving: bool = False
    """True once that is there: it waits for a worker to search to the end."""
    passed: int = 0
    """How often another was taken before it out of turn, because it had the better rank."""
    waits: tuple[int, str] | None = None
    """How many come before it and what else keeps it waiting, as its listeners know it."""

    def __post_init__(self, on_event: OnEvent) -> None:
        self.listeners = Listeners(self.identifier, on_event)

    @property
    def brief(self) -> bool:
        return self.kind in BRIEF

    @property
    def long(self) -> bool:
        return self.kind in LONG


@dataclass(eq=False)
class JobWorker(WorkerHandle[Job]):
    """A worker process. brief_only: it is there for brief jobs. models: those it has traced or read. plans: names of
    those that it holds, as `explorer.jobs.held_plans` keeps them."""

    brief_only: bool = False
    models: set[str] = field(default_factory=set)
    plans: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_PLANS))

    def ends(self) -> bool:
        """Whether it will be free in a moment."""
        return self.task is not None and (self.task.cancelled or self.task.ended)
