"""Pins: what is selected shall be on a device, or share one with what is selected next.

Pins are part of the question. The browser has them, is sent what they become, and asks for a plan.
"""

from __future__ import annotations

from explorer.view.graph.pinning import joined, merged, names
from explorer.web.contract import ids
from explorer.web.contract.messages import Pin, Plain
from explorer.web.parts import pin_panel
from explorer.web.redraw.inspector import selected_operators
from explorer.web.state.page_state import PageState
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
    words = pin_panel.words(chosen, device, devices)
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


def _chosen(page: PageState) -> tuple[str, ...] | None:
    """The names that stand for what is selected; None, which is shown, if there are none or too many."""
    found = selected_operators(page)
    if not found or page.skeleton is None:
        return None
    try:
        return names(found, page.skeleton)
    except InvalidProblem as error:
        _note(page, str(error))
        return None


def _note(page: PageState, words: str) -> None:
    page.send({"type": "say", "text": words})
    page.send({"type": "props", "props": {ids.PIN_NOTE: {"children": words}}})
