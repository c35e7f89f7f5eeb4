"""A widget whose worker is a list: a test says when and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.jobs.requests import AskRequest
from explorer.notebook.widget import PlacementWidget
from explorer.question.packing import packed_result, unpacked_problem
from explorer.view import events
from solvers.plan.result import Progress, Result
from solvers.planners.solve import solve


class ListedJobs:
    """Questions that were asked, and what was cancelled."""

    def __init__(self) -> None:
        self.requests: list[tuple[AskRequest, Callable[[events.Event], None]]] = []
        self.cancelled: list[str] = []

    def start(self, kind: str, request: Any, on_event: Callable[[events.Event], None]) -> str:
        assert kind == "ask"
        self.requests.append((request, on_event))
        return f"job{len(self.requests)}"

    def cancel(self, identifier: str) -> None:
        self.cancelled.append(identifier)

    def report(self, event: events.Event, which: int = -1) -> None:
        """The worker reports something of a question, by default the newest."""
        self.requests[which][1](event)

    def answer(self, which: int = -1, planner: str = "equal", **more: Any) -> Result:
        """The worker answers as a real one does, by a planner that takes no time."""
        request, on_event = self.requests[which]
        outcome = solve(unpacked_problem(request.question), planner)
        event = events.result(outcome, held=f"plan-{which}", **more)
        on_event(event | {"packed": packed_result(outcome)})
        return outcome

    def step(self, which: int = -1) -> None:
        """The worker reports a first plan on the way."""
        request, _ = self.requests[which]
        problem = unpacked_problem(request.question)
        outcome = solve(problem, "equal")
        self.report(events.progress(problem, "auto", Progress(0.3, outcome.objective_s, 0.0), outcome.plan), which)


class ListedWidget(PlacementWidget):
    """A widget that asks such a worker."""

    def __init__(self, *given: Any, **question: Any) -> None:
        self.listed = ListedJobs()
        super().__init__(*given, **question)

    def _jobs(self) -> Any:
        return self.listed

    def _post(self, act: Callable[[], None]) -> None:
        act()


def drawn(widget: PlacementWidget) -> dict[str, Any]:
    """What a browser is shown: the traits that are synchronised, as they are sent."""
    names = ("_graph", "_overlay", "_plan", "_selected", "_status", "_controls", "_theme")
    return {name: value for name, value in widget.get_state().items() if name in names}


def receive(widget: PlacementWidget, content: object) -> None:
    """What a browser sends, as it arrives."""
    widget._handle_custom_msg(content, [])
