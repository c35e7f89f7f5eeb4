"""The plan on the page, taken away as a file, or looked over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from explorer.exports.formats import FORMATS, format_named
from explorer.jobs.requests import ExportRequest, ReviewRequest
from explorer.view.events import Event
from explorer.web.contract import ids
from explorer.web.contract.messages import Pressed, Taking
from explorer.web.handlers.jobs import start_beside
from explorer.web.handlers.status import show_export_state
from explorer.web.parts import review_panel
from explorer.web.state.outlet import Taken
from explorer.web.state.page_state import PageState
from explorer.web.state.shelf import safe_name

if TYPE_CHECKING:
    from explorer.jobs.answers import Exported
    from explorer.reviews.review import ReviewView

NEAREST = "+nearest"
"""After the name of a format: snap to module boundaries, where it has no other cuts."""
ENDINGS = re.compile(r"(\.(json|pt2|txt|plan|gz))+$")


def export(page: PageState, message: Pressed) -> None:
    """Write the plan on the page in a format ("megatron", or snapped to module boundaries "megatron+nearest"), then say
    where to fetch it."""
    source, to = page.source, message.element.removesuffix(NEAREST)
    if not source.known or to not in FORMATS:
        return
    nearest = to != message.element
    page.send({"type": "taking", "can": True, "why": f"Writing {format_named(to).name} …", "busy": True})
    request = ExportRequest(source, to, page.theme, nearest)
    start_beside(page, request, lambda event: _exported(page, event, to, nearest))


def _exported(page: PageState, event: Event, to: str, nearest: bool) -> None:
    if event["kind"] == "failed":
        why, hint, _ = event["message"].partition(" (--nearest ")
        why = f"{to}: {why}." if FORMATS[to].launches else why
        failed: Taking = {"type": "taking", "can": True, "why": why, "bad": True}
        if hint and not nearest:
            failed["nearest"] = to + NEAREST
        page.send(failed)
        return
    if event["kind"] != "done":
        return
    exported = cast("Exported", event["answer"])
    stem = ENDINGS.sub("", safe_name(exported["of"].rpartition(":")[2])) or "plan"
    name = f"{stem}.{exported['to'].removesuffix('-' + exported['ending'][1:])}{exported['ending']}"
    address = page.server.outlet.put(Taken(name, exported["media_type"], exported["data"]), page.visitor)
    lines = [f"Changed: {line}" for line in exported["changed"]] + [
        f"Not included: {line}" for line in exported["lost"]
    ]
    page.send({"type": "take", "href": address, "name": name, "stay": bool(lines)})
    if lines:
        page.send({"type": "taking", "can": True, "why": f"{name} is written.", "lines": lines})
    else:
        show_export_state(page)


def review(page: PageState) -> None:
    """Look the plan on the page over, if somebody looks at the tab, and show how that stands."""
    if "review" not in page.open:
        return
    source = page.source
    if not source.known:
        page.review = None
        _show_review(page, "There is no finished plan to review.")
        return
    if page.review is not None and page.review[0] == source:
        _show_review(page)
        return
    page.review = source, None
    _show_review(page, "Looking it over …")

    def reviewed(event: Event) -> None:
        if page.review is None or page.review[0] != source:
            return
        if event["kind"] == "failed":
            page.review = None
            _show_review(page, event["message"])
        elif event["kind"] == "done":
            page.review = source, cast("ReviewView", event["answer"])
            _show_review(page)

    start_beside(page, ReviewRequest(source), reviewed)


def _show_review(page: PageState, words: str = "") -> None:
    review = page.review[1] if page.review is not None else None
    page.send({"type": "props", "props": {ids.REVIEW: {"children": review_panel.review(review, words)}}})
