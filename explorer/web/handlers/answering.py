"""A plan comes onto the page: that of a finished search, of a row or a file, of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping

from explorer.question.settings import SETTINGS
from explorer.question.written.declaring import AUTO
from explorer.view.events import GivenView, ReplannedView, ResultEvent, unpacked
from explorer.view.figures import figures
from explorer.view.graph.opening import first_view
from explorer.view.plan_types import PlanView, RunView, Skeleton, Step
from explorer.view.session import Session, to_query
from explorer.web.contract import ids
from explorer.web.contract.messages import Props
from explorer.web.handlers.exports import review
from explorer.web.handlers.jobs import drop
from explorer.web.handlers.runs import offer_run
from explorer.web.handlers.scenarios import show_open_scenarios
from explorer.web.handlers.status import banner, stand
from explorer.web.handlers.what_if import look_for_ways_out, offer_changes
from explorer.web.handlers.why_here import drop_other_plans
from explorer.web.parts import panels
from explorer.web.parts.assumed import assumptions
from explorer.web.redraw import drawing
from explorer.web.redraw.picture import arrange, draw
from explorer.web.state.page_state import PageState
from explorer.words import text


def show_model(page: PageState, skeleton: Skeleton) -> None:
    """The graph of a model, in place of the one on the page, if that is another; and what is assumed of it."""
    assumed: Props = {}
    if page.session is not None:
        words = assumptions(page.session.settings, page.session.cluster, skeleton["stated"])
        assumed = {ids.ASSUMED: {"children": words}}
    if page.skeleton is not None and page.skeleton["hash"] == skeleton["hash"]:
        page.send({"type": "props", "props": assumed})
        return
    page.skeleton, page.plan = skeleton, None
    arrange(page, first_view(skeleton, page.canvas))
    caps = page.session.settings.memory_bytes if page.session else None
    least = drawing.least_cap(skeleton, min(caps) if isinstance(caps, tuple) else caps)
    settled = {"disabled": skeleton["stated"]}  # by a file that brings its own times
    props: Props = {
        **assumed,
        ids.CHIP: {"children": panels.chip(skeleton)},
        ids.MEMORY: {"min": least},
        ids.OBJECTIVE: {"data": _objectives(skeleton["objective"])},
        ids.PHASE: settled,
        ids.DTYPE: settled,
        ids.KIND: settled,
    }
    page.send({"type": "props", "props": props})
    page.send({"type": "model", "objective": skeleton["objective"], "memory_bytes": skeleton["memory_bytes"]})


def _objectives(usual: str) -> list[dict[str, str]]:
    """The choices of the objective. usual: what the model is planned for where nobody chooses."""
    control = SETTINGS["objective"].control
    assert control is not None
    labels = {**control.labels}
    if usual in labels:
        labels[AUTO] = f"{labels[usual]} (default)"
    return [{"value": key, "label": label} for key, label in labels.items()]


def drop_search(page: PageState) -> None:
    """What the page's search finds from now on is of no use."""
    drop(page, page.turn)
    page.turn = next(page.turns)


def show_result(page: PageState, event: ResultEvent, query: str | None = None, again: bool = False) -> None:
    """A finished search. query: the link of its question, where that is new; again: whether it was known before."""
    plan = event["plan"]
    page.current = plan is not None
    if plan is None:
        look_for_ways_out(page, event)
        state = {"INFEASIBLE": "infeasible"}.get(event["status"], "none")
        if event["stop_reason"] == "CANCELLED":
            state = "cancelled"
        stand(page, state, event["planner"], "infeasible" if state == "infeasible" else "no plan")
        return
    page.plan, page.drawn, page.answered = plan, page.session, event
    _draw_final(page, plan, list(plan["trace"]), event["runtime_s"])
    state, planner, words = _outcome(event, plan)
    stand(page, state, planner, words + (" · cached" if again else ""), query)
    if event.get("cut_off"):
        banner(page, panels.cut_off(event["cut_off"]))
    _offer_what_it_allows(page)


def show_known(
    page: PageState, session: Session, event: ResultEvent, moved: Mapping[str, object] | None = None
) -> None:
    """A plan that is known already, with the session that it answers. moved: the settings that are new in it, beside
    those of the planner, by the names of `explorer.view.session.to_dict`."""
    page.session = session
    page.earlier, page.search_began = page.shown, time.perf_counter()
    settings = session.settings
    contiguity = settings.contiguity.value if settings.contiguity else "auto"
    adopted = {"planner": session.planner, "contiguity": contiguity, "in_sequence": settings.in_sequence}
    page.send({"type": "adopt", "turn": page.turn, "controls": adopted | dict(moved or {})})
    show_result(page, event, to_query(session))


def show_other(
    page: PageState, view: GivenView | RunView | ReplannedView, source: str = "", run: RunView | None = None
) -> None:
    """The plan of a run or a file, with its graph. The controls are left as they are: they may ask for another. source:
    the path of the file. run: the one that it is of, if that was measured."""
    plan, skeleton = unpacked(view["plan"]), view["skeleton"]
    if not page.fits(plan):
        show_model(page, skeleton)
    drop_search(page)
    page.earlier, page.search_began = None, time.perf_counter()  # of other settings or costs: no better or worse
    page.plan = {**plan, "costs_from": skeleton["costs_from"], "source": source}
    page.drawn = page.answered = None
    page.run.laid = run
    page.current = True
    _draw_final(page, page.plan, list(plan["trace"]), plan["runtime_s"])
    stand(page, "feasible", plan["planner"], view["words"])
    _offer_what_it_allows(page)


def _draw_final(page: PageState, plan: PlanView, steps: list[Step], runtime_s: float) -> None:
    page.steps = steps
    draw(page, "final")
    page.send(drawing.search_message(steps, False, runtime_s))
    page.shown = figures(plan)


def _offer_what_it_allows(page: PageState) -> None:
    """Another finished plan is on the page: it can be run, reviewed, changed, kept."""
    offer_run(page)
    review(page)
    offer_changes(page)
    show_open_scenarios(page)
    drop_other_plans(page)


def _outcome(event: ResultEvent, plan: PlanView) -> tuple[str, str, str]:
    """(state, planner, words) of a finished search that has a plan."""
    took = text.seconds(event["runtime_s"])
    searched = f", {event['searched']}" if event.get("searched") else ""
    if event["status"] == "OPTIMAL":
        return "optimal", event["planner"], f"{took}{searched} · optimal"
    gap = 1 - plan["bound_s"] / plan["objective_s"] if plan["objective_s"] else 0.0
    words = f"gap {text.percent(gap)}" if plan["bound_s"] else "no bound"
    stopped = {"TIME_LIMIT": " · time limit", "CANCELLED": " · cancelled", "STATE_LIMIT": " · state limit"}
    return "feasible", event["planner"], f"{took}{searched} · {words}{stopped.get(event['stop_reason'], '')}"
