"""Jobs of a page: each begins with a turn, and its events come back under that."""

from __future__ import annotations

from collections.abc import Callable

from explorer.jobs.requests import Request
from explorer.view import events
from explorer.view.events import LAST, Event, before_you
from explorer.web.state.page_state import RUNS, Job, Listener, PageState

MOST_BESIDE = 8
"""Jobs about plans that one page may have waiting."""


def start(page: PageState, request: Request, listener: Listener, turn: int = 0, beside: bool = False) -> int:
    """Begin a job; returns its turn. What the visitor may not ask fails in a line.

    turn: a new one, if it is not given. beside: see `Job`.
    """
    turn = turn or next(page.turns)
    job = page.jobs[turn] = Job(listener, beside=beside)
    deliver = page.deliver
    if why := page.may_ask(request):
        deliver(turn, events.failed(why))
    else:
        job.id = page.server.backend.start(request, lambda event: deliver(turn, event), page.visitor)
    return turn


def start_beside(
    page: PageState, request: Request, listener: Listener, waits: Callable[[str], None] | None = None
) -> int:
    """Begin a job about plans, beside the search; returns its turn, 0 if too many wait already.

    waits: gets how many jobs come before this one, in words.
    """
    if sum(job.beside for job in page.jobs.values()) >= MOST_BESIDE:
        return 0

    def pass_on(event: Event) -> None:
        if event["kind"] == "waiting" and waits is not None:
            waits(before_you(event))
        elif event["kind"] not in ("waiting", "loading", "compiling"):
            listener(event)

    return start(page, request, pass_on, beside=True)


def cancel(page: PageState, turn: int) -> None:
    """Ask a job to end; what it still finds is passed on."""
    job = page.jobs.get(turn)
    if job is not None and job.id is not None:
        page.server.backend.cancel(job.id)


def drop(page: PageState, turn: int) -> None:
    """End a job whose events nobody wants any more."""
    cancel(page, turn)
    page.jobs.pop(turn, None)


def on_event(page: PageState, turn: int, event: Event) -> None:
    """Pass on an event of the job of ``turn``; those of dropped jobs are ignored."""
    job = page.jobs.get(turn)
    if job is None:
        return
    if event["kind"] in LAST and turn != RUNS:
        del page.jobs[turn]
    job.listener(event)
