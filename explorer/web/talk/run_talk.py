"""The part of a page's conversation that is about running plans."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from explorer.jobs.requests import PrepareRequest, ReplanRequest, RunPlanRequest, ShowRunRequest
from explorer.view.events import Event, unpacked
from explorer.view.figures import figures
from explorer.view.graph.skeleton import Skeleton
from explorer.view.session import parse_run
from explorer.web.parts import run_panel
from explorer.web.redraw import drawing
from explorer.web.talk.run_picture import NOTHING, RUNS, RunPicture
from solvers.errors import InvalidProblem

NO_CODE = (
    "only code can be run: a demo model, or package.module:callable named where this server was started; a file holds"
    " the graph alone"
)


class RunTalk(RunPicture):
    """Asks for runs, and hears of them."""

    # -- from the browser -----------------------------------------------------------------------

    def _open(self, message: Mapping[str, Any]) -> None:
        super()._open(message)
        self._prepare()
        if self.choices.targets:
            self._tell_run()

    def _run(self, message: Mapping[str, Any]) -> None:
        """Run the plan on the page, as soon as it was looked at."""
        try:
            self.wanted = parse_run(message, self.choices)
        except InvalidProblem as error:
            self._complain(str(error))
            return
        self.complaint, self.target = None, self.wanted.target
        if not self._runnable():
            self._complain("there is no finished plan to run; solve first")
            return
        self._prepare()
        self._begin()
        self._tell_run()

    def _run_anyway(self, _: Mapping[str, Any]) -> None:
        """The person knows that the costs are of other hardware."""
        found, asked = self.prepared, self.postponed
        if found is None or asked is None or not self._runnable():
            return
        self.agreed = found["held"], found["target"]
        self.wanted, self.postponed = asked, None
        self._begin()
        self._tell_run()

    def _plan_here(self, _: Mapping[str, Any]) -> None:
        """Measure costs on the target, and plan for it instead."""
        found = self.prepared
        if found is not None and self._runnable() and not found["refused"]:
            self._measure(found["held"], found["text"], found["target"], found["model"])

    def _run_target(self, message: Mapping[str, Any]) -> None:
        """Another target is chosen: what is to be known of the plan may differ there."""
        name = message.get("target")
        if isinstance(name, str) and name in self.choices.targets and name != self.target:
            self.target = name
            self._prepare()
            self._tell_run()

    def _cancel_run(self, _: Mapping[str, Any]) -> None:
        self.wanted = None
        self.runs.cancel()
        self._tell_run()

    def _show_run(self, message: Mapping[str, Any]) -> None:
        """A past run and its plan again."""
        bundle = message.get("element")
        if not isinstance(bundle, str) or all(run.bundle != bundle for run in self._past()):
            return
        self.showing = turn = next(self.turns)
        self.backend.show_run(ShowRunRequest(bundle), lambda event: self.deliver(turn, event))

    def _replan(self, message: Mapping[str, Any]) -> None:
        """Measure costs where the run was, and plan again with them."""
        run = self._ran()
        text_ = self.runs.text(run["held"]) if run is not None else None
        if run is None or text_ is None:
            return
        self._measure(run["held"], text_, run["target"], run["model"])

    def _measure(self, held: str, packed: bytes, target: str, model: str) -> None:
        """Plan again what the page asks, with costs measured on a target."""
        session = self.session
        if session is None:
            return
        self.postponed = None
        request = ReplanRequest(
            held,
            packed,
            target,
            self._model_of(session),
            session.settings,
            session.planner,
            session.time_limit_s,
            session.seed,
            self.backend.may_run(model),
            session.effort,
        )
        self._start(request)
        self._tell_run()

    # -- before a run -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Look at the plan on the page, if somebody may want to run it."""
        held = self._held()
        known = self.prepared is not None and (self.prepared["held"], self.prepared["target"]) == (held, self.target)
        if known or not held or not self.choices.targets or not ("run" in self.open or self.wanted):
            return
        self._drop_preparing()
        turn = next(self.turns)
        request = PrepareRequest(held, self.target, self.runs.text(held))
        self.preparing = turn, self.backend.prepare(request, lambda event: self.deliver(turn, event))

    def _drop_preparing(self) -> None:
        self.prepared = self.postponed = None
        if self.preparing is not None:
            self.backend.cancel(self.preparing[1])
            self.preparing = None

    def _begin(self) -> None:
        """Run what is wanted, if all that is needed is known."""
        found, asked = self.prepared, self.wanted
        if found is None or asked is None:
            return
        self.wanted = None
        if found["refused"] or found["held"] != self._held():
            return
        if found["elsewhere"] and self.agreed != (found["held"], found["target"]):
            self.postponed = asked
            self.run = self.before = None  # what is to be known of this plan is told in their place
            self._say(found["elsewhere"])
            return
        allowed = self.backend.may_run(found["model"])
        self._start(RunPlanRequest(found["held"], found["text"], asked.target, asked.steps, asked.verify, allowed))

    def _start(self, request: RunPlanRequest | ReplanRequest) -> None:
        planner = self.plan["planner"] if self.plan is not None else ""
        self.before = self.complaint = None
        try:
            self.runs.begin(request, f"the plan of {planner}" if planner else "a plan")
        except InvalidProblem as error:
            self.complaint = NOTHING, str(error), ()

    def _new_plan(self) -> None:
        """Another finished plan is on the page."""
        self.wanted = None
        held = self._held()
        self.laid = self._ran()
        if self.runs.going is None:
            self.complaint = None
            self.run = self.run if self.run is not None and self.run["held"] == held else None
            self.before = self.before if self.before is not None and self.before["held"] == held else None
        self._prepare()
        if self.choices.targets:
            self._tell_run()

    # -- from the workers -------------------------------------------------------------------------

    def _on_run(self, turn: int, event: Event) -> bool:
        """Whether an event was about runs."""
        ours = turn == self.showing or (self.preparing is not None and turn == self.preparing[0])
        if ours and event["kind"] in ("waiting", "loading", "compiling"):
            return True
        if turn == RUNS:
            self._on_running(event)
        elif self.preparing is not None and turn == self.preparing[0]:
            self.preparing = None
            if event["kind"] == "prepared":
                self.prepared = event if self.backend.may_run(event["model"]) else {**event, "refused": [NO_CODE]}
                self._begin()
            elif event["kind"] == "failed":
                self.complaint, self.wanted = (NOTHING, event["message"], ()), None
            self._tell_run()
        elif turn == self.showing:
            if event["kind"] == "ran":
                self._take(event["run"])
                self.runs.keep(event["run"]["held"], event["run"]["text"])
                self._put(event["run"])
            else:
                self.complaint = "This run cannot be shown.", event["message"], ()
            self._tell_run()
        else:
            return False
        return True

    def _on_running(self, event: Event) -> None:
        if event["kind"] == "running":
            self._tell_progress()
            return
        match event["kind"]:
            case "ran":
                self._take(event["run"])
                if event["run"] is self._ran():
                    self._draw("run")
                self._say(run_panel.told_in_a_line(event["run"]))
            case "replanned":
                self._put(event)
                self.run, self.before = None, event
                self._say(run_panel.replanned_in_a_line(event))
            case "failed":
                self.complaint = NOTHING, event["message"], tuple(event.get("lines", ()))
                self._say(f"Nothing was run: {event['message']}")
        self._tell_run()

    def _take(self, run: Mapping[str, Any]) -> None:
        """A run that has ended, for the panel, and for the schedule if it was measured."""
        self.run, self.before, self.complaint = run, None, None
        if run["report"] is not None and run["held"] == self._held():
            self.laid = run

    def _put(self, told: Mapping[str, Any]) -> None:
        """The plan of a run on the page. The controls are left as they are: they may ask for another."""
        plan = unpacked(told["plan"])
        if not self._fits(plan):
            self._model(told["skeleton"])
        self._drop_search()
        self.earlier, self.asked_at = None, time.perf_counter()  # of other settings or costs: no better or worse
        costs = told["skeleton"]["costs_from"]
        self.plan = {**plan, "costs_from": costs, "source": told.get("source", "")}
        self.drawn = self.answered = None
        self.laid = told if told.get("report") is not None else None
        self.steps = list(plan["trace"])
        self.current = True
        self._draw("final")
        self.send(drawing.search_message(self.steps, False, plan["runtime_s"]))
        self.shown = figures(plan)
        self._stand("feasible", plan["planner"], told["words"])
        self._new_plan()

    @abstractmethod
    def _model(self, skeleton: Skeleton) -> None:
        """The graph of a model, in place of the one on the page."""
