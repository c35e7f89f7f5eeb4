"""What a widget explains about its plan: why something is where it is, a review, what differs from a kept plan."""

from __future__ import annotations

import threading
from collections.abc import Callable

from explorer.reviews.difference import difference
from explorer.reviews.review import review, review_object
from explorer.reviews.shown import lines
from explorer.sweeps.why_here import move_rows
from explorer.words import text
from solvers.errors import PlacementError
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.problem.problem import Problem

Send = Callable[[dict[str, object]], None]


class Beside:
    """Asks and answers of one widget. Each is worked out in a thread of its own, so that no cell waits; of answers to
    one thing, only that of the newest ask is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._newest: dict[str, int] = {}
        self.reference: tuple[Problem, Plan, str] | None = None

    def why_here(self, result: Result, operators: frozenset[int]) -> None:
        """What it would cost to have these operators elsewhere, and to move the edges of their stage."""
        problem, plan = result.problem, result.plan
        if plan is None or not operators:
            return

        def compute(going: Callable[[], bool]) -> dict[str, object]:
            rows = list(move_rows(problem, plan, operators, should_stop=lambda: not going()))
            return {"type": "elsewhere", "rows": rows}

        self._begin("elsewhere", compute)

    def review(self, result: Result) -> None:
        problem, plan = result.problem, result.plan
        if plan is not None:
            self._begin(
                "beside",
                lambda _: {"type": "review", **review_object(review(problem, plan, result), problem)},
            )

    def set_reference(self, result: Result) -> None:
        """The plan that others are compared with."""
        if result.plan is not None:
            self.reference = result.problem, result.plan, text.seconds(result.objective_s)
            self._send({"type": "kept", "words": f"Kept: {result.planner}, {self.reference[2]}"})

    def differ(self, result: Result) -> None:
        """How the plan differs from the one that was kept."""
        problem, plan, reference = result.problem, result.plan, self.reference
        if plan is None or reference is None:
            return
        self._begin(
            "beside",
            lambda _: {"type": "difference", "lines": lines(difference((reference[0], reference[1]), (problem, plan)))},
        )

    def _begin(self, what: str, compute: Callable[[Callable[[], bool]], dict[str, object]]) -> None:
        turn = self._newest[what] = self._newest.get(what, 0) + 1

        def going() -> bool:
            return self._newest[what] == turn

        def work() -> None:
            try:
                answer = compute(going)
            except PlacementError as error:
                answer = {"type": "refused", "message": str(error)}
            if going():
                self._send(answer)

        threading.Thread(target=work, daemon=True).start()
