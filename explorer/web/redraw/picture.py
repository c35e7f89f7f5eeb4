"""The model and the plan of a page, drawn: how they change without a solver's help, and what stands around them."""

from __future__ import annotations

import time
from dataclasses import replace

from explorer.view import versus
from explorer.view.graph.elements import graph_view
from explorer.view.graph.node_data import box_values
from explorer.view.pictures.degrees import degree_map
from explorer.view.session import Look, member
from explorer.view.timeline.gantt_rows import usual_kind
from explorer.view.timeline.sentence import sentence
from explorer.web.contract import ids
from explorer.web.contract.messages import Props
from explorer.web.parts import alternatives_panel as beside_panel
from explorer.web.parts import degree_panel, pair_panel, panels
from explorer.web.parts.values_legend import values_legend
from explorer.web.redraw import drawing, run_drawing
from explorer.web.redraw.comparison import comparison_props
from explorer.web.redraw.inspector import inspector_props
from explorer.web.state.page_state import PageState
from explorer.web.state.pairing import pair_question

REBOUND_EVERY_S = 0.5
USUAL_ASPECT = 0.85
USUAL_HEIGHT = 500.0


def arrange(page: PageState, expanded: frozenset[str]) -> None:
    """Draw the model's graph with these modules open, and the plan over it."""
    if page.skeleton is None:
        return
    width, height = page.canvas or (USUAL_ASPECT * USUAL_HEIGHT, USUAL_HEIGHT)
    page.view = graph_view(page.skeleton, expanded, min(5.0, max(0.2, width / height)), height)
    page.send(drawing.graph_message(page.view, page.skeleton))
    if page.plan is not None:
        page.send(drawing.overlay_message(page.view, page.skeleton, page.plan, page.measured))
        page.send({"type": "props", "props": tables(page)})
    if page.values is not None:
        colour_values(page)


def colour_values(page: PageState) -> None:
    """Colour the boxes by numbers of somebody's own, with their legend; by device where there are none."""
    if page.view is None or page.skeleton is None:
        return
    values = box_values(page.view, page.skeleton, page.values, page.theme) if page.values is not None else None
    legend = values_legend(values) if values is not None else []
    page.send({"type": "values", "values": values, "props": {ids.VALUES_LEGEND: {"children": legend}}})


def draw(page: PageState, reason: str) -> None:
    """Draw the plan on the page, if there is one. reason: see `messages.PlanMessage`."""
    plan = page.plan
    if plan is None or page.view is None or page.skeleton is None:
        return
    if reason == "final" and (page.usual is None or page.usual[0] != _of_rows(page)):
        page.usual = _of_rows(page), usual_kind(plan)
    started = time.perf_counter()
    beside = other_of_pair(page)
    page.at_scale = beside is not None
    ran = page.measured
    page.until_s = max(plan["span_s"], beside[1] if beside else 0.0, run_drawing.until_s(ran) if ran else 0.0)
    message = drawing.plan_message(page.view, page.skeleton, plan, page.theme, page.earlier, rows(page), beside, ran)
    done = time.perf_counter()
    page.send(
        {
            **message,
            "props": {**message["props"], **tables(page), **inspector_props(page), **around(page)},
            "reason": reason,
            "turn": page.turn,
            "timing": {
                "server_ms": (done - page.search_began) * 1e3,
                "solve_ms": plan["runtime_s"] * 1e3,
                "draw_ms": (done - started) * 1e3,
            },
        }
    )


def rows(page: PageState) -> Look:
    """The look with the rows that stay as they are from plan to plan, unless somebody chooses others."""
    if page.look.rows != "auto" or page.usual is None or page.usual[0] != _of_rows(page):
        return page.look
    return replace(page.look, rows=page.usual[1])


def _of_rows(page: PageState) -> str:
    """What usual rows are of."""
    assert page.skeleton is not None
    assert page.plan is not None
    return f"{page.skeleton['hash']} {page.plan['objective']}"


def rebound(page: PageState, bound_s: float) -> None:
    """The same plan under a better bound. New cards take a browser a tenth of a second and more, so they are sent no
    more than twice a second; a search's end sends the last ones."""
    now = time.perf_counter()
    if page.plan is not None and page.plan["bound_s"] != bound_s and now - page.rebound_at >= REBOUND_EVERY_S:
        page.rebound_at = now
        page.plan = {**page.plan, "bound_s": bound_s}
        cards, why = panels.kpis(page.plan, page.earlier), panels.why_panel(page.plan)
        page.send({"type": "props", "props": {ids.KPIS: {"children": cards}, ids.WHY: {"children": why}}})


def tables(page: PageState) -> Props:
    """Those that somebody has opened."""
    props = comparison_props(page) if "compare" in page.open else {}
    if page.plan is None or page.view is None or page.skeleton is None:
        return props
    return {**props, **drawing.tables(page.view, page.skeleton, page.plan, page.open, page.measured, rows(page))}


# -- around the plan --------------------------------------------------------------------------------


def around(page: PageState) -> Props:
    """What stands around a plan and changes with it: the pair that it is of, the costs that it was made with, and what
    its search found besides."""
    plan = page.plan
    if page.lean is not None:
        answer = page.lean[0]["plan"]
        if (plan.get("beside") if plan is not None else None) != (answer.get("held") if answer is not None else None):
            page.lean = None
    if page.answered is not None and plan is not None and plan.get("front"):
        page.lean = page.answered, None
    props = {ids.PAIR: {"children": pair_strip(page)}, ids.BESIDE: {"children": lean_plans(page)}}
    table = None if plan is None else degree_map(plan.get("by_degrees", []))
    props[ids.DEGREES] = {"children": [] if table is None else degree_panel.degree_panel(table)}
    if page.skeleton is not None and plan is not None:
        props[ids.CHIP] = {"children": panels.chip(page.skeleton, plan.get("costs_from"))}
    return props


def lean_plans(page: PageState, words: str = "") -> list[object]:
    """words: why one cannot be shown."""
    answer = page.lean[0]["plan"] if page.lean is not None else None
    return [] if page.lean is None or answer is None else beside_panel.beside(answer, page.lean[1], words)


def pair_strip(page: PageState) -> list[object]:
    """Two plans of the question to choose from, or the offer to look for them."""
    session, plan = page.session, page.plan
    if session is None or not session.look.pair:
        pipelines = plan is not None and plan["objective"] != "makespan"
        seen = sentence(plan) if plan is not None else ""
        return pair_panel.offer(page.server.choices.planners if pipelines else (), seen)
    answers = page.pairing.answers(session)
    return pair_panel.strip(session.look.pair, answers, of_pair(page), page.goes_on(page.pairing.turn))


def show_pair(page: PageState) -> None:
    page.send({"type": "props", "props": around(page)})


def of_pair(page: PageState) -> str | None:
    """Which of the pair the plan on the page is, for what the page asks now."""
    drawn, now = page.drawn, page.session
    if page.plan is None or drawn is None or now is None or pair_question(drawn) != pair_question(now):
        return None
    name = member(page.plan["planner"], drawn.settings)
    return name if name in now.look.pair else None


def other_of_pair(page: PageState) -> tuple[str, float] | None:
    """Name and end of the other plan of the pair, whose time scale the schedule shares; None if it is not there."""
    shown = of_pair(page)
    for answer in page.pairing.complete(page.session) if shown else ():
        if answer.member != shown and answer.facts is not None:
            return versus.shown_name(answer.member), answer.facts.span_s
    return None
