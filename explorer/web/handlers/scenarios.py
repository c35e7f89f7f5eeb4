"""Plans that are kept beside each other, how two of them differ, and the hash by which a link names a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from explorer.jobs.requests import DifferRequest, HashRequest
from explorer.view.cards import cards, micro_batches
from explorer.view.events import Event
from explorer.view.figures import figures
from explorer.view.plan_types import PlanView
from explorer.view.timeline.phases import is_pipelined
from explorer.view.versus import is_one_question, ratio
from explorer.web.contract import ids
from explorer.web.contract.messages import Plain, Pressed, Rename, Same
from explorer.web.handlers.jobs import start_beside
from explorer.web.parts import scenario_panel
from explorer.web.parts.scenario_panel import ScenarioRow, thumbnail
from explorer.web.state.page_state import PageState, Scenario
from explorer.words import text
from solvers.errors import printable

if TYPE_CHECKING:
    from explorer.jobs.answers import Differing, Hashed

MOST = 8
"""Plans kept by one page: as many as one can look over."""
MAX_NAME = 60
SHOWN_HASH = 16


def add_scenario(page: PageState, _: Plain) -> None:
    """Keep the plan on the page beside others."""
    source, plan, skeleton = page.source, page.plan, page.skeleton
    if not source.known or plan is None or skeleton is None:
        show_scenarios(page, "There is no finished plan to keep.")
        return
    if any(one.source == source for one in page.scenarios):
        show_scenarios(page, "This plan is kept already.")
        return
    if len(page.scenarios) >= MOST:
        show_scenarios(page, f"At most {MOST} plans are kept: leave one out first.")
        return
    page.numbered += 1
    cells = {card.name: card.value for card in cards(plan, None)}
    name, picture = _free_name(page, plan), thumbnail(plan)
    scenario = Scenario(page.numbered, name, source, cells, figures(plan), picture, skeleton["hash"])
    page.scenarios = (*page.scenarios, scenario)
    page.baseline = page.baseline or page.numbered
    page.send({"type": "kept", "number": page.numbered})
    show_scenarios(page)


def _free_name(page: PageState, plan: PlanView) -> str:
    """Devices, micro-batches and planner; its time too, and then a number, where another is called so."""
    parts = [text.plural(len(plan["devices"]), "device"), plan["planner"]]
    if is_pipelined(plan):
        parts.insert(1, f"{micro_batches(plan)} micro-batches")
    taken = {one.name for one in page.scenarios}
    plain = ", ".join(parts)
    timed = f"{plain}, {text.seconds(plan['objective_s'])}"
    return next(name for name in (plain, timed, f"{timed} ({page.numbered})") if name not in taken)


def forget(page: PageState, message: Pressed) -> None:
    one = _numbered(page, message.element)
    if one is None:
        return
    page.scenarios = tuple(other for other in page.scenarios if other is not one)
    if page.baseline == one.number:
        page.baseline = page.scenarios[0].number if page.scenarios else 0
        page.compared = None
    if page.compared is not None and page.compared[0] == one.number:
        page.compared = None
    show_scenarios(page)


def rename(page: PageState, message: Rename) -> None:
    one = _numbered(page, message.element)
    if one is not None and message.name is not None:
        name = " ".join(printable(message.name).split())[:MAX_NAME] or one.name
        page.scenarios = tuple(replace(other, name=name) if other is one else other for other in page.scenarios)


def make_baseline(page: PageState, message: Pressed) -> None:
    one = _numbered(page, message.element)
    if one is not None:
        page.baseline, page.compared = one.number, None
        show_scenarios(page)


def differ(page: PageState, message: Pressed) -> None:
    """Find how a kept plan differs from the baseline, and show it on the graph."""
    one, base = _numbered(page, message.element), _baseline(page)
    if one is None or base is None or one is base:
        return
    page.compared = one.number, None
    show_scenarios(page, "Comparing …")

    def compared(event: Event) -> None:
        if page.compared is None or page.compared[0] != one.number:
            return
        if event["kind"] == "failed":
            page.compared = None
            show_scenarios(page, event["message"])
            return
        if event["kind"] == "done":
            difference = cast("Differing", event["answer"])
            page.compared = one.number, difference
            show_scenarios(page)
            _mark_moved(page, base, one, difference)

    start_beside(page, DifferRequest(base.source, one.source), compared)


def _mark_moved(page: PageState, base: Scenario, one: Scenario, difference: Differing) -> None:
    """The boxes with operators that moved, bright in the graph."""
    if page.view is None or page.skeleton is None or not page.skeleton["hash"] == base.model == one.model:
        return
    gone = set(difference["elsewhere"])
    boxes = [name for name, inside in page.view.boxes.items() if any(i in gone for i in inside)]
    page.send({"type": "moved", "boxes": boxes})


def _numbered(page: PageState, number: str) -> Scenario | None:
    return next((one for one in page.scenarios if str(one.number) == number), None)


def _baseline(page: PageState) -> Scenario | None:
    return next((one for one in page.scenarios if one.number == page.baseline), None)


def show_scenarios(page: PageState, words: str = "") -> None:
    """words: what came of the last wish, in place of a hint."""
    base, source = _baseline(page), page.source
    rows: list[ScenarioRow] = [
        {
            "number": one.number,
            "name": one.name,
            "cells": one.cells,
            "picture": one.picture[page.theme],
            "baseline": one is base,
            "against": None if base is None or one is base else ratio(one.figures, base.figures),
            "same_question": base is not None and is_one_question(one.figures, base.figures),
            "shown": one.source == source,
        }
        for one in page.scenarios
    ]
    number, difference = page.compared or (0, None)
    names = (base.name if base else "", next((one.name for one in page.scenarios if one.number == number), ""))
    children = scenario_panel.scenarios(rows, difference, names, words)
    page.send({"type": "props", "props": {ids.SCENARIOS: {"children": children}}})


def show_open_scenarios(page: PageState) -> None:
    """Where somebody looks at them."""
    if "scenarios" in page.open:
        show_scenarios(page)


# -- a link says which plan it showed ---------------------------------------------------------------


def share(page: PageState, _: Plain) -> None:
    _with_hash(page, lambda plan: page.send({"type": "shared", "plan": plan}))


def is_same(page: PageState, message: Same) -> None:
    """Whether the plan on the page is the one that a link was made of."""
    wanted = message.plan
    if wanted is None:
        return

    def compare(plan_hash: str) -> None:
        if plan_hash:
            page.send({"type": "same", "same": plan_hash == wanted, "found": plan_hash, "wanted": wanted})

    _with_hash(page, compare)


def _with_hash(page: PageState, then: Callable[[str], None]) -> None:
    """Find the hash of the plan on the page; "" if it has none."""
    source, turn = page.source, page.turn
    if not source.known or not page.current:
        then("")
        return

    def hashed(event: Event) -> None:
        if page.turn == turn:
            then(cast("Hashed", event["answer"])["sha256"][:SHOWN_HASH] if event["kind"] == "done" else "")

    if not start_beside(page, HashRequest(source), hashed):
        then("")
