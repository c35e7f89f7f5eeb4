"""What is on one page: a model's graph at some level of detail, a plan over it, and what is selected."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.view import versus
from explorer.view.figures import Figures
from explorer.view.graph.elements import GraphView, depths, expanded_to, graph_view, opened_for
from explorer.view.graph.find import MAX_WORDS, find
from explorer.view.graph.inspect import box_facts, device_facts
from explorer.view.graph.operator_facts import operator_facts
from explorer.view.graph.palette import Theme
from explorer.view.graph.search import Step
from explorer.view.graph.skeleton import Skeleton
from explorer.view.graph.stage_boxes import stage_facts
from explorer.view.graph.stylesheet import stylesheet
from explorer.view.session import Look, Session, member
from explorer.view.timeline.gantt_rows import RowKind, usual_kind
from explorer.web.contract import ids
from explorer.web.parts import panels
from explorer.web.redraw import drawing, run_drawing
from explorer.web.redraw.comparing import Comparing
from explorer.web.redraw.pairing import Pairing, pair_question

Message = dict[str, Any]
REBOUND_EVERY_S = 0.5
USUAL_ASPECT = 0.85
MIN_CANVAS_PX, MAX_CANVAS_PX = 40, 20_000


class Picture:
    """The part of a page's state that is drawn, and how it changes without a solver's help.

    session: what the page asks; drawn: what it asked when the plan on it was made. at_scale: whether it
    was drawn at the time scale of a pair. earlier: figures of the plan before, that the cards tell the changes from.
    usual: the rows that the first plan of a model had, where nobody chose any; by the model's hash and objective.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self.send = send
        self.session: Session | None = None
        self.drawn: Session | None = None
        self.theme: Theme = "light"
        self.look = Look()
        self.usual: tuple[str, RowKind] | None = None
        self.canvas = (0.0, 0.0)
        self.turn = 0
        self.asked_at = 0.0
        self.skeleton: Skeleton | None = None
        self.view: GraphView | None = None
        self.plan: Mapping[str, Any] | None = None
        self.earlier: Figures | None = None
        self.selected: tuple[str, str] | None = None
        self.open: frozenset[str] = frozenset()
        self.comparing = Comparing()
        self.pairing = Pairing()
        self.at_scale = False
        self.until_s = 0.0
        self.rebound_at = -math.inf
        self.steps: list[Step] = []

    def _theme(self, message: Mapping[str, Any]) -> None:
        self.theme = "dark" if message.get("theme") == "dark" else "light"
        if self.session is not None:
            self.session = replace(self.session, theme=self.theme)
        self.send({"type": "props", "props": {ids.GRAPH: {"stylesheet": stylesheet(self.theme)}}})
        self._draw("theme")

    def _depth(self, message: Mapping[str, Any]) -> None:
        if self.skeleton is None or self.view is None:
            return
        step = 1 if message.get("step") == 1 else -1
        wanted = min(max(1, self.view.depth + step), depths(self.skeleton))
        self._arrange(expanded_to(self.skeleton, wanted))

    def _expand(self, message: Mapping[str, Any]) -> None:
        if self.view is None or self.skeleton is None:
            return
        expanded = opened_for(self.view, self.skeleton, str(message.get("element")))
        if expanded is not None:
            self._arrange(expanded)

    def _collapse(self, message: Mapping[str, Any]) -> None:
        path = str(message.get("element"))[2:]
        if self.view is not None and path in self.view.expanded:
            below = path + "."
            kept = {p for p in self.view.expanded if p != path and not p.startswith(below)}
            self._arrange(frozenset(kept))

    def _select(self, message: Mapping[str, Any]) -> None:
        kind, which = message.get("kind"), str(message.get("id"))[:400]
        self.selected = (kind, which) if kind in ("box", "device", "stage", "operator") else None
        self._inspect()

    def _find(self, message: Mapping[str, Any]) -> None:
        wanted = message.get("text")
        if self.skeleton is not None and isinstance(wanted, str):
            told = find(self.skeleton, self.plan, wanted)
            self.send({"type": "found", "text": wanted[:MAX_WORDS], **told})

    def _open(self, message: Mapping[str, Any]) -> None:
        shown = message.get("shown")
        self.open = frozenset(str(s)[:40] for s in shown[:8]) if isinstance(shown, list) else frozenset()
        self.send({"type": "props", "props": self._tables()})

    @property
    def _aspect(self) -> float:
        """Width / height of the place for the graph, as far as the page has said."""
        width, height = self.canvas
        return min(5.0, max(0.2, width / height)) if width and height else USUAL_ASPECT

    def _arrange(self, expanded: frozenset[str]) -> None:
        if self.skeleton is None:
            return
        self.view = graph_view(self.skeleton, expanded, self._aspect)
        self.send(drawing.graph_message(self.view, self.skeleton))
        if self.plan is not None:
            self.send(drawing.overlay_message(self.view, self.skeleton, self.plan, self._measured()))
            self.send({"type": "props", "props": self._tables()})

    def _fits(self, plan: Mapping[str, Any] | None) -> bool:
        """Whether a plan, if there is one, is of the graph on the page."""
        return plan is None or (self.skeleton is not None and self.skeleton["graph"] == plan["graph"])

    @property
    def rows(self) -> Look:
        """The look with the rows that stay as they are from plan to plan, unless somebody chooses others."""
        if self.look.rows != "auto" or self.usual is None or self.usual[0] != self._of_rows():
            return self.look
        return replace(self.look, rows=self.usual[1])

    def _of_rows(self) -> str:
        """What usual rows are kept for."""
        assert self.skeleton is not None
        assert self.plan is not None
        return f"{self.skeleton['hash']} {self.plan['objective']}"

    def _draw(self, reason: str) -> None:
        if self.plan is None or self.view is None or self.skeleton is None:
            return
        if reason == "final" and (self.usual is None or self.usual[0] != self._of_rows()):
            self.usual = self._of_rows(), usual_kind(self.plan)
        started = time.perf_counter()
        beside = self._beside()
        self.at_scale = beside is not None
        ran = self._measured()
        ends = (beside[1] if beside else 0.0, run_drawing.until_s(ran) if ran else 0.0)
        self.until_s = max(self.plan["span_s"], *ends)
        message = drawing.plan_message(
            self.view, self.skeleton, self.plan, self.theme, self.earlier, self.rows, beside, ran
        )
        message["props"] |= self._tables() | self._inspector() | self._around()
        done = time.perf_counter()
        message |= {
            "reason": reason,
            "turn": self.turn,
            "timing": {
                "server_ms": (done - self.asked_at) * 1e3,
                "solve_ms": self.plan["runtime_s"] * 1e3,
                "draw_ms": (done - started) * 1e3,
            },
        }
        self.send(message)

    def _window(self, message: Mapping[str, Any]) -> None:
        """Another part of the schedule is in sight: its bars at that scale."""
        if self.plan is None or self.skeleton is None:
            return
        start, end = (finite_number(message.get(key)) for key in ("from", "to"))
        if start is None or end is None or start >= end:
            return
        window = (start, end)
        self.send(drawing.window_message(self.skeleton, self.plan, self.theme, self.rows, window, self.until_s))

    def _rebound(self, bound_s: float) -> None:
        """The same plan under a better bound. New cards take a browser a tenth of a second and more, so they are told
        no more than twice a second; a search's end tells the last one."""
        now = time.perf_counter()
        if self.plan is not None and self.plan["bound_s"] != bound_s and now - self.rebound_at >= REBOUND_EVERY_S:
            self.rebound_at = now
            self.plan = {**self.plan, "bound_s": bound_s}
            props = {ids.KPIS: {"children": panels.kpis(self.plan, self.earlier)}}
            self.send({"type": "props", "props": props | {ids.WHY: {"children": panels.why_panel(self.plan)}}})

    def _tables(self) -> dict[str, Any]:
        props = self.comparing.props(self.session, self._shown()) if "compare" in self.open else {}
        if self.plan is None or self.view is None or self.skeleton is None:
            return props
        return props | drawing.tables(self.view, self.skeleton, self.plan, self.open, self._measured(), self.rows)

    def _shown(self) -> tuple[str, str] | None:
        """Planner and contiguity of the plan on the page, if the comparison is of its settings."""
        if self.plan is None or not self.comparing.fits(self.drawn):
            return None
        return self.plan["planner"], self.plan["contiguity"]

    def _measured(self) -> Mapping[str, Any] | None:
        """The comparison of the plan on the page with its run, if it has run."""
        return None

    def _around(self) -> dict[str, Any]:
        """More properties that change with a plan."""
        return {}

    def _of_pair(self) -> str | None:
        """Which of the pair the plan on the page is, for what the page asks now."""
        drawn, now = self.drawn, self.session
        if self.plan is None or drawn is None or now is None or pair_question(drawn) != pair_question(now):
            return None
        name = member(self.plan["planner"], drawn.settings)
        return name if name in now.look.pair else None

    def _beside(self) -> tuple[str, float] | None:
        """Name and end of the other plan of the pair, whose time scale the schedule shares; None if it is
        not there."""
        shown = self._of_pair()
        both = self.pairing.complete(self.session) if shown else ()
        for answer in both:
            if answer.member != shown and answer.facts is not None:
                return versus.shown_name(answer.member), answer.facts.span_s
        return None

    def _tell_comparison(self) -> None:
        self.send({"type": "props", "props": self.comparing.props(self.session, self._shown())})

    def _inspector(self) -> dict[str, Any]:
        facts = None
        if self.selected and self.view is not None and self.skeleton is not None:
            kind, which = self.selected
            if kind == "box":
                facts = box_facts(which, self.view, self.skeleton, self.plan)
            elif kind == "operator" and self.plan is not None and which.isdecimal():
                facts = operator_facts(int(which), self.skeleton, self.plan)
            elif self.plan is not None and which.isdecimal():
                of = stage_facts if kind == "stage" else device_facts
                facts = of(int(which), self.plan)
            ran = self._measured()
            if facts is not None and ran is not None:
                facts = replace(facts, rows=(*facts.rows, *run_drawing.facts(kind, which, self.view, ran)))
        return {ids.INSPECTOR: {"children": panels.inspector(facts)}}

    def _inspect(self) -> None:
        self.send({"type": "props", "props": self._inspector()})


def finite_number(value: object) -> float | None:
    """A number that a page sent; an integer may be too large to be one."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
