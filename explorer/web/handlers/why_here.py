"""Why what is selected is where it is: what it would cost at every other place."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from explorer.jobs.requests import WhyHereRequest
from explorer.view.events import Event
from explorer.web.contract.messages import Plain
from explorer.web.handlers.jobs import drop, start_beside
from explorer.web.parts import why_here_panel
from explorer.web.redraw.inspector import about_selected, inspect, selected_operators
from explorer.web.state.page_state import Elsewhere, PageState

if TYPE_CHECKING:
    from explorer.jobs.answers import MovePart, Places, Tried

QUICK_S = 0.3
"""An answer that took less is given for the next selection without being asked for."""


def why_here(page: PageState, _: Plain) -> None:
    """Try what is selected at every other place."""
    about, operators = about_selected(page), selected_operators(page)
    if about is None or not operators or (page.elsewhere.turn and page.elsewhere.about == about):
        return
    drop(page, page.elsewhere.turn)
    page.elsewhere = Elsewhere(about=about, quick=page.elsewhere.quick)
    request = WhyHereRequest(about[1], tuple(sorted(operators)))
    page.elsewhere.turn = start_beside(page, request, lambda event: _on_place(page, event))
    if not page.elsewhere.turn:
        page.elsewhere.words = "Too much is being asked at once: try again in a moment."
    inspect(page)


def _on_place(page: PageState, event: Event) -> None:
    elsewhere = page.elsewhere
    if event["kind"] == "part":
        part = event["part"]
        if "of" in part:
            first = cast("Places", part)
            elsewhere.of, elsewhere.along = first["of"], first["along"]
        else:
            elsewhere.answers = (*elsewhere.answers, cast("MovePart", part)["move"])
            if elsewhere.quick and len(elsewhere.answers) < (elsewhere.of or 0):
                return  # all of it is there in a moment
    else:
        elsewhere.turn = 0
        if event["kind"] == "failed":
            elsewhere.words, elsewhere.quick = event["message"], False
        elif event["kind"] == "done":
            elsewhere.quick = cast("Tried", event["answer"])["took_s"] < QUICK_S
    if elsewhere.about == about_selected(page):
        inspect(page)
        if not elsewhere.turn:
            page.send({"type": "say", "text": why_here_panel.spoken(elsewhere.answers, elsewhere.words)})


def stop_why_here(page: PageState, _: Plain) -> None:
    drop(page, page.elsewhere.turn)
    page.elsewhere.turn, page.elsewhere.words = 0, "Stopped."
    inspect(page)


def drop_why_here(page: PageState) -> None:
    """The question changes: what is tried is of another plan."""
    drop(page, page.elsewhere.turn)
    page.elsewhere = Elsewhere()


def drop_other_plans(page: PageState) -> None:
    """Another plan is on the page: answers about another one are not for it."""
    if page.elsewhere.about is not None and page.elsewhere.about != about_selected(page):
        drop_why_here(page)


def follow_selection(page: PageState) -> None:
    """Something else is selected: after a quick answer, it is tried too."""
    if page.elsewhere.about == about_selected(page):
        return
    if page.elsewhere.turn:
        drop(page, page.elsewhere.turn)
        page.elsewhere = Elsewhere(quick=page.elsewhere.quick)
    if page.elsewhere.quick:
        why_here(page, Plain(type="why-here"))
