"""Runs of the plan on the page: asked for, checked before they begin, and how the one that goes on stands."""

from __future__ import annotations

import time

from explorer.jobs.requests import PrepareRequest, ReplanRequest, RunPlanRequest
from explorer.question.models.example import says_degree
from explorer.view.events import Event, Prepared
from explorer.view.plan_types import RunView
from explorer.view.run_events import PastRun
from explorer.view.session import parse_run
from explorer.web.contract import ids
from explorer.web.contract.messages import Plain, Pressed, Run, RunMessage
from explorer.web.handlers.jobs import drop, start
from explorer.web.handlers.status import announce
from explorer.web.parts import run_panel
from explorer.web.parts.run_history import history
from explorer.web.state.page_state import PageState
from explorer.words import text
from solvers.errors import InvalidProblem

NOTHING = "Nothing was run."
REDRAW_S = 0.5
"""The progress of a run is drawn at most this often."""
NO_CODE = (
    "only code can be run: a demo model, or package.module:callable named where this server was started; a file holds"
    " the graph alone"
)


def run(page: PageState, message: Run) -> None:
    """Run the plan on the page, as soon as it was checked."""
    settings = {"target": message.target, "steps": message.steps, "verify": message.verify}
    try:
        wanted = parse_run(settings, page.server.choices)
    except InvalidProblem as error:
        _complain(page, str(error))
        return
    page.run.wanted, page.run.complaint, page.run.target = wanted, None, wanted.target
    if not page.runnable:
        _complain(page, "there is no finished plan to run; solve first")
        return
    prepare(page)
    _begin(page)
    show_run(page)


def _complain(page: PageState, words: str) -> None:
    page.run.complaint, page.run.wanted = (NOTHING, words, ()), None
    show_run(page)


def run_anyway(page: PageState, _: Plain) -> None:
    """The person knows that the costs are of other hardware."""
    prepared, wanted = page.run.checked, page.run.postponed
    if prepared is None or wanted is None or not page.runnable:
        return
    page.run.agreed = prepared["held"], prepared["target"]
    page.run.wanted, page.run.postponed = wanted, None
    _begin(page)
    show_run(page)


def plan_here(page: PageState, _: Plain) -> None:
    """Measure costs on the target, and plan for it instead."""
    prepared = page.run.checked
    if prepared is not None and page.runnable and not prepared["refused"]:
        _measure(page, prepared, prepared["text"])


def replan(page: PageState, _: Plain) -> None:
    """Measure costs where the run was, and plan again with them."""
    ran = page.ran
    packed = page.server.runs.text(ran["held"]) if ran is not None else None
    if ran is not None and packed is not None:
        _measure(page, ran, packed)


def choose_target(page: PageState, message: Pressed) -> None:
    """Another target: what is to be known of the plan may differ there."""
    target = message.element
    if target in page.server.choices.targets and target != page.run.target:
        page.run.target = target
        prepare(page)
        show_run(page)


def cancel_run(page: PageState, _: Plain) -> None:
    page.run.wanted = None
    page.server.runs.cancel()
    show_run(page)


# -- before a run -----------------------------------------------------------------------------------


def prepare(page: PageState) -> None:
    """Check the plan on the page, if somebody may want to run it."""
    run, held = page.run, page.held
    known = run.checked is not None and (run.checked["held"], run.checked["target"]) == (held, run.target)
    if known or not held or not page.server.choices.targets or not ("run" in page.open or run.wanted):
        return
    drop_check(page)
    request = PrepareRequest(held, run.target, page.server.runs.text(held))
    run.checking = start(page, request, lambda event: _on_checked(page, event))


def drop_check(page: PageState) -> None:
    """What was found of a plan before it runs is of no use any more."""
    drop(page, page.run.checking)
    page.run.checked = page.run.postponed = None


def _on_checked(page: PageState, event: Event) -> None:
    run = page.run
    if event["kind"] == "prepared":
        allowed = page.server.backend.may_run(event["model"])
        run.checked = event if allowed else {**event, "refused": [NO_CODE]}
        _begin(page)
    elif event["kind"] == "failed":
        run.complaint, run.wanted = (NOTHING, event["message"], ()), None
    else:
        return
    show_run(page)


def _begin(page: PageState) -> None:
    """Run what is wanted, if all that is needed is known."""
    run = page.run
    prepared, wanted = run.checked, run.wanted
    if prepared is None or wanted is None:
        return
    run.wanted = None
    if prepared["refused"] or prepared["held"] != page.held:
        return
    if prepared["elsewhere"] and run.agreed != (prepared["held"], prepared["target"]):
        run.postponed = wanted
        run.shown = run.replanned = None  # what is to be known of this plan is shown in their place
        announce(page, prepared["elsewhere"])
        return
    allowed = page.server.backend.may_run(prepared["model"])
    _start(
        page, RunPlanRequest(prepared["held"], prepared["text"], wanted.target, wanted.steps, wanted.verify, allowed)
    )


def _measure(page: PageState, of: Prepared | RunView, packed: bytes) -> None:
    """Plan again what the page asks, with costs measured. of: a run, or what was found before one; packed: the file of
    its plan."""
    session = page.session
    if session is None:
        return
    page.run.postponed = None
    request = ReplanRequest(
        of["held"],
        packed,
        of["target"],
        page.server.model_of(session),
        session.settings,
        session.planner,
        session.time_limit_s,
        session.seed,
        page.server.backend.may_run(of["model"]),
        session.effort,
    )
    _start(page, request)
    show_run(page)


def _start(page: PageState, request: RunPlanRequest | ReplanRequest) -> None:
    planner = page.plan["planner"] if page.plan is not None else ""
    page.run.replanned = page.run.complaint = None
    try:
        page.server.runs.begin(request, f"the plan of {planner}" if planner else "a plan")
    except InvalidProblem as error:
        page.run.complaint = NOTHING, str(error), ()


# -- what changes for runs ---------------------------------------------------------------------------


def drop_runnable(page: PageState) -> None:
    """Another question is asked: the plan on the page is no answer to it."""
    page.current = False
    page.send({"type": "props", "props": {ids.RUN_OPEN: {"disabled": True}, ids.RUN_START: {"disabled": True}}})


def offer_run(page: PageState) -> None:
    """Another finished plan is on the page."""
    run, held = page.run, page.held
    run.wanted, run.laid = None, page.ran
    if page.server.runs.going is None:
        run.complaint = None
        run.shown = run.shown if run.shown is not None and run.shown["held"] == held else None
        run.replanned = run.replanned if run.replanned is not None and run.replanned["held"] == held else None
    prepare(page)
    if page.server.choices.targets:
        show_run(page)


def open_run_tab(page: PageState) -> None:
    prepare(page)
    if page.server.choices.targets:
        show_run(page)


# -- how it stands ----------------------------------------------------------------------------------


def past_runs(page: PageState) -> list[PastRun]:
    """Of the model on the page."""
    return page.server.backend.past_runs(page.skeleton["reference"]) if page.skeleton is not None else []


def show_run(page: PageState) -> None:
    """The panel, its buttons, and whether the plan on the page has run."""
    run, going = page.run, page.server.runs.going
    refused = run.checked is not None and bool(run.checked["refused"])
    props: dict[str, dict[str, object]] = {
        ids.RUN_OPEN: {"disabled": not page.runnable},
        ids.RUN_START: {"disabled": going is not None or not page.runnable or refused or run.wanted is not None},
        ids.RUN_STOP: {"disabled": (going is None and run.wanted is None) or bool(going and going.stopping)},
        ids.RUN_NOTE: {"children": _note(page)},
    }
    if "run" in page.open:
        shown = run.shown["bundle"] if run.shown is not None else ""
        props[ids.RUN_BODY] = {"children": _body(page)}
        props[ids.RUN_HISTORY] = {"children": history(past_runs(page), shown, going is not None)}
    ran = page.ran
    message: RunMessage = {
        "type": "run",
        "state": "going" if going is not None else "measured" if ran is not None else "",
        "times": page.look.times,
        "colour": page.look.colour,
        "can_replan": going is None
        and ran is not None
        and bool(ran["folder"])
        and not says_degree(ran["model"])
        and page.server.runs.text(ran["held"]) is not None,
        "props": props,
    }
    if going is not None:
        message["elapsed_s"] = time.monotonic() - going.began
    page.send(message)


def show_progress(page: PageState) -> None:
    """How far the run is: the phase when it changes, the rest not more often than can be read."""
    going, run = page.server.runs.going, page.run
    stage = None if going is None else (going.began, going.phase, going.stopping)
    now = time.monotonic()
    if stage != run.stage:
        run.stage, run.drawn_at = stage, now
        show_run(page)
    elif now - run.drawn_at >= REDRAW_S and "run" in page.open and going is not None:
        run.drawn_at = now
        page.send({"type": "props", "props": {ids.RUN_BODY: {"children": _body(page)}}})


def _note(page: PageState) -> str:
    going = page.server.runs.going
    if going is not None:
        return "Cancelling …" if going.stopping else f"{'Measuring' if going.what == 'replan' else 'Running'} …"
    if page.run.wanted is not None:
        return "Looking at the plan …"
    if page.run.postponed is not None:
        return "Not started: see below."
    return "" if page.runnable else "Solve first: there is no finished plan to run."


def _body(page: PageState) -> list[object]:
    going, run = page.server.runs.going, page.run
    if going is not None:
        return run_panel.going(going)
    if run.complaint is not None:
        title, why, lines = run.complaint
        return run_panel.failure(title, text.short(why, 2000), lines)
    if run.replanned is not None:
        return run_panel.replanned(run.replanned)
    if run.shown is not None:
        return run_panel.report(run.shown, run.shown["held"] == page.held)
    if run.checked is not None:
        return run_panel.checked(run.checked, run.postponed is not None)
    return run_panel.idle()
