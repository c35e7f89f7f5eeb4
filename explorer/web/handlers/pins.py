"""Pins: what is selected shall be on a device, or share one with what is selected next.

Pins are part of the question. The browser has them, is sent what they become, and asks for a plan.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.view.graph.pinning import joined, merged, names, pin_cost, pin_words
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.contract.messages import Pin, Plain
from explorer.web.parts import pin_panel
from explorer.web.redraw.inspector import selected_operators
from explorer.web.state.page_state import PageState, Pinning
from solvers.errors import InvalidProblem


def pin(page: PageState, message: Pin) -> None:
    """Pin what is selected to a device, or let it go."""
    device, session, devices = message.device, page.session, page.device_names
    if session is None or page.skeleton is None:
        return
    if device is not None and not 0 <= device < len(devices):
        page.send({"type": "say", "text": f"There is no device {str(device)[:20]} to pin to."})
        return
    chosen = _chosen(page)
    if chosen is None:
        return
    pins = merged(session.settings.pins, chosen, selected_operators(page), page.skeleton, device)
    words = pin_words(chosen, device, devices)
    if page.plan is not None and page.source.known and page.current and page.plan["objective_s"]:
        page.pinning = Pinning(words, session, page.plan["objective_s"])
    page.send({"type": "pins", "pins": pins, "together": session.settings.together, "words": words})


def together(page: PageState, _: Plain) -> None:
    """What is selected shall stay with what is selected next."""
    chosen = _chosen(page)
    if chosen is not None:
        page.tying = chosen
        _note(page, pin_panel.choose_next(chosen))


def tie_to_selected(page: PageState) -> None:
    """What was to stay with what is selected next stays with what is selected now."""
    first, page.tying = page.tying, None
    if first is None:
        return
    chosen = _chosen(page)
    if chosen is not None and set(chosen) == set(first):
        page.tying = first  # the same once more
        return
    if chosen is None or page.session is None:
        page.send({"type": "say", "text": "nothing more is kept together"})
        return
    settings = page.session.settings
    groups = joined(settings.together, (*first, *chosen))
    words = pin_panel.together_words(first, chosen)
    page.send({"type": "pins", "pins": settings.pins, "together": groups, "words": words})


def show_pin_cost(page: PageState) -> None:
    """What the last pin costs, once the plan with it is there; nothing where more changed than pins."""
    pinning, plan, session = page.pinning, page.plan, page.session
    if session is None or plan is None or not plan["objective_s"]:
        return
    if pinning is None:
        if page.pin_reported is not None and _question(page.pin_reported) != _question(session):
            page.pin_reported = None
            _show_cost(page, "")
        return
    page.pinning = None
    if _question(replace(session, settings=replace(session.settings, pins=pinning.before.settings.pins))) != _question(
        pinning.before
    ):
        _show_cost(page, "")
        return
    page.pin_reported = session
    cost = pin_cost(pinning.words, pinning.objective_s, plan["objective_s"])
    _show_cost(page, cost)
    page.send({"type": "say", "text": cost})


def _question(session: Session) -> tuple[object, ...]:
    return (
        session.model,
        session.settings,
        session.planner,
        session.effort,
        session.seed,
        session.profile,
        session.times,
        session.cluster,
    )


def _show_cost(page: PageState, words: str) -> None:
    page.send({"type": "props", "props": {ids.PIN_COST: {"children": words}}})


def _chosen(page: PageState) -> tuple[str, ...] | None:
    """The names that stand for what is selected; None, which is shown, if there are none or too many."""
    operators = selected_operators(page)
    if not operators or page.skeleton is None:
        return None
    try:
        return names(operators, page.skeleton)
    except InvalidProblem as error:
        _note(page, str(error))
        return None


def _note(page: PageState, words: str) -> None:
    page.send({"type": "say", "text": words})
    page.send({"type": "props", "props": {ids.PIN_NOTE: {"children": words}}})
