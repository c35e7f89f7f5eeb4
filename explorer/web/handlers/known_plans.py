"""Plans that are known already, put on the page by a button: one beside an answer, one found for a change, that of a
run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from explorer.jobs.requests import LeanRequest, PlanSource, ShowRunRequest
from explorer.view.events import Event, ResultEvent, unpacked_plan
from explorer.view.plan_types import PlanView, RunView
from explorer.view.session import parse, to_dict
from explorer.web.contract import ids
from explorer.web.contract.messages import Pressed
from explorer.web.handlers.answering import show_known, show_other, show_result
from explorer.web.handlers.jobs import drop, start, start_beside
from explorer.web.handlers.lessons import follow_run
from explorer.web.handlers.pairs import follow_pair
from explorer.web.handlers.runs import NOTHING, past_runs, show_progress, show_run
from explorer.web.handlers.status import announce
from explorer.web.handlers.what_if import drop_what_if
from explorer.web.handlers.why_here import drop_why_here
from explorer.web.parts import run_panel
from explorer.web.redraw.picture import draw, lean_plans
from explorer.web.state.page_state import PageState
from solvers.search.effort import Effort

if TYPE_CHECKING:
    from explorer.jobs.answers import LeanPlan


def show_lean(page: PageState, message: Pressed) -> None:
    """A plan beside the answer on the page, in place of the picture only; or the answer again."""
    if page.lean is None or page.searching:
        return
    answer = page.lean[0]
    if message.element == "answer":
        _lay(page, answer, answer, None)
        return
    shown, turn = answer["plan"], page.turn
    place = message.position(len(shown["front"])) if shown is not None else None
    if shown is None or place is None:
        return
    held = shown["held"]

    def show(event: Event) -> None:
        if page.turn != turn:
            return
        if event["kind"] == "failed":
            page.send({"type": "props", "props": {ids.BESIDE: {"children": lean_plans(page, event["message"])}}})
            return
        if event["kind"] == "done":
            plan: PlanView = {**cast("LeanPlan", event["answer"])["plan"], "beside": held}
            _lay(page, answer, {**answer, "plan": plan, "status": "FEASIBLE"}, place)

    start_beside(page, LeanRequest(PlanSource(held=held), place), show)


def _lay(page: PageState, answer: ResultEvent, event: ResultEvent, place: int | None) -> None:
    """A plan of the answer's search on the page."""
    page.turn = next(page.turns)
    page.earlier = page.shown
    page.lean = answer, place
    show_result(page, event)
    follow_pair(page)


def show_changed(page: PageState, message: Pressed) -> None:
    """Put the plan that was found for a change on the page, and the change into its controls."""
    place = message.position(len(page.changes.answers))
    one = page.changes.answers[place] if place is not None else None
    if one is None or one["answer"] is None or page.session is None:
        return
    session = parse({**to_dict(page.session), **one["controls"]}, page.server.known())
    drop(page, page.turn)
    drop_what_if(page)
    drop_why_here(page)
    page.turn = next(page.turns)
    answer: ResultEvent = {**unpacked_plan(one["answer"]), "searched": f"{Effort.QUICK.value} search"}
    show_known(page, replace(session, look=page.look), answer, one["controls"])
    follow_pair(page)


# -- runs -------------------------------------------------------------------------------------------


def show_past_run(page: PageState, message: Pressed) -> None:
    """A past run and its plan again."""
    bundle = message.element
    if any(run.bundle == bundle for run in past_runs(page)):
        drop(page, page.run.opening)
        page.run.opening = start(page, ShowRunRequest(bundle), lambda event: _on_past_run(page, event))


def show_with_plan(page: PageState, ended: RunView) -> None:
    """A run that has ended, wherever that was, on the plan that it was of."""
    _show_ended(page, ended)
    page.server.runs.store(ended["held"], ended["text"])
    show_other(page, ended, run=ended if ended["report"] is not None else None)


def _on_past_run(page: PageState, event: Event) -> None:
    if event["kind"] == "ran":
        show_with_plan(page, event["run"])
    elif event["kind"] == "failed":
        page.run.complaint = "This run cannot be shown.", event["message"], ()
    else:
        return
    show_run(page)


def on_running(page: PageState, event: Event) -> None:
    """An event of the server's one run, whichever page began it."""
    match event["kind"]:
        case "running":
            show_progress(page)
            return
        case "ran":
            _show_ended(page, event["run"])
            if event["run"] is page.ran:
                draw(page, "run")
            announce(page, run_panel.run_in_a_line(event["run"]))
        case "replanned":
            show_other(page, event)
            page.run.shown, page.run.replanned = None, event
            announce(page, run_panel.replanned_in_a_line(event))
        case "failed":
            page.run.complaint = NOTHING, event["message"], tuple(event.get("lines", ()))
            announce(page, f"Nothing was run: {event['message']}")
    show_run(page)


def _show_ended(page: PageState, ended: RunView) -> None:
    """A run that has ended, for the panel, and for the schedule if it was measured."""
    page.run.shown, page.run.replanned, page.run.complaint = ended, None, None
    if ended["report"] is not None and ended["held"] == page.held:
        page.run.laid = ended
        follow_run(page)
