"""The backend as one visitor's pages see it: a question beyond what they may ask fails in a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from explorer.jobs.requests import (
    About,
    CompareRequest,
    HelpRequest,
    PlaceRequest,
    PrepareRequest,
    ReadRequest,
    ReplanRequest,
    RunPlanRequest,
    ShowRunRequest,
    SolveRequest,
    SweepRequest,
)
from explorer.view import events
from explorer.view.events import Event
from explorer.view.run_events import PastRun
from explorer.web.contract.backend import Backend, Catalogue
from explorer.web.serving.quotas import LOOK, MANY, Visitor

R = TypeVar("R")
OnEvent = Callable[[Event], None]
REFUSED = "refused"
"""The id of a job that never was."""


class Metered:
    """See `Backend`. What a page needs for itself (its catalogue, cancels, past runs) costs nothing."""

    def __init__(self, backend: Backend, visitor: Visitor) -> None:
        self.backend, self.visitor = backend, visitor

    def of(self, visitor: str) -> Metered:
        return Metered(self.backend.of(visitor), self.visitor)

    def start(self, request: SolveRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.start, request, on_event)

    def compare(self, request: CompareRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.compare, request, on_event, MANY)

    def prepare(self, request: PrepareRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.prepare, request, on_event, LOOK)

    def run(self, request: RunPlanRequest | ReplanRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.run, request, on_event, MANY)

    def show_run(self, request: ShowRunRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.show_run, request, on_event, LOOK)

    def read(self, request: ReadRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.read, request, on_event, LOOK)

    def place(self, request: PlaceRequest, on_event: OnEvent) -> str:
        return self._if_allowed(self.backend.place, request, on_event, LOOK)

    def about(self, request: About, on_event: OnEvent) -> str:
        worth = MANY if isinstance(request, HelpRequest | SweepRequest) else LOOK
        return self._if_allowed(self.backend.about, request, on_event, worth)

    def _if_allowed(self, begin: Callable[[R, OnEvent], str], request: R, on_event: OnEvent, worth: float = 1.0) -> str:
        if why := self.visitor.ask(worth):
            on_event(events.failed(why))
            return REFUSED
        return begin(request, on_event)

    def catalogue(self) -> Catalogue:
        return self.backend.catalogue()

    def expect_file(self) -> None:
        self.backend.expect_file()

    def past_runs(self, model: str) -> list[PastRun]:
        return self.backend.past_runs(model)

    def may_run(self, model: str) -> bool:
        return self.backend.may_run(model)

    def cancel(self, job: str) -> None:
        if job != REFUSED:
            self.backend.cancel(job)

    def close(self) -> None:
        self.backend.close()
