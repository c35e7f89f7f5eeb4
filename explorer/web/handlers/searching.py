"""Searches: a question is asked, its answer comes step by step; and comparisons of all planners on it."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from explorer.jobs.requests import SolveRequest
from explorer.library.answer import is_known
from explorer.view.events import Event, ProgressEvent, ResultEvent
from explorer.view.graph import search as search_steps
from explorer.view.session import Session, parse, to_query
from explorer.web.contract.messages import Plain, PlanRequest, Pressed
from explorer.web.handlers.answering import drop_search, show_known, show_model, show_result
from explorer.web.handlers.jobs import cancel, drop, start
from explorer.web.handlers.pairs import drop_pair, follow_pair, stop_pair
from explorer.web.handlers.pins import show_pin_cost
from explorer.web.handlers.runs import drop_check, drop_runnable
from explorer.web.handlers.status import banner, before_search, failed, show_status, stand, stand_as_before
from explorer.web.handlers.what_if import drop_what_if
from explorer.web.handlers.why_here import drop_why_here
from explorer.web.parts import panels
from explorer.web.redraw import drawing
from explorer.web.redraw.comparison import show_comparison
from explorer.web.redraw.picture import draw, rebound, show_pair
from explorer.web.state.page_state import PageState
from explorer.words import text

GONE = "this file is no longer on the server; choose it again"
DRAWN = ("objective_s", "placement", "stage_of", "pipeline", "spans", "span_s")
"""Of a plan: where these are equal, so are the pictures."""

log = logging.getLogger(__name__)


def solve(page: PageState, message: PlanRequest) -> None:
    """Ask for a plan of what the page asks."""
    search(page, _session_of(page, message), message.fresh)


def _session_of(page: PageState, message: PlanRequest) -> Session:
    """The session that a message brings, which is the page's from now on."""
    session = replace(parse(message.session, page.server.known()), look=page.look)
    if message.canvas is not None:
        page.canvas = (message.canvas[0], message.canvas[1])
    before = page.session
    if before is not None and before.model != session.model:
        page.selected = None
    if before is not None and _subject(before) != _subject(session):
        page.shown = None  # figures of another model, or of training where this is inference, mean nothing
    page.session, page.theme = session, session.theme
    page.search_began = time.perf_counter()
    return session


def _subject(session: Session) -> tuple[str, bool]:
    """What is planned: figures of one subject compare."""
    return session.model, session.settings.training is not False


def search(page: PageState, session: Session, fresh: bool, repeated: bool = False) -> None:
    """Ask for a plan, in place of whatever else the page waits for. fresh: even if an answer is cached."""
    drop_search(page)
    stop_comparing(page)  # it would keep this question waiting
    drop_check(page)
    drop_pair(page)
    drop_what_if(page)
    drop_why_here(page)
    if page.comparing.rows:
        show_comparison(page)
    page.earlier = page.shown
    page.cancelling, page.repeated, page.planned, page.searched = False, repeated, None, session
    drop_runnable(page)
    page.send({"type": "taking", "can": False, "why": "A search goes on: export when it ends."})
    page.steps = []
    page.send(drawing.search_message([], True, 0.0))
    show_status(page, "waiting", "waiting", "for the solver", query=to_query(session), elapsed_s=0.0, new_question=True)
    if not fresh and _answer_again(page, session):
        return
    request = SolveRequest(
        page.server.model_of(session),
        session.settings,
        session.planner,
        session.time_limit_s,
        session.seed,
        session.effort,
        page.server.files_of(session),
        page.held if page.held.startswith("plan-") else "",
        fresh,
    )
    start(page, request, lambda event: _on_search(page, event), page.turn)
    if session.look.pair:
        show_pair(page)


def _answer_again(page: PageState, session: Session) -> bool:
    """Whether the question was answered before, on whichever page: then nobody is asked."""
    known = page.server.answers.get(session)
    if known is None:
        return False
    event, model = known
    show_model(page, page.server.graph(model))
    _finish(page, event, again=True)
    return True


def cancel_all(page: PageState, _: Plain) -> None:
    """Whatever goes on for the page's question shall end, with what it has."""
    page.cancelling = page.cancelling or page.searching
    cancel(page, page.turn)
    stop_comparing(page)
    stop_pair(page)


def _on_search(page: PageState, event: Event) -> None:
    if before_search(page, event):
        return
    match event["kind"]:
        case "model":
            page.planned, page.steps = event, []
            show_model(page, page.server.graph(event))
            show_status(page, "solving", page.session.planner if page.session else "", "…", elapsed_s=0.0)
        case "progress":
            _on_progress(page, event)
        case "result":
            if page.searched is not None and page.planned is not None and page.fits(event["plan"]):
                page.server.answers.store(page.searched, event, page.planned)
            _finish(page, event, again=is_known(event["notes"]))
        case "failed" if page.cancelling:
            stand(page, "cancelled", "cancelled", "before there was a plan")
        case "failed":
            gone = page.searched is not None and page.server.lacks_files_of(page.searched)
            failed(page, GONE if gone else event["message"])


def _finish(page: PageState, event: ResultEvent, again: bool) -> None:
    if page.fits(event["plan"]):
        show_result(page, event, again=again)
        if event["plan"] is not None:
            show_pin_cost(page)
            follow_pair(page)
    else:
        _contradicted(page)


def _contradicted(page: PageState) -> None:
    """The plan that came is of another graph than the one on the page: nothing of it is drawn."""
    log.error("a plan of another graph came than the one of its question")
    words = "the plan that came was of another graph and was left out"
    if page.repeated or page.session is None:
        drop_search(page)
        failed(page, f"{words}, twice; please report it")
        return
    banner(page, panels.planned_again(words))
    search(page, page.session, fresh=True, repeated=True)


def _on_progress(page: PageState, event: ProgressEvent) -> None:
    plan = event["plan"]
    if not page.fits(plan):
        _contradicted(page)
        return
    page.steps = search_steps.evenly([*page.steps, *event["steps"]])
    before = page.plan if page.answered is None and page.drawn is page.session else None
    if plan is not None and (before is None or any(before.get(key) != plan.get(key) for key in DRAWN)):
        page.plan, page.drawn, page.answered = plan, page.session, None
        draw(page, "incumbent")
    elif before is not None:
        rebound(page, event["bound_s"])
    page.send(drawing.search_message(page.steps, True, event["elapsed_s"]))
    bits = []
    if event["objective_s"]:
        gap = 1 - event["bound_s"] / event["objective_s"]
        bits += [text.seconds(event["objective_s"]), f"gap {text.percent(max(0.0, gap))}"]
    elif event["bound_s"]:
        bits.append(f"bound {text.seconds(event['bound_s'])}")
    planner = page.session.planner if page.session else ""
    show_status(page, "solving", planner, " · ".join(bits), elapsed_s=event["elapsed_s"])


# -- all planners -----------------------------------------------------------------------------------


def compare(page: PageState, message: PlanRequest) -> None:
    """Run every planner on what the page asks; a search that goes on ends first."""
    session = _session_of(page, message)
    drop(page, page.comparing.turn)
    request = page.comparing.begin(session, message.every, next(page.turns))
    request = replace(request, model=page.server.model_of(session), files=page.server.files_of(session))
    start(page, request, lambda event: _on_comparison(page, event), page.comparing.turn)
    if not page.searching:
        show_status(page, "solving", "comparing", "…", query=to_query(session))
    show_comparison(page)


def stop_comparison(page: PageState, _: Plain) -> None:
    stop_comparing(page)


def stop_comparing(page: PageState) -> None:
    if page.goes_on(page.comparing.turn):
        page.comparing.stopping = True
        cancel(page, page.comparing.turn)
        show_comparison(page)


def show_row(page: PageState, message: Pressed) -> None:
    """Put the plan of a row on the page, as if its planner had been asked for it."""
    place = message.position(len(page.comparing.rows))
    if place is None or page.skeleton is None:
        return
    row = page.comparing.shown(place, page.session, page.skeleton["hash"])
    if row is not None:
        drop_search(page)
        show_known(page, *row)
        follow_pair(page)


def _on_comparison(page: PageState, event: Event) -> None:
    """While a search goes on, that has the status."""
    comparing = page.comparing
    match event["kind"]:
        case "model":
            comparing.model = event["hash"]
            if comparing.fits(page.session):
                show_model(page, page.server.graph(event))
        case "comparing":
            comparing.runs = event["runs"]
            if not page.searching:
                objective = event["objective_s"]
                bits = [event["planner"], text.seconds(event["elapsed_s"])]
                bits += [text.seconds(objective)] if objective else []
                what = f"comparing {event['position']} of {event['runs']}"
                show_status(page, "solving", what, " · ".join(bits))
        case "row":
            comparing.add(event)
            show_comparison(page)
        case "compared" | "failed":
            if event["kind"] == "compared":
                comparing.end(event)
            elif not comparing.stopping:
                failed(page, event["message"])
            show_comparison(page)
            if not page.searching and (event["kind"] == "compared" or comparing.stopping):
                stand_as_before(page)
        case _ if not page.searching:
            before_search(page, event)
