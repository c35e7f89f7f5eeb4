"""One open page: what it is told as its person changes things and its solver finds things.

A state machine without sockets or threads: messages and events come in, messages go out through
``send``. Every answer is one message, so a change costs one round trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from explorer.view import text
from explorer.view.elements import GraphView, depths, expanded_to, graph_view, readable_depth
from explorer.view.events import Event
from explorer.view.inspect import box_facts, device_facts
from explorer.view.palette import Theme
from explorer.view.session import Choices, Session, parse, to_query
from explorer.view.skeleton import Skeleton
from explorer.web import drawing, ids, panels
from explorer.web.backend import Backend, SolveRequest
from explorer.web.stylesheet import stylesheet
from solvers.errors import InvalidProblem

Message = dict[str, Any]
REMEMBERED = 12
"""Skeletons kept for all pages together, so that going back to a model is instant."""


class Conversation:
    """State of one page. ``deliver`` brings a worker's event back to `on_event` on the right thread."""

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        skeletons: MutableMapping[str, Skeleton],
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
    ) -> None:
        self.backend, self.choices, self.skeletons = backend, choices, skeletons
        self.send, self.deliver = send, deliver
        self.session: Session | None = None
        self.theme: Theme = "light"
        self.aspect = 0.85
        self.job: str | None = None
        self.turn = 0
        self.asked_at = 0.0
        self.skeleton: Skeleton | None = None
        self.view: GraphView | None = None
        self.plan: Mapping[str, Any] | None = None
        self.shown_s: float | None = None
        self.before_s: float | None = None
        self.selected: tuple[str, str] | None = None
        self.open: frozenset[str] = frozenset()
        self.log: list[str] = []

    # -- from the browser -----------------------------------------------------------------------

    def receive(self, message: Mapping[str, Any]) -> None:
        """Act on one message of the page. What does not parse is answered, never raised."""
        acts: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "solve": self._solve,
            "cancel": self._cancel,
            "theme": self._theme,
            "depth": self._depth,
            "expand": self._expand,
            "collapse": self._collapse,
            "select": self._select,
            "open": self._open,
        }
        act = acts.get(str(message.get("type")))
        if act is None:
            return
        try:
            act(message)
        except InvalidProblem as error:
            self._failed(str(error))

    def close(self) -> None:
        """The page is gone: its job is not needed any more."""
        self.turn += 1
        if self.job is not None:
            self.backend.cancel(self.job)
            self.job = None

    def _solve(self, message: Mapping[str, Any]) -> None:
        raw = message.get("session")
        session = parse(raw if isinstance(raw, Mapping) else {}, self.choices)
        aspect = message.get("aspect")
        if isinstance(aspect, (int, float)) and 0.2 <= aspect <= 5:
            self.aspect = float(aspect)
        if self.job is not None:
            self.backend.cancel(self.job)
        if self.session is not None and self.session.model != session.model:
            self.shown_s = None
            self.selected = None
        self.session, self.theme = session, session.theme
        self.before_s = self.shown_s
        self.turn += 1
        self.asked_at = time.perf_counter()
        turn = self.turn
        self._status("solving", session.planner, "…", query=to_query(session))
        request = SolveRequest(
            session.model, session.settings, session.planner, session.time_limit_s, frozenset(self.skeletons)
        )
        self.job = self.backend.start(request, lambda event: self.deliver(turn, event))

    def _cancel(self, _: Mapping[str, Any]) -> None:
        if self.job is not None:
            self.backend.cancel(self.job)

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
        element = str(message.get("element"))
        if self.view is not None and element in self.view.expandable:
            self._arrange(self.view.expanded | {element[2:]})

    def _collapse(self, message: Mapping[str, Any]) -> None:
        path = str(message.get("element"))[2:]
        if self.view is not None and path in self.view.expanded:
            below = path + "."
            kept = {p for p in self.view.expanded if p != path and not p.startswith(below)}
            self._arrange(frozenset(kept))

    def _select(self, message: Mapping[str, Any]) -> None:
        kind, which = message.get("kind"), str(message.get("id"))[:400]
        self.selected = (kind, which) if kind in ("box", "device") else None
        self._inspect()

    def _open(self, message: Mapping[str, Any]) -> None:
        shown = message.get("shown")
        self.open = frozenset(str(s)[:40] for s in shown[:8]) if isinstance(shown, list) else frozenset()
        self.send({"type": "props", "props": self._tables()})

    # -- from the solver ------------------------------------------------------------------------

    def on_event(self, turn: int, event: Event) -> None:
        """Pass on an event of the job of ``turn``; those of earlier turns are dropped."""
        if turn != self.turn:
            return
        match event["kind"]:
            case "loading":
                self._status("loading", event["text"], "")
            case "model":
                self._model(event)
            case "progress":
                self._progress(event)
            case "result":
                self._result(event)
            case "failed":
                self.job = None
                self._failed(event["message"])

    def _model(self, event: Event) -> None:
        skeleton = event["skeleton"] or self.skeletons.get(event["hash"])
        if skeleton is None or (self.skeleton is not None and self.skeleton["hash"] == event["hash"]):
            return
        self.skeletons[event["hash"]] = skeleton
        while len(self.skeletons) > REMEMBERED:
            self.skeletons.pop(next(iter(self.skeletons)))
        self.skeleton, self.plan = skeleton, None
        self._arrange(expanded_to(skeleton, readable_depth(skeleton)))
        least = drawing.least_cap(skeleton, self.session.settings.memory_bytes if self.session else None)
        props = {ids.CHIP: {"children": panels.chip(skeleton)}, ids.MEMORY: {"min": least}}
        for control in (ids.PHASE, ids.DTYPE, ids.KIND):  # what a file that brings its own times has settled
            props[control] = {"disabled": skeleton["stated"]}
        self.send({"type": "props", "props": props})

    def _progress(self, event: Event) -> None:
        if event["plan"] is not None:
            self.plan = event["plan"]
            self._draw("incumbent")
        bits = [text.seconds(event["elapsed_s"])]
        if event["objective_s"]:
            gap = 1 - event["bound_s"] / event["objective_s"]
            bits += [text.seconds(event["objective_s"]), f"gap {text.percent(max(0.0, gap))}"]
        elif event["bound_s"]:
            bits.append(f"bound {text.seconds(event['bound_s'])}")
        self._status("solving", self.session.planner if self.session else "", " · ".join(bits))

    def _result(self, event: Event) -> None:
        self.job = None
        if event["plan"] is None:
            self.send({"type": "banner", "children": panels.no_plan(event)})
            state = {"INFEASIBLE": "infeasible"}.get(event["status"], "none")
            if event["stop_reason"] == "CANCELLED":
                state = "cancelled"
            self._status(state, event["planner"], "infeasible" if state == "infeasible" else "no plan")
            return
        self.plan = event["plan"]
        self._draw("final")
        self.shown_s = self.plan["objective_s"]
        self._status(*_outcome(event))

    # -- to the browser -------------------------------------------------------------------------

    def _arrange(self, expanded: frozenset[str]) -> None:
        if self.skeleton is None:
            return
        self.view = graph_view(self.skeleton, expanded, self.aspect)
        self.send(drawing.graph_message(self.view, self.skeleton))
        if self.plan is not None:
            self.send(drawing.overlay_message(self.view, self.skeleton, self.plan))
            self.send({"type": "props", "props": self._tables()})

    def _draw(self, reason: str) -> None:
        if self.plan is None or self.view is None or self.skeleton is None:
            return
        started = time.perf_counter()
        message = drawing.plan_message(self.view, self.skeleton, self.plan, self.theme, self.before_s)
        message["props"] |= self._tables() | self._inspector()
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

    def _tables(self) -> dict[str, Any]:
        if self.plan is None or self.view is None or self.skeleton is None:
            return {}
        return drawing.tables(self.view, self.skeleton, self.plan, self.open)

    def _inspector(self) -> dict[str, Any]:
        facts = None
        if self.selected and self.view is not None and self.skeleton is not None:
            kind, which = self.selected
            if kind == "box":
                facts = box_facts(which, self.view, self.skeleton, self.plan)
            elif self.plan is not None and which.isdecimal():
                facts = device_facts(int(which), self.plan)
        return {ids.INSPECTOR: {"children": panels.inspector(facts)}}

    def _inspect(self) -> None:
        self.send({"type": "props", "props": self._inspector()})

    def _failed(self, message: str) -> None:
        self.send({"type": "banner", "children": panels.failure(message)})
        self._status("failed", "failed", text.short(message, 60))

    def _status(self, state: str, what: str, more: str, query: str | None = None) -> None:
        message = {"type": "status", "state": state, "what": what, "more": more, "turn": self.turn}
        self.send(message if query is None else message | {"query": query})


def _outcome(event: Event) -> tuple[str, str, str]:
    """(state, planner, words) of a finished solve that has a plan."""
    plan = event["plan"]
    took = text.seconds(event["runtime_s"])
    if event["status"] == "OPTIMAL":
        return "optimal", event["planner"], f"{took} · optimal"
    gap = 1 - plan["bound_s"] / plan["objective_s"] if plan["objective_s"] else 0.0
    told = f"gap {text.percent(gap)}" if plan["bound_s"] else "no bound"
    stopped = {"TIME_LIMIT": " · time limit", "CANCELLED": " · cancelled", "STATE_LIMIT": " · state limit"}
    return "feasible", event["planner"], f"{took} · {told}{stopped.get(event['stop_reason'], '')}"
