"""A job as the side that asks for it sees it, and the worker that does it."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections import deque
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from explorer.jobs.held_plans import KEPT
from explorer.jobs.workers import worker
from explorer.jobs.workers.kits import Kit
from explorer.jobs.workers.listeners import Listeners, OnEvent

BRIEF = frozenset({"prepare", "show-run", "export", "review", "lean", "differ", "hash", "why-here"})
"""Kinds of job that end by themselves soon: nothing is killed when they are cancelled, and they do not wait behind
searches."""
LONG = frozenset({"compare", "help", "sweep"})
"""Kinds of job that are many searches: they leave one worker to first plans, where there are several."""
FIRST, IMPROVING, LATER = 1, 2, 3
"""Ranks of searches: a plan that somebody waits for, a better one than the first, and what is found out beside it.
Brief jobs have rank 0."""


@dataclass(eq=False, slots=True)
class Job:
    """kind: a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asked."""

    identifier: str
    kind: str
    request: Any
    on_event: InitVar[OnEvent]
    visitor: str = ""
    listeners: Listeners = field(init=False)
    hand: Hand | None = None
    """The worker that it was given to."""
    tries: int = 0
    heard: bool = False
    """True once the worker told something of it: it has begun."""
    compiling: bool = False
    """True while the worker compiles kernels for it, which nothing can interrupt."""
    cancelled: bool = False
    why: str = ""
    """Why it is ended from here, for people."""
    ended: bool = False
    """True once its last event has come."""
    first_only: bool = False
    """True while the worker is to end it with its first plan, since others have none yet."""
    improving: bool = False
    """True once that is there: it waits for a worker to search to the end."""
    passed: int = 0
    """How often another was taken before it out of turn, because it had the better rank."""
    waits: tuple[int, str] | None = None
    """How many come before it and what else keeps it waiting, as it was told last."""
    signs: int = 0
    signed_s: float = 0.0
    """When it last showed that it gets on, as of time.monotonic, and how often it has."""
    alarm: int = 0
    """Its deadline's."""

    def __post_init__(self, on_event: OnEvent) -> None:
        self.listeners = Listeners(self.identifier, on_event)

    @property
    def brief(self) -> bool:
        return self.kind in BRIEF

    @property
    def long(self) -> bool:
        return self.kind in LONG


@dataclass(eq=False, slots=True)
class Hand:
    """A worker process. brief: it is there for brief jobs only. models: those it has traced or read. plans: names of
    those that it holds, as `explorer.jobs.held_plans` keeps them."""

    process: BaseProcess
    connection: Connection
    brief: bool = False
    ready: bool = False
    job: Job | None = None
    models: set[str] = field(default_factory=set)
    plans: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))

    def send(self, *message: object) -> None:
        with suppress(OSError):  # a worker that is gone: its reader sees to the job
            self.connection.send(message)

    def cpu_s(self) -> float:
        """Seconds of work of the process so far; infinite where the system does not say."""
        try:
            after_name = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return math.inf

    def free(self) -> bool:
        return self.ready and self.job is None

    def ends(self) -> bool:
        """Whether it will be free in a moment."""
        return self.job is not None and (self.job.cancelled or self.job.ended)


def new_hand(kit: Kit, brief: bool) -> Hand:
    """Start a worker."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=worker.main, args=(theirs, kit), name="placement-worker", daemon=True)
    process.start()
    theirs.close()
    return Hand(process, ours, brief)
