"""One open page: what it is told as its person changes things and its solver finds things.

A state machine without sockets or threads: messages and events come in, messages go out through
``send``. Every answer is one message, so a change costs one round trip.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.library.notes import is_known
from explorer.view.events import Event, before_you, unpacked
from explorer.view.figures import figures
from explorer.view.graph import search
from explorer.view.graph.opening import first_view
from explorer.view.graph.skeleton import Skeleton
from explorer.view.lessons.lesson import Lesson
from explorer.view.session import Choices, Session, parse, to_query
from explorer.web.contract import ids
from explorer.web.contract.backend import Backend, SolveRequest
from explorer.web.parts import panels
from explorer.web.parts.choices import objectives
from explorer.web.redraw import drawing
from explorer.web.redraw.picture import MAX_CANVAS_PX, MIN_CANVAS_PX, Message
from explorer.web.talk.answers import Answers
from explorer.web.talk.lesson_talk import LessonTalk
from explorer.web.talk.open_talk import GONE
from explorer.web.talk.outlet import OwnedOutlet
from explorer.web.talk.runs import Runs
from explorer.web.talk.shelf import Shelf
from explorer.words import text
from solvers.errors import InvalidProblem

log = logging.getLogger(__name__)

REMEMBERED = 12
"""Skeletons that all pages share, those shown last: a graph on many pages is in memory once."""


class Conversation(LessonTalk):
    """State of one page. ``deliver`` brings a worker's event back to `on_event` on the right thread.

    planned: the ``model`` event of the search for what is asked. repeated: whether that is asked a second time, since
    the plan that came was of another graph.
    """

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        skeletons: MutableMapping[str, Skeleton],
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
        runs: Runs | None = None,
        shelf: Shelf | None = None,
        answers: Answers | None = None,
        outlet: OwnedOutlet | None = None,
        lessons: Sequence[Lesson] = (),
    ) -> None:
        super().__init__(backend, choices, send, deliver, runs, shelf, outlet)
        self.lessons = lessons
        self.answers = Answers() if answers is None else answers
        self.skeletons = skeletons
        self.cancelling = False
        self.asking: Session | None = None
        self.planned: Event | None = None
        self.repeated = False

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
            "find": self._find,
            "open": self._open,
            "compare": self._compare,
            "stop-comparing": self._stop_comparing,
            "show-row": self._show_row,
            "view": self._view,
            "window": self._window,
            "pair": self._pair,
            "unpair": self._unpair,
            "show-pair": self._show_pair,
            "run": self._run,
            "run-target": self._run_target,
            "run-anyway": self._run_anyway,
            "plan-here": self._plan_here,
            "cancel-run": self._cancel_run,
            "show-run": self._show_run,
            "replan": self._replan,
            "opening": self._opening,
            "reopen": self._reopen,
            "export": self._export,
            "show-lean": self._show_lean,
            "pin": self._pin,
            "together": self._together,
            "keep": self._keep,
            "forget": self._forget,
            "rename": self._rename,
            "as-baseline": self._as_baseline,
            "differ": self._differ,
            "share": self._share,
            "same": self._same,
            "help": self._help,
            "stop-help": self._stop_help,
            "go-help": self._go_help,
            "sweep": self._sweep,
            "stop-sweep": self._stop_sweep,
            "go-sweep": self._go_sweep,
            "lesson": self._lesson,
            "leave-lesson": self._leave_lesson,
            "course": self._course,
            "waits": self._waits,
            "why-here": self._why_here,
            "stop-why-here": self._stop_why_here,
        }
        act = acts.get(str(message.get("type")))
        if act is None:
            words = "the page sent a message that this server does not know; load the page again"
            self.send({"type": "banner", "children": panels.failure(words)})
            return
        try:
            act(message)
        except InvalidProblem as error:
            self._failed(str(error))

    def close(self) -> None:
        """The page is gone: its job is not needed any more. A run goes on: it belongs to all pages."""
        self.unlisten()
        if self.reading is not None:
            self.backend.cancel(self.reading[1])
            self.reading = None
        self._drop_preparing()
        self.close_asides()
        self.turn = self.comparing.turn = self.pairing.turn = next(self.turns)
        for job in (self.job, self.comparing.job, self.pairing.job):
            if job is not None:
                self.backend.cancel(job)
        self.job = self.comparing.job = self.pairing.job = None

    def _solve(self, message: Mapping[str, Any]) -> None:
        self._search(self._asked(message), message.get("fresh") is True)

    def _search(self, session: Session, fresh: bool, repeated: bool = False) -> None:
        """Ask for a plan, in place of whatever else the page waits for. fresh: whatever is known from before."""
        self._drop_search()
        self._stop_comparing({})  # it would keep this question waiting
        self._drop_preparing()
        self._drop_pairing()
        self._drop_what_if()
        if self.comparing.rows:
            self._tell_comparison()
        self.earlier = self.shown
        turn = self.turn
        self.cancelling, self.repeated, self.planned = False, repeated, None
        self._unanswered()
        self.steps = []
        self.send(drawing.search_message([], True, 0.0))
        self._status("waiting", "waiting", "for the solver", query=to_query(session), elapsed_s=0.0, asked=True)
        self.asking = session
        if not fresh and self._answer_again(session):
            return
        held = self._held()
        request = SolveRequest(
            self._model_of(session),
            session.settings,
            session.planner,
            session.time_limit_s,
            session.seed,
            session.effort,
            self._files_of(session),
            held if held.startswith("plan-") else "",
            fresh,
        )
        self.job = self.backend.start(request, lambda event: self.deliver(turn, event))
        if session.look.pair:
            self._tell_pair()

    def _answer_again(self, session: Session) -> bool:
        """Whether the question was answered before, on whichever page: then nobody is asked."""
        found = self.answers.get(session)
        if found is None:
            return False
        event, model = found
        self._model(self._graph(model))
        self._result(event, again=True)
        return True

    def _asked(self, message: Mapping[str, Any]) -> Session:
        """The session that a message brings, which is the page's from now on."""
        raw = message.get("session")
        session = replace(parse(raw if isinstance(raw, Mapping) else {}, self._known()), look=self.look)
        canvas = message.get("canvas")
        if (
            isinstance(canvas, list)
            and len(canvas) == 2
            and all(isinstance(side, (int, float)) and MIN_CANVAS_PX <= side <= MAX_CANVAS_PX for side in canvas)
        ):
            self.canvas = (float(canvas[0]), float(canvas[1]))
        before = self.session
        if before is not None and before.model != session.model:
            self.selected = None
        if before is not None and _subject(before) != _subject(session):
            self.shown = None  # figures of another model, or of training where this is inference, tell nothing
        self.session, self.theme = session, session.theme
        self.asked_at = time.perf_counter()
        return session

    def _cancel(self, _: Mapping[str, Any]) -> None:
        if self.job is not None:
            self.cancelling = True
            self.backend.cancel(self.job)
        self._stop_comparing({})
        self._stop_pairing()

    def _compare(self, message: Mapping[str, Any]) -> None:
        """Run every planner on what the page asks; a solve that is running ends first."""
        session = self._asked(message)
        self._stop_comparing({})
        turn = next(self.turns)
        request = self.comparing.begin(session, message.get("every") is True, turn)
        request = replace(request, model=self._model_of(session), files=self._files_of(session))
        self.comparing.job = self.backend.compare(request, lambda event: self.deliver(turn, event))
        if self.job is None:
            self._status("solving", "comparing", "…", query=to_query(session))
        self._tell_comparison()

    def _stop_comparing(self, _: Mapping[str, Any]) -> None:
        if self.comparing.job is not None:
            self.comparing.stopping = True
            self.backend.cancel(self.comparing.job)
            self._tell_comparison()

    def _show_row(self, message: Mapping[str, Any]) -> None:
        """Put the plan of a row on the page, as if its planner had been asked for it."""
        element = message.get("element")
        if not isinstance(element, str) or not re.fullmatch("[0-9]{1,4}", element) or self.skeleton is None:
            return
        found = self.comparing.shown(int(element), self.session, self.skeleton["hash"])
        if found is None:
            return
        self._drop_search()
        self._show(*found)

    # -- from the solver ------------------------------------------------------------------------

    def on_event(self, turn: int, event: Event) -> None:
        """Pass on an event of the job of ``turn``; those of earlier turns are dropped."""
        if turn == self.comparing.turn:
            self._on_comparison(event)
            return
        if turn == self.pairing.turn:
            self._on_pair(event)
            return
        if self._on_aside(turn, event) or self._on_read(turn, event) or self._on_run(turn, event) or turn != self.turn:
            return
        match event["kind"]:
            case "waiting":
                self._waiting(event)
            case "loading":
                self._status("loading", event["text"], "", elapsed_s=time.perf_counter() - self.asked_at)
            case "compiling":
                self._compiling(event)
            case "model":
                self.planned, self.steps = event, []
                self._model(self._graph(event))
                self._status("solving", self.session.planner if self.session else "", "…", elapsed_s=0.0)
            case "progress":
                self._progress(event)
            case "result":
                if self.asking is not None and self.planned is not None and self._fits(event["plan"]):
                    self.answers.keep(self.asking, event, self.planned)
                self._result(event, again=is_known(event["notes"]))
            case "failed":
                self.job = None
                if self.cancelling:
                    self._stand("cancelled", "cancelled", "before there was a plan")
                else:
                    gone = self.asking is not None and self._are_gone(self.asking)
                    self._failed(GONE if gone else event["message"])

    def _graph(self, event: Event) -> Skeleton:
        """The graph of a ``model`` event: one for all pages that show it lately."""
        found = self.skeletons.pop(event["hash"], None) or unpacked(event["skeleton"])
        self.skeletons[event["hash"]] = found
        while len(self.skeletons) > REMEMBERED:
            self.skeletons.pop(next(iter(self.skeletons)))
        return found

    def _model(self, skeleton: Skeleton) -> None:
        if self.skeleton is not None and self.skeleton["hash"] == skeleton["hash"]:
            return
        self.skeleton, self.plan = skeleton, None
        self._arrange(first_view(skeleton, self.canvas if all(self.canvas) else None))
        caps = self.session.settings.memory_bytes if self.session else None
        least = drawing.least_cap(skeleton, min(caps) if isinstance(caps, tuple) else caps)
        props = {ids.CHIP: {"children": panels.chip(skeleton)}, ids.MEMORY: {"min": least}}
        props[ids.OBJECTIVE] = {"data": objectives(skeleton["objective"])}
        for control in (ids.PHASE, ids.DTYPE, ids.KIND):  # what a file that brings its own times has settled
            props[control] = {"disabled": skeleton["stated"]}
        self.send({"type": "props", "props": props})
        self.send({"type": "model", "objective": skeleton["objective"], "memory_bytes": skeleton["memory_bytes"]})

    def _waiting(self, event: Event) -> None:
        """A job of this page has not begun, for others come before it."""
        elapsed_s = time.perf_counter() - self.asked_at
        self._status("waiting", "waiting", before_you(event), elapsed_s=elapsed_s)

    def _contradicted(self) -> None:
        """The plan that came is of another graph than the one on the page: nothing of it is drawn."""
        log.error("a plan of another graph came than the one of its question")
        words = "the plan that came was of another graph and was left out"
        if self.repeated or self.session is None:
            self._drop_search()
            self._failed(f"{words}, twice; please report it")
            return
        self.send({"type": "banner", "children": panels.planned_again(words)})
        self._search(self.session, fresh=True, repeated=True)

    def _progress(self, event: Event) -> None:
        if not self._fits(event["plan"]):
            self._contradicted()
            return
        self.steps = search.evenly([*self.steps, *event["steps"]])
        shows = self.plan is not None and self.answered is None and self.drawn is self.session
        if event["plan"] is not None and not (shows and self.plan is not None and _is_drawn(self.plan, event["plan"])):
            self.plan, self.drawn, self.answered = event["plan"], self.session, None
            self._draw("incumbent")
        elif shows:
            self._rebound(event["bound_s"])
        self.send(drawing.search_message(self.steps, True, event["elapsed_s"]))
        bits = []
        if event["objective_s"]:
            gap = 1 - event["bound_s"] / event["objective_s"]
            bits += [text.seconds(event["objective_s"]), f"gap {text.percent(max(0.0, gap))}"]
        elif event["bound_s"]:
            bits.append(f"bound {text.seconds(event['bound_s'])}")
        words = " · ".join(bits)
        self._status("solving", self.session.planner if self.session else "", words, elapsed_s=event["elapsed_s"])

    def _on_comparison(self, event: Event) -> None:
        comparing = self.comparing
        match event["kind"]:
            case "waiting" if self.job is None:
                self._waiting(event)
            case "loading" if self.job is None:
                self._status("loading", event["text"], "")
            case "compiling" if self.job is None:
                self._compiling(event)
            case "model":
                comparing.model = event["hash"]
                if comparing.fits(self.session):
                    self._model(self._graph(event))
            case "comparing":
                comparing.runs = event["runs"]
                if self.job is None:
                    objective = event["objective_s"]
                    bits = [event["planner"], text.seconds(event["elapsed_s"])]
                    bits += [text.seconds(objective)] if objective else []
                    self._status("solving", f"comparing {event['position']} of {event['runs']}", " · ".join(bits))
            case "row":
                comparing.add(event)
                self._tell_comparison()
            case "compared" | "failed":
                comparing.job = None
                if event["kind"] == "compared":
                    comparing.end(event)
                elif not comparing.stopping:
                    self._failed(event["message"])
                self._tell_comparison()
                if self.job is None and (event["kind"] == "compared" or comparing.stopping):
                    self._status(*self.standing)

    def _result(self, event: Event, query: str | None = None, again: bool = False) -> None:
        """again: whether it was known from before."""
        if not self._fits(event["plan"]):
            self._contradicted()
            return
        self.job = None
        self.current = event["plan"] is not None
        if event["plan"] is None:
            self.send({"type": "banner", "children": panels.no_plan(event)})
            state = {"INFEASIBLE": "infeasible"}.get(event["status"], "none")
            if event["stop_reason"] == "CANCELLED":
                state = "cancelled"
            self._stand(state, event["planner"], "infeasible" if state == "infeasible" else "no plan")
            return
        self.plan, self.drawn, self.answered = event["plan"], self.session, event
        self.steps = list(event["plan"]["trace"])
        self._draw("final")
        self.send(drawing.search_message(self.steps, False, event["runtime_s"]))
        self.shown = figures(self.plan)
        state, planner, words = _outcome(event)
        self._stand(state, planner, words + (" · from before" if again else ""), query)
        if event.get("cut_off"):
            self.send({"type": "banner", "children": panels.cut_off(event["cut_off"])})
        self._new_plan()
        self._follow()

    # -- to the browser -------------------------------------------------------------------------

    def _failed(self, message: str) -> None:
        self.send({"type": "banner", "children": panels.failure(message)})
        self._stand("failed", "failed", text.short(message, 60))


def _is_drawn(drawn: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    """Whether a plan's picture is that of the plan that is drawn."""
    return all(
        drawn[key] == plan[key] for key in ("objective_s", "placement", "stage_of", "pipeline", "spans", "span_s")
    )


def _subject(session: Session) -> tuple[str, bool]:
    """What is planned: figures of one subject compare."""
    return session.model, session.settings.training is not False


def _outcome(event: Event) -> tuple[str, str, str]:
    """(state, planner, words) of a finished solve that has a plan."""
    plan = event["plan"]
    took = text.seconds(event["runtime_s"])
    searched = f", {event['searched']}" if event.get("searched") else ""
    if event["status"] == "OPTIMAL":
        return "optimal", event["planner"], f"{took}{searched} · optimal"
    gap = 1 - plan["bound_s"] / plan["objective_s"] if plan["objective_s"] else 0.0
    told = f"gap {text.percent(gap)}" if plan["bound_s"] else "no bound"
    stopped = {"TIME_LIMIT": " · time limit", "CANCELLED": " · cancelled", "STATE_LIMIT": " · state limit"}
    return "feasible", event["planner"], f"{took}{searched} · {told}{stopped.get(event['stop_reason'], '')}"
