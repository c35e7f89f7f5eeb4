"""One question after another in the worker, without ever holding up the program that asks.

What the worker reports arrives in a thread of its own. Where an event loop runs (a notebook's kernel), it is passed on
between two steps of that loop, so that nothing changes while a cell runs; without one it is passed on at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from traitlets import TraitError

from explorer.jobs.requests import AskRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.view.events import LAST, Event, failed
from solvers.errors import InvalidProblem, PlacementError
from solvers.plan.result import Result


class InvalidTrait(InvalidProblem, TraitError):
    """A value that makes no sense was assigned; the old one stays."""


class NoPlan(PlacementError):
    """The search ended without a plan. result: its outcome, with status and reason; None if it could not begin, or
    broke."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


@dataclass
class Search:
    """A question that was asked. over: done once its last event was passed on, or a newer question took its place."""

    job: str = ""
    over: Future[None] = field(default_factory=Future)

    def end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Solving:
    """on_event: gets what the worker reports of the newest question, and of no other. post(act): does something
    later, one after the other: a worker that is just starting, or busy, takes its time to accept a question."""

    def __init__(
        self, jobs: Callable[[], Jobs], on_event: Callable[[Event], None], post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._jobs = jobs
        self._post = post
        self._on_event = on_event
        self._loop = running_loop()
        self.newest: Search | None = None

    @property
    def busy(self) -> bool:
        return self.newest is not None and not self.newest.over.done()

    def submit(self, request: AskRequest) -> None:
        """Begin; a question that is still searched is cancelled."""
        self._loop = running_loop() or self._loop
        self.stop()
        search = Search()
        before, self.newest = self.newest, search
        if before is not None:
            before.end()
        self._post(lambda: self._start(search, request))

    def _start(self, search: Search, request: AskRequest) -> None:
        if search is not self.newest:  # another question took its place before it was sent
            return
        try:
            search.job = self._jobs().start("ask", request, lambda event: self._hear(search, event))
        except (RuntimeError, OSError) as error:
            self._hear(search, failed(f"the solving process could not be started: {error}"))

    def stop(self) -> None:
        """Ask the search to stop; its best plan still comes. Without one, nothing happens."""
        if self.busy and self.newest is not None:
            search = self.newest
            self._post(lambda: self._jobs().cancel(search.job) if search.job else None)

    def drop(self) -> None:
        """Stop, and hear no more of it."""
        self.stop()
        search, self.newest = self.newest, None
        if search is not None:
            search.end()

    def _hear(self, search: Search, event: Event) -> None:
        """In a thread of the worker's."""
        self.soon(lambda: self._pass_on(search, event))

    def soon(self, act: Callable[[], None]) -> None:
        """Do something between two steps of the program's event loop, from any thread; at once where none runs."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(act)
            except RuntimeError:  # that loop is closed
                self._loop = None
            else:
                return
        act()

    def _pass_on(self, search: Search, event: Event) -> None:
        if search is not self.newest:
            return
        try:
            self._on_event(event)
        finally:
            if event["kind"] in LAST:
                search.end()

    async def ended(self) -> None:
        """Once the newest question has its answer, or none is asked."""
        while self.newest is not None:
            search = self.newest
            await asyncio.shield(asyncio.wrap_future(search.over))
            if search is self.newest:
                return


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if it runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
