"""What else there could be: single changes of the question, and sweeps along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from explorer.jobs.requests import HelpRequest, RemedyRequest, SolveRequest, SweepRequest
from explorer.question.written.kinds import MAX_DEVICES
from explorer.sweeps.knee import knee
from explorer.sweeps.points import SWEPT
from explorer.view.events import Event, ResultEvent
from explorer.web.contract import ids
from explorer.web.contract.messages import Plain, Pressed, SweepMessage
from explorer.web.handlers.jobs import drop, start_beside
from explorer.web.handlers.status import banner
from explorer.web.parts import help_panel, panels
from explorer.web.state.page_state import Changes, PageState, SweepState
from explorer.words import text
from solvers.search.effort import Effort

if TYPE_CHECKING:
    from explorer.jobs.answers import ChangeAnswer, HowMany, SweepPart, SweepValues, WayOut

QUICK_LIMIT_S = 15.0
"""For each search: a safety limit."""
MOST_DEVICES = min(16, MAX_DEVICES)
"""That a change may ask for."""
LOOKING = "Looking for remedies …"
CONTROL = {
    "devices": "devices",
    "memory_bytes": "memory",
    "micro_batches": "micro_batches",
    "bandwidth_bytes_per_s": "bandwidth",
}
"""What a page calls the axes of a sweep."""


def _quick(page: PageState) -> SolveRequest | None:
    """The question of the page, to be asked in variants at quick effort."""
    session, server = page.session, page.server
    if session is None:
        return None
    return SolveRequest(
        server.model_of(session), session.settings, session.planner, min(session.time_limit_s, QUICK_LIMIT_S),
        seed=session.seed, effort=Effort.QUICK, files=server.files_of(session),
    )  # fmt: skip


def drop_what_if(page: PageState) -> None:
    """The question changes: what is still tried is of another one."""
    drop(page, page.changes.turn)
    drop(page, page.sweep.turn)
    if page.sweep.turn:
        page.sweep.turn = 0
        _show_sweep(page, "Stopped: the question has changed.")
    page.changes = Changes()
    page.send({"type": "props", "props": {ids.HELP: {"children": []}}})


# -- single changes ---------------------------------------------------------------------------------


def try_changes(page: PageState, _: Plain) -> None:
    """Solve the question with each of some things changed."""
    quick, plan = _quick(page), page.source
    if quick is None or not plan.known or not page.current or page.changes.turn or page.answered is None:
        return
    request = HelpRequest(quick, plan, MOST_DEVICES)
    page.changes = Changes()
    page.changes.turn = start_beside(
        page, request, lambda event: _on_change(page, event), lambda words: show_changes(page, f"Waiting, {words}.")
    )
    show_changes(page)


def _on_change(page: PageState, event: Event) -> None:
    changes, words = page.changes, ""
    if event["kind"] != "part":
        changes.turn = 0
        words = event["message"] if event["kind"] == "failed" else ""
    elif "of" in event["part"]:
        changes.of = cast("HowMany", event["part"])["of"]
    else:
        changes.answers = (*changes.answers, cast("ChangeAnswer", event["part"]))
    show_changes(page, words)


def stop_changes(page: PageState, _: Plain) -> None:
    drop(page, page.changes.turn)
    page.changes.turn = 0
    show_changes(page)


def offer_changes(page: PageState) -> None:
    """Another plan is on the page: changes of it can be tried."""
    if not page.changes.turn:
        page.changes = Changes()
        show_changes(page)


def show_changes(page: PageState, words: str = "") -> None:
    """words: in place of the usual ones."""
    can = page.source.known and page.current and page.answered is not None
    children = help_panel.helps(page.changes, words) if can else []
    page.send({"type": "props", "props": {ids.HELP: {"children": children}}})


# -- remedies ---------------------------------------------------------------------------------------


def look_for_ways_out(page: PageState, event: ResultEvent) -> None:
    """The search ended without a plan: look for changes under which there is one."""
    quick = _quick(page)
    page.changes = changes = Changes(none=event)
    if quick is not None and event["stop_reason"] != "CANCELLED":
        request = RemedyRequest(quick, MOST_DEVICES)
        changes.turn = start_beside(page, request, lambda event: _on_way_out(page, event))
    _show_ways_out(page, LOOKING if changes.turn else "")


def _on_way_out(page: PageState, event: Event) -> None:
    changes = page.changes
    if event["kind"] == "part":
        changes.ways = (*changes.ways, cast("WayOut", event["part"]))
        _show_ways_out(page, LOOKING)
        return
    changes.turn = 0
    words = "Found by quick searches, the cheapest change first." if changes.ways else "No change was found that fits."
    _show_ways_out(page, event["message"] if event["kind"] == "failed" else words)


def _show_ways_out(page: PageState, words: str) -> None:
    if page.changes.none is not None:
        banner(page, panels.no_plan(page.changes.none, page.changes.ways, words))


def go_way_out(page: PageState, message: Pressed) -> None:
    """Ask the question with a remedy."""
    place = message.position(len(page.changes.ways))
    if place is not None and page.changes.none is not None:
        page.send({"type": "go", "controls": page.changes.ways[place]["controls"]})


# -- sweeps -----------------------------------------------------------------------------------------


def start_sweep(page: PageState, message: Pressed) -> None:
    """Solve the question at several values of an axis."""
    axis, quick = message.element, _quick(page)
    if axis not in SWEPT or quick is None or page.sweep.turn or page.searching:
        return
    page.sweep = SweepState(axis=axis)
    page.sweep.turn = start_beside(
        page,
        SweepRequest(quick, axis),
        lambda event: _on_sweep(page, event),
        lambda words: _show_sweep(page, f"Waiting, {words}."),
    )
    _show_sweep(page, "Solving …")


def _on_sweep(page: PageState, event: Event) -> None:
    sweep = page.sweep
    if event["kind"] == "part":
        part = event["part"]
        if "row" in part:
            sweep.rows = (*sweep.rows, cast("SweepPart", part)["row"])
        else:
            first = cast("SweepValues", part)
            sweep.values, sweep.words = tuple(first["values"]), tuple(first["words"])
        of = len(sweep.values)
        _show_sweep(page, f"Solving {min(len(sweep.rows) + 1, of)} of {of} …")
        return
    sweep.turn = 0
    plans = sum(row["objective_s"] is not None for row in sweep.rows)
    words = f"{text.plural(plans, 'plan')}, quick searches. A click on one asks it at the page's effort."
    _show_sweep(page, event["message"] if event["kind"] == "failed" else words)


def stop_sweep(page: PageState, _: Plain) -> None:
    drop(page, page.sweep.turn)
    page.sweep.turn = 0
    _show_sweep(page, "Stopped.")


def go_to_point(page: PageState, message: Pressed) -> None:
    """Ask the question at a value of the last sweep."""
    place = message.position(len(page.sweep.values))
    if place is not None:
        page.send({"type": "go", "controls": {CONTROL[page.sweep.axis]: page.sweep.values[place]}})


def _show_sweep(page: PageState, words: str) -> None:
    sweep = page.sweep
    message: SweepMessage = {
        "type": "sweep",
        "going": bool(sweep.turn),
        "words": words,
        "points": [
            {
                "objective_s": row["objective_s"],
                "bound_s": row["bound_s"] or None,
                "text": text.seconds(row["objective_s"]),
                "status": text.words(row["status"]),
                "reason": text.short(row["reason"], 160),
            }
            for row in sweep.rows
        ],
    }
    if sweep.axis:
        message.update({"axis": sweep.axis, "values": sweep.values, "labels": sweep.words})
        if sweep.axis == "memory_bytes":
            message["knee"] = knee(sweep.values, [row["objective_s"] for row in sweep.rows])
    page.send(message)
