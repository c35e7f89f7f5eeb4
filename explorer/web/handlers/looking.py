"""How the model and the plan on a page are looked at: levels of modules, a selection, open tabs, instants."""

from __future__ import annotations

from dataclasses import replace

from explorer.view import scene
from explorer.view.graph.elements import depths, expanded_to, opened_for
from explorer.view.graph.find import MAX_WORDS, find
from explorer.view.graph.inspect import box_words
from explorer.view.graph.stylesheet import stylesheet
from explorer.view.instants.played import SpanWords, played
from explorer.view.instants.waits import chain_columns, wait_at, wait_view
from explorer.web.contract import ids
from explorer.web.contract.messages import (
    Canvas,
    ChooseTheme,
    Deepen,
    Find,
    OpenTabs,
    Plain,
    Pressed,
    Select,
    Waits,
    Window,
)
from explorer.web.handlers.exports import review
from explorer.web.handlers.pins import tie_to_selected
from explorer.web.handlers.runs import open_run_tab
from explorer.web.handlers.scenarios import show_open_scenarios
from explorer.web.handlers.why_here import follow_selection
from explorer.web.parts import wait_panel
from explorer.web.redraw import drawing
from explorer.web.redraw.inspector import inspect
from explorer.web.redraw.picture import arrange, colour_values, draw, rows, tables
from explorer.web.state.page_state import PageState

MOST_OPEN = 8
"""Tabs and tables that a page can have open."""


def choose_theme(page: PageState, message: ChooseTheme) -> None:
    page.theme = message.theme
    if page.session is not None:
        page.session = replace(page.session, theme=page.theme)
    page.send({"type": "props", "props": {ids.GRAPH: {"stylesheet": stylesheet(page.theme)}}})
    draw(page, "theme")
    if page.values is not None:
        colour_values(page)
    show_open_scenarios(page)


def deepen(page: PageState, message: Deepen) -> None:
    """One level of modules more, or less."""
    if page.skeleton is not None and page.view is not None:
        wanted = min(max(1, page.view.depth + message.step), depths(page.skeleton))
        arrange(page, expanded_to(page.skeleton, wanted))


def expand(page: PageState, message: Pressed) -> None:
    if page.view is not None and page.skeleton is not None:
        expanded = opened_for(page.view, page.skeleton, message.element)
        if expanded is not None:
            arrange(page, expanded)


def collapse(page: PageState, message: Pressed) -> None:
    path = message.element[2:]
    if page.view is not None and path in page.view.expanded:
        below = path + "."
        arrange(page, frozenset(p for p in page.view.expanded if p != path and not p.startswith(below)))


def select(page: PageState, message: Select) -> None:
    page.selected = None if message.kind == "none" else (message.kind, message.id)
    inspect(page)
    tie_to_selected(page)
    follow_selection(page)


def resize(page: PageState, message: Canvas) -> None:
    """The place for the graph has another size: columns and rows are arranged for it."""
    if message.width is None or message.height is None:
        return
    page.canvas = (message.width, message.height)
    if page.view is not None:
        arrange(page, page.view.expanded)


def peek(page: PageState, message: Pressed) -> None:
    """Somebody points at a box."""
    if page.view is not None and page.skeleton is not None:
        known = box_words(message.element, page.view, page.skeleton, page.plan)
        if known is not None:
            page.send({"type": "peeked", "id": message.element, "text": known})


def find_operators(page: PageState, message: Find) -> None:
    if page.skeleton is not None and message.text is not None:
        matches = find(page.skeleton, page.plan, message.text)
        page.send({"type": "found", "text": message.text[:MAX_WORDS], **matches})


def open_tabs(page: PageState, message: OpenTabs) -> None:
    """Somebody looks at other tabs and tables."""
    page.open = frozenset(message.shown[:MOST_OPEN])
    page.send({"type": "props", "props": tables(page)})
    open_run_tab(page)
    review(page)
    show_open_scenarios(page)


def show_window(page: PageState, message: Window) -> None:
    """Another part of the schedule is in sight: its bars at that scale."""
    start, end = message.start, message.end
    if page.plan is None or page.skeleton is None or start is None or end is None or start >= end:
        return
    page.send(drawing.window_message(page.skeleton, page.plan, page.theme, rows(page), (start, end), page.until_s))


# -- instants ---------------------------------------------------------------------------------------


def send_course(page: PageState, _: Plain) -> None:
    """The course of the schedule on the page, to be played: a page that plays it asks nobody."""
    plan = page.plan
    if plan is None:
        return
    if plan["course"] is None:
        words = f"A schedule of {plan['spans']:,} spans is too large to be played."
        page.send({"type": "course", "course": None, "words": words})
        return
    page.send({"type": "course", "course": played(plan["course"], plan, _operators(page))})


def show_wait(page: PageState, message: Waits) -> None:
    """What a device waits for at an instant, in the inspector, and as a line through the schedule."""
    plan, device, at_s, names = page.plan, message.device, message.at_s, page.device_names
    if plan is None or plan["course"] is None or at_s is None:
        return
    if not 0 <= device < len(names) or not 0 <= at_s <= plan["span_s"]:
        return
    wait = wait_at(plan["course"], device, at_s)
    if wait is None:
        works = plan["busy_s"][device] > 0
        page.send({"type": "say", "text": f"{names[device]} {'works then' if works else 'has no work here'}"})
        return
    view = wait_view(plan["course"], wait, SpanWords(plan["course"], names, _operators(page)))
    page.selected = None
    page.send(
        {
            "type": "waits",
            "device": device,
            "path": scene.waits_scene(plan, rows(page), chain_columns(plan["course"], wait), page.until_s),
            "idle_s": (wait.start_s, wait.end_s),
            "text": view["sentence"],
            "props": {ids.INSPECTOR: {"children": wait_panel.waits(view)}},
        }
    )


def _operators(page: PageState) -> list[str]:
    """Names of operators, where the spans of the schedule are single ones."""
    if page.plan is None or page.skeleton is None or not page.plan["by_operator"]:
        return []
    return page.skeleton["names"]
