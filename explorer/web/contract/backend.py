"""What the page asks of the machinery that traces and solves. The web process never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from explorer.jobs.requests import Request
from explorer.view.events import Event
from explorer.view.run_events import PastRun


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that can be chosen: name is what a worker is asked for."""

    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlannerEntry:
    """A planner that can be chosen, with what it promises, where it is published and what it is for."""

    name: str
    guarantee: str
    source: str = ""
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class KindEntry:
    """A device kind and the memory it comes with."""

    name: str
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """Where plans can be run: a name that the server's owner gave, and what it is. Never an address."""

    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """A cluster that has a name; title: what it is; devices: its accelerators; memory_bytes: of the largest."""

    name: str
    title: str
    devices: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What there is to choose from. The first of each is the default."""

    models: tuple[ModelEntry, ...]
    planners: tuple[PlannerEntry, ...]
    kinds: tuple[KindEntry, ...]
    targets: tuple[TargetEntry, ...] = ()
    clusters: tuple[ClusterEntry, ...] = ()
    profiles: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    """Measured profiles and operator times that are saved, by name."""


class Backend(Protocol):
    """Starts jobs elsewhere and reports on them."""

    def catalogue(self) -> Catalogue: ...

    def start(self, request: Request, on_event: Callable[[Event], None], visitor: str = "") -> str:
        """Begin a job; returns its id. Visitors whose questions wait are served in turn.

        on_event may be called from any thread, with the events of `explorer.view.events`: any number of ``waiting``
        until the job begins, then those of its kind, of which exactly one, the last, is among `events.LAST`. After
        `cancel` returns, a search has half a second to report what it has; a run ends once its processes have.
        """
        ...

    def expect_file(self) -> None:
        """Somebody is choosing a file: what reads it is started now."""
        ...

    def past_runs(self, model: str) -> list[PastRun]:
        """The runs of a model that are kept, the newest first."""
        ...

    def may_run(self, model: str) -> bool:
        """Whether this model can be run: a demo, or code of the server's owner, who named it."""
        ...

    def cancel(self, job: str) -> None:
        """Ask a job to stop; an id that is done or unknown is ignored."""
        ...

    def close(self) -> None:
        """Stop all jobs and workers."""
        ...
