"""A job as the side that asks for it sees it, and the worker that does it."""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field

from explorer.jobs.held_plans import KEPT
from explorer.jobs.requests import KIND_OF
from explorer.jobs.workers.listeners import Listeners, OnEvent
from solvers.programs.processes.pool import Task, WorkerHandle

BRIEF, LONG = ({kind.name for kind in KIND_OF.values() if getattr(kind, what)} for what in ("brief", "long"))
FIRST, IMPROVING, LATER = 1, 2, 3
"""Ranks of searches: a plan that somebody waits for, a better one than the first, and what is found out beside it.
Brief jobs have rank 0."""


@dataclass(eq=False)
class Job(Task):
    """kind: a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asked."""

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
    plans: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))

    def ends(self) -> bool:
        """Whether it will be free in a moment."""
        return self.task is not None and (self.task.cancelled or self.task.ended)
