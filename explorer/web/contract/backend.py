"""What the page asks of the machinery that traces and solves. The web process never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from explorer.jobs.requests import (
    About,
    CompareRequest,
    PlaceRequest,
    PrepareRequest,
    ReadRequest,
    ReplanRequest,
    RunPlanRequest,
    ShowRunRequest,
    SolveRequest,
)
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
    """Starts solves and comparisons elsewhere and reports on them.

    on_event may be called from any thread. The events of a job are those of `explorer.view.events`:
    any number of ``waiting`` until it begins, then of ``loading``, one ``model``, any number of ``progress``
    (``comparing`` and ``row``), then exactly one ``result`` (``compared``) or ``failed``; after `cancel` returns, at
    most what was found so far within half a second.
    """

    def catalogue(self) -> Catalogue: ...

    def of(self, visitor: str) -> Backend:
        """The same for one visitor: those whose questions wait are served in turn."""
        ...

    def start(self, request: SolveRequest, on_event: Callable[[Event], None]) -> str:
        """Begin; returns the job's id."""
        ...

    def compare(self, request: CompareRequest, on_event: Callable[[Event], None]) -> str:
        """Begin a comparison; returns the job's id. It waits for first plans that others ask for."""
        ...

    def prepare(self, request: PrepareRequest, on_event: Callable[[Event], None]) -> str:
        """Begin to look at a plan before it runs; returns the job's id. It waits for no search, and
        ends with ``prepared`` or ``failed``."""
        ...

    def run(self, request: RunPlanRequest | ReplanRequest, on_event: Callable[[Event], None]) -> str:
        """Begin to run a plan, beside what is being solved; returns the job's id. Any number of ``running``,
        then ``ran`` (``replanned``) or ``failed``. A cancelled one ends once its processes have."""
        ...

    def show_run(self, request: ShowRunRequest, on_event: Callable[[Event], None]) -> str:
        """Begin to read a past run; returns the job's id. It ends with ``ran`` or ``failed``."""
        ...

    def expect_file(self) -> None:
        """Somebody is choosing a file: what reads it is started now."""
        ...

    def read(self, request: ReadRequest, on_event: Callable[[Event], None]) -> str:
        """Begin to look at a file that was handed in; returns the job's id. It ends with ``opened`` or ``failed``."""
        ...

    def place(self, request: PlaceRequest, on_event: Callable[[Event], None]) -> str:
        """Begin to judge a placement made by hand; returns the job's id. It ends with ``placed`` or ``failed``."""
        ...

    def about(self, request: About, on_event: Callable[[Event], None]) -> str:
        """Begin a job about plans that are there; returns its id. Those that end soon wait for no search. It ends with
        ``told`` or ``failed``."""
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
