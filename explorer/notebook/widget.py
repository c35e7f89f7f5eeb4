"""The notebook widget: graph, schedule, memory and why of a plan, with controls; solved in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import traitlets

from explorer.jobs.requests import AskRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.notebook import workshop
from explorer.notebook.controls import controls
from explorer.notebook.drawn import DrawnWidget
from explorer.notebook.explanations import Beside
from explorer.notebook.messages import Message, checked_message, value_of
from explorer.notebook.showing import Showing
from explorer.notebook.solving import InvalidTrait, NoPlan, Solving
from explorer.notebook.status import WAITING, Status, of_event, reason
from explorer.notebook.trying import Subject, Trying
from explorer.question.packing import PackedGraph, packed_graph, packed_problem, unpacked_result
from explorer.question.problems import make_problem
from explorer.question.questions import PLAN, Question, workload_of
from explorer.question.written.closest import closest
from explorer.question.written.declaring import Setting
from explorer.view.events import Event
from explorer.view.events import result as result_event
from explorer.view.figures import Figures, figures
from explorer.view.graph import pinning
from explorer.view.plan_types import PlanView
from explorer.view.plan_view import result_view
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError
from solvers.formats.workload import Workload
from solvers.plan.result import Result
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem

if TYPE_CHECKING:
    from explorer.question.settings import Value

QUESTION_TRAITS = tuple(one.name for one in PLAN)
"""The traits that make the question."""


class QuestionTrait(traitlets.Any):
    """A part of the question. None is a value like any other, which is checked, too."""

    allow_none = False


def plain_value(value: object, widget: object) -> object:
    """A setting as a browser is sent it: text, a number, a list of these or None; anything else by its name."""
    if isinstance(value, list | tuple):
        return [plain_value(one, widget) for one in value]
    return value if value is None or isinstance(value, str | int | float) else getattr(value, "name", str(value))


def _trait(one: Setting) -> QuestionTrait:
    """The trait of a setting.

    Where the setting has a control, a browser may set it, by that or by a link (`jslink`) to another widget.
    """
    shown = one.control is not None and one.control.in_widget
    return QuestionTrait().tag(sync=True, to_json=plain_value) if shown else QuestionTrait()


@dataclass(frozen=True)
class Pinning:
    """A pin that was just set, in words, with the question and the objective before it, in seconds."""

    words: str
    question: Question
    objective_s: float


class PlacementWidget(DrawnWidget):
    """A model's plan in a notebook: ``PlacementWidget(graph, devices=4, memory="16GiB")`` shows it and asks for a plan.

    graph: what `explorer.trace` returns. The other arguments are traits of the same names; they are those of
    `explorer.plan`. Setting one asks again in the background: a cell never waits, ``await widget.solved()`` does. What
    makes no sense raises InvalidProblem (a TraitError, too) at the assignment and leaves the old value; several that
    only make sense together are set inside ``with widget.hold_trait_notifications():``.

    problem: the question in full; setting one asks it as it is. result: the newest answer, None until there is one
    and while nothing is known; setting one shows it. selection: what is selected, a `Selection` or None; it takes an
    operator's name, a module's path, "stage 2" or "GPU 3". status: "waiting", "loading", "solving", then "optimal",
    "feasible", "infeasible", "none" (no plan in the time given), "cancelled" or "failed".

    Raises InvalidProblem for arguments that make no sense.
    """

    _status = traitlets.Dict().tag(sync=True)
    _controls = traitlets.Dict().tag(sync=True)

    locals().update({one.name: _trait(one) for one in PLAN})

    problem = traitlets.Instance(Problem)
    result = traitlets.Instance(Result, allow_none=True)
    status = traitlets.Unicode("waiting", read_only=True).tag(sync=True)

    def __init__(self, graph: Workload | OpGraph, **question: Value) -> None:
        self._begin(workload_of(graph), question)
        super().__init__()
        self._open()
        self._search()

    @classmethod
    def of(cls, result: Result) -> PlacementWidget:
        """A widget that shows a result. Raises InvalidProblem for one of no known problem."""
        widget = cls.__new__(cls)
        problem = result.problem
        widget._begin(_workload_of_problem(problem), {}, problem)
        super(PlacementWidget, widget).__init__()
        widget._open()
        widget.result = result
        return widget

    def _begin(self, workload: Workload, given: Mapping[str, Any], problem: Problem | None = None) -> None:
        """All that is no trait, before there are traits. given: settings as they were written."""
        self._written = {one.name: one.default for one in PLAN} | dict(given)
        question = _question(given)
        self._begin_drawing(Showing(workload))
        self._lock = threading.RLock()
        self._workload = workload
        self._question = question
        self._current_problem = make_problem(workload, question) if problem is None else problem
        question.chosen_planner()
        self._given = problem is not None
        self._packed: PackedGraph | None = None
        self._beside = Beside(self.send)
        self._solving = Solving(self._jobs, self._hear_worker, self._post)
        self._trying = Trying(lambda: self._jobs(), self._solving.soon, self._tried)
        self._pinning: Pinning | None = None
        self._pin_cost = ""
        self._latest: Figures | None = None
        self._held = ""
        self._stands: Status = WAITING
        self._stood: Status | None = None  # before kernels were compiled, while they are
        self._refused: dict[str, str] | None = None
        self._failure: PlacementError | None = None

    def _jobs(self) -> Jobs:
        """The worker that solves."""
        return workshop.jobs()

    def _post(self, act: Callable[[], None]) -> None:
        """Talk to the worker without waiting for it."""
        workshop.post(act)

    def _open(self) -> None:
        """The traits as they begin."""
        with self._quietly():
            for name in QUESTION_TRAITS:
                setattr(self, name, self._written[name])
            self.problem = self._current_problem
        self._opened = True
        self.on_msg(self._hear_browser)
        self._draw_graph()
        self._update_status()

    # -- what is asked -------------------------------------------------------------------------------

    @traitlets.validate(*QUESTION_TRAITS)
    def _check_question(self, proposal: Mapping[str, Any]) -> object:
        if not self._settled:
            return proposal["value"]
        name, value = proposal["trait"].name, proposal["value"]
        current = {field: self._trait_values.get(field) for field in QUESTION_TRAITS} | {name: value}
        try:
            question = _question(current)
            problem = make_problem(self._workload, question)
            question.chosen_planner()
        except PlacementError as error:
            raise InvalidTrait(str(error)) from None
        self._question, self._current_problem, self._written = question, problem, current
        return value

    @traitlets.observe(*QUESTION_TRAITS)
    def _question_changed(self, change: Mapping[str, Any]) -> None:
        if self._settled:
            self._given = False
            with self._quietly():
                self.problem = self._current_problem
            self._search()

    @traitlets.observe("problem")
    def _problem_given(self, change: Mapping[str, Any]) -> None:
        if not self._settled:
            return
        self._given, self._current_problem = True, self.problem
        self._take_model(self.problem)
        self._search()

    @traitlets.observe("result")
    def _result_given(self, change: Mapping[str, Any]) -> None:
        if not self._settled:
            return
        self._solving.drop()
        outcome: Result | None = self.result
        if outcome is None:
            self._settle(WAITING, None)
            return
        if outcome.problem is not self.problem:
            self._given, self._current_problem = True, outcome.problem
            with self._quietly():
                self.problem = outcome.problem
            self._take_model(outcome.problem)
        event = result_event(outcome)
        self._turn += 1
        self._settle(of_event(event, outcome.planner) or WAITING, result_view(outcome))

    def _take_model(self, problem: Problem) -> None:
        """The graph of a problem that was handed in may be another one."""
        if problem.graph is self._workload.graph:
            return
        self._workload, self._packed, self._held = _workload_of_problem(problem), None, ""
        self._before = self._latest = None
        self._showing.show_model(self._workload)
        with self._quietly():
            self.selection = None
        self._draw_graph()

    def _search(self, *, fresh: bool = False) -> None:
        """Begin a search for the current question, and stop one that is running.

        fresh: search even where the library has the answer.
        """
        with self._lock:
            problem, question = self._current_problem, self._question
            if self._packed is None:
                self._packed = packed_graph(problem.graph)
            self._trying.drop()
            self._turn += 1
            self._refused = self._failure = None
            self._before = self._latest
            self._stands, self._stood = WAITING, None
            planner = question.chosen_planner()
            self._solving.submit(
                AskRequest(
                    packed_problem(problem, self._packed),
                    self._workload.reference,
                    planner,
                    question.time_limit_s,
                    question.seed,
                    question.effort,
                    self._held,
                    fresh,
                )
            )
            with self._quietly():
                self.result = None
            self._update_status()

    def solve(self) -> None:
        """Ask the same question again, and search even if the library knows the answer."""
        self._search(fresh=True)

    def cancel(self) -> None:
        """Stop the search; its best plan so far is the result. Without one running, nothing happens."""
        self._solving.stop()

    async def solved(self) -> Result:
        """The answer to what is asked now, once it is there.

        Raises NoPlan, with its ``result``, if nothing fits, none was found in time, or the search was cancelled before
        one was; and NoPlan without a result if the search could not begin, or broke.
        """
        await self._solving.ended()
        if self._failure is not None:
            raise self._failure
        outcome: Result | None = self.result
        if outcome is None:
            raise NoPlan("nothing is asked: set a problem, or call solve()")
        if outcome.plan is None:
            banner = self._stands["banner"]
            raise NoPlan(reason(banner) if banner else "the search was cancelled before a plan was found", outcome)
        return outcome

    def close(self) -> None:
        """Stop the search, and take the widget off the notebook."""
        if self._opened:
            self._solving.drop()
        super().close()

    # -- what the worker says ------------------------------------------------------------------------

    def _hear_worker(self, event: Event) -> None:
        with self._lock:
            planner = self._question.chosen_planner().name
            stands = of_event(event, planner)
            stood, self._stood = self._stood, None
            if event["kind"] == "compiling" and stands is not None:
                self._stood = stood or self._stands
            elif event["kind"] == "compiling":
                stands = stood  # what went on before goes on
            if event["kind"] == "progress":
                self._stands = stands or self._stands
                if event["plan"] is not None:
                    self._draw_plan(event["plan"])
                self._update_status()
            elif event["kind"] == "result":
                view = event["plan"]
                outcome = unpacked_result(event["packed"], self._current_problem)
                self._held = view["held"] if view is not None else self._held
                self._settle(stands or WAITING, view)
                with self._quietly():
                    self.result = outcome
            elif event["kind"] == "failed":
                self._failure = NoPlan(event["message"])
                self._settle(stands or WAITING, None)
            elif stands is not None:
                self._stands = stands
                self._update_status()

    def _settle(self, stands: Status, view: PlanView | None) -> None:
        """A search is over: view of its plan, or None."""
        self._stands = stands
        self._draw_plan(view)
        if view is not None:
            self._latest = figures(view)
            self._pin_cost = self._cost_of_pin(view)
        self._update_status(over=True)
        self._update_still()
        if self._stands["state"] in ("infeasible", "none") and not self._given:
            self._trying.look_for_ways_out(self._subject())

    # -- what is drawn -------------------------------------------------------------------------------

    def _update_status(self, over: bool = False) -> None:
        """How things stand. over: whether the search that was going on just ended."""
        busy = self._solving.busy and not over
        with self.hold_sync():
            self._status = {
                **self._stands,
                "busy": busy,
                "stale": busy and self._showing.plan is not None and self._drawn != self._turn,
                "refused": self._refused,
                "model": self._showing.model(),
                "pins": self._pins_shown(),
                "cost": self._pin_cost,
                "tried": self._trying.shown(self.result),
                "ways": self._trying.ways_shown(),
            }
            self._controls = controls(self._written, self._current_problem, self._given)
            self.set_trait("status", self._stands["state"])

    def _tried(self) -> None:
        """What is tried beside the question has come further."""
        with self._lock:
            self._update_status()

    def _pins(self) -> Mapping[str, int]:
        return self._question.pins

    def _pins_shown(self) -> list[tuple[str, str]]:
        """What is pinned, and the names of the devices."""
        names = [device.name for device in self._current_problem.cluster.devices]
        return [(name, names[device]) for name, device in self._question.pins.items() if device < len(names)]

    def _subject(self) -> Subject:
        if self._packed is None:
            self._packed = packed_graph(self._current_problem.graph)
        return Subject(self._workload, self._current_problem, self._packed, self._question)

    def _cost_of_pin(self, view: PlanView) -> str:
        """What the newest pin costs, now that the plan with it is there; "" where more changed than pins."""
        before, self._pinning = self._pinning, None
        if before is None or not view["objective_s"]:
            return ""
        if replace(self._question, pins=before.question.pins) != before.question:
            return ""
        return pinning.pin_cost(before.words, before.objective_s, view["objective_s"])

    # -- what a browser says -------------------------------------------------------------------------

    def _hear_browser(self, widget: object, content: object, buffers: object) -> None:
        message = checked_message(content)
        if message is None:
            return
        with self._lock:
            act = getattr(self, f"_on_{message['type']}")
            try:
                act(message)
            except PlacementError as error:
                self._refused = {"name": message.get("name", ""), "message": str(error)}
                self._update_status()

    def set_state(self, sync_data: Mapping[str, object]) -> None:
        """Take what a browser sets by a link.

        Settings are checked as their controls are; other traits of the widget are not taken from a browser. A value
        that is refused is sent back as it was.
        """
        names = {name for kind in (PlacementWidget, DrawnWidget) for name in kind.class_own_traits()}
        super().set_state({name: value for name, value in sync_data.items() if name not in names})
        own = sorted(names & sync_data.keys() & set(self.keys))
        for name in own:
            self._hear_browser(self, {"type": "set", "name": name, "value": sync_data[name]}, None)
        stands = self.get_state(own)
        self.send_state([name for name in stands if stands[name] != sync_data[name]])

    def _on_set(self, message: Message) -> None:
        name = message["name"]
        value = value_of(name, message["value"])
        self._refused = None
        if getattr(self, name) == value:
            self._update_status()
        else:
            setattr(self, name, value)

    def _on_pin(self, message: Message) -> None:
        if self.selection is None:
            return
        showing = self._showing
        index = {name: i for i, name in enumerate(showing.skeleton["names"])}
        members = frozenset(index[name] for name in self.selection.operators)
        names = pinning.names(members, showing.skeleton)
        pins = pinning.merged(dict(self._question.pins), names, members, showing.skeleton, message["device"])
        devices = [device.name for device in self._current_problem.cluster.devices]
        words = pinning.pin_words(names, message["device"], devices)
        self._set_pins(pins, words)

    def _set_pins(self, pins: Mapping[str, int], words: str) -> None:
        """Ask with other pins; once there is a plan, what they cost is shown. words: what was done."""
        if self.result is not None and self.result.plan is not None:
            self._pinning = Pinning(words, self._question, self.result.objective_s)
        self.set_trait("pins", dict(pins))

    def _on_unpin(self, message: Message) -> None:
        name, pins = message["name"], self._question.pins
        if name in pins:
            left = {each: device for each, device in pins.items() if each != name}
            self._set_pins(left, pinning.pin_words([name], None, ()))

    def _on_solve(self, message: Message) -> None:
        self._search(fresh=self.result is not None and not self._solving.busy)

    def _on_cancel(self, message: Message) -> None:
        self.cancel()

    def _on_elsewhere(self, message: Message) -> None:
        if self.result is not None and self.selection is not None and self.selection.kind != "device":
            index = {name: i for i, name in enumerate(self._showing.skeleton["names"])}
            self._beside.why_here(self.result, frozenset(index[name] for name in self.selection.operators))

    def _on_compare(self, message: Message) -> None:
        if self.result is not None and not self._solving.busy:
            self._trying.compare(self._subject())

    def _on_stop(self, message: Message) -> None:
        self._trying.stop()

    def _on_show(self, message: Message) -> None:
        rows = self._trying.compared
        if message["place"] < len(rows):
            outcome = rows[message["place"]].result
            if outcome is not None and outcome.plan is not None:
                self.result = replace(outcome, problem=self.problem)

    def _on_way(self, message: Message) -> None:
        if message["place"] < len(self._trying.ways):
            changes = self._trying.changes(message["place"], self._question)
            with self.hold_trait_notifications():
                for name, value in changes.items():
                    self.set_trait(name, value)

    def _on_review(self, message: Message) -> None:
        if self.result is not None:
            self._beside.review(self.result)

    def _on_keep(self, message: Message) -> None:
        if self.result is not None:
            self._beside.set_reference(self.result)

    def _on_differ(self, message: Message) -> None:
        if self.result is not None:
            self._beside.differ(self.result)

    # -- elsewhere -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        state = self._stands
        words = ", ".join(filter(None, (state["words"], state["more"])))
        name = self._showing.model()["name"]
        return f"PlacementWidget({name} on {text.plural(len(self._current_problem.cluster), 'device')}: {words})"


def _question(values: Mapping[str, Any]) -> Question:
    unknown = [name for name in values if name not in QUESTION_TRAITS]
    if unknown:
        near = closest(unknown[0], QUESTION_TRAITS)
        raise InvalidProblem(f"a widget has no setting {unknown[0]!r}{near}; there are: {', '.join(QUESTION_TRAITS)}")
    return Question(**values)


def _workload_of_problem(problem: Problem) -> Workload:
    return Workload(
        problem.graph, problem.graph.name, training=problem.training, objective=problem.objective,
        costs_from=problem.costs_from,
    )  # fmt: skip
