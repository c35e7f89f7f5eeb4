"""What a widget's worker tries beside its question: other planners on it, and remedies where nothing fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from explorer.jobs.comparison import TIME_LIMIT_S, Compared, compare, entries
from explorer.jobs.requests import AskRequest
from explorer.jobs.workers.jobs import Jobs
from explorer.question.packing import PackedGraph, packed_problem, unpacked_result
from explorer.question.questions import PLAN, Question
from explorer.question.written.kinds import MAX_DEVICES
from explorer.sweeps.helps import LIMITS
from explorer.sweeps.remedies import Remedy, remedies, ways_out
from explorer.view.comparison import TableRow, best_bound_s, left_out, table
from explorer.view.events import LAST, Event
from explorer.words import text
from solvers.errors import PlacementError
from solvers.formats.workload import Workload
from solvers.plan.result import Result
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from solvers.search.monitor import never
from solvers.search.planner import Planner

POLL_S = 0.1
"""Between two looks whether what is tried is still wanted."""
LOOKING = "Looking for remedies …"
OFFERED = "Found by quick searches, the cheapest change first."
NONE = "No change was found that fits."


class TryingFailed(PlacementError):
    """The worker could not answer; the reason is in its words."""


@dataclass(frozen=True)
class Subject:
    """What is asked: problem, of question, with its graph as it was packed."""

    workload: Workload
    problem: Problem
    packed: PackedGraph
    question: Question


class Trying:
    """Other planners' answers, and remedies, of one widget; each search is a job of the worker.

    jobs: the worker's. soon(act): does something in the thread that traits are set in. changed: hears that `shown` or
    `ways_shown` has changed.
    """

    def __init__(
        self, jobs: Callable[[], Jobs], soon: Callable[[Callable[[], None]], None], changed: Callable[[], None]
    ) -> None:
        self._jobs = jobs
        self._soon = soon
        self._changed = changed
        self._turn = 0
        self.compared: list[Compared] = []
        self.ways: list[Remedy] = []
        self._going = ""
        """What is being tried, in words."""
        self._words = ""

    def drop(self) -> None:
        """Another question is asked: what is tried, and what came of it, is of the one before."""
        self._turn += 1
        self.compared, self.ways, self._going, self._words = [], [], "", ""

    def stop(self) -> None:
        """Try no more planners; the rows that are there stay."""
        if self._going:
            self._turn += 1
            self._going = ""
            self._changed()

    def compare(self, subject: Subject) -> None:
        """Every planner that makes sense, one after the other."""
        self.drop()
        question = subject.question
        family = entries(subject.problem)

        def work(going: Callable[[], bool]) -> None:
            def begin(place: int, entry: Any) -> None:
                words = f"{place + 1} of {len(family)}: {entry.planner}"
                self._set(going, lambda: setattr(self, "_going", words))

            for row in compare(
                family,
                should_stop=lambda: not going(),
                on_begin=begin,
                solver=self._solver(subject),
                time_limit_s=min(TIME_LIMIT_S, question.time_limit_s),
                effort=Effort(question.effort),
                seed=question.seed,
            ):
                self._set(going, partial(self.compared.append, row))

        self._begin(work, "1 of " + str(len(family)))

    def look_for_ways_out(self, subject: Subject) -> None:
        """Changes under which a plan is found, where there was none."""
        self.drop()
        changes = remedies(subject.problem, subject.question, MAX_DEVICES)

        def work(going: Callable[[], bool]) -> None:
            planner = subject.question.chosen_planner()
            for way in ways_out(
                subject.workload,
                changes,
                planner,
                LIMITS,
                should_stop=lambda: not going(),
                solver=self._solver(subject),
            ):
                self._set(going, partial(self.ways.append, way))

            def end() -> None:  # once the last way has been added
                self._words = OFFERED if self.ways else NONE

            self._set(going, end)

        self._begin(work, LOOKING)

    def changes(self, place: int, question: Question) -> dict[str, object]:
        """The settings that a remedy changes, by the names of traits."""
        changed = self.ways[place].change.settings
        pairs = [(one.name, getattr(changed, one.field), getattr(question, one.field)) for one in PLAN]
        return {name: value for name, value, before in pairs if value != before}

    def shown(self, current: Result | None) -> dict[str, object]:
        """The comparison as a browser shows it, {} without one. current: the plan that is drawn."""
        rows = [one.row for one in self.compared]
        if not rows and (not self._going or self._going == LOOKING):
            return {}
        drawn = None if current is None else (current.planner, current.problem.contiguity.value)
        shows = [{**row["cells"], **_flags(row)} for row in table(rows, drawn)]
        bound_s = best_bound_s(rows, rows[0].contiguity) if rows else 0.0
        words = f"Best bound proved: {text.seconds(bound_s)}." if bound_s else ""
        return {"rows": shows, "left_out": left_out(rows), "going": self._going, "words": words}

    def ways_shown(self) -> dict[str, object]:
        """Remedies as a browser shows them, and whether more are looked for."""
        ways = [
            {
                "change": way.change.words,
                "took": text.seconds(way.seconds),
                "held": f"{text.nbytes(way.peak_bytes)} at most",
            }
            for way in self.ways
        ]
        return {"list": ways, "words": self._words or (self._going if self._going == LOOKING else "")}

    def _set(self, going: Callable[[], bool], act: Callable[[], object]) -> None:
        """Change what is shown, unless somebody asked for something else meanwhile."""

        def later() -> None:
            if going():
                act()
                self._changed()

        self._soon(later)

    def _begin(self, work: Callable[[Callable[[], bool]], None], words: str) -> None:
        turn, self._going = self._turn, words

        def going() -> bool:
            return turn == self._turn

        def run() -> None:
            failure = ""
            try:
                work(going)
            except (PlacementError, RuntimeError, OSError) as error:  # the last two: no process could be started
                failure = str(error)

            def end() -> None:
                self._going, self._words = "", failure or self._words

            self._set(going, end)

        self._changed()
        threading.Thread(target=run, daemon=True).start()

    def _solver(self, subject: Subject) -> Callable[..., Result]:
        """What solves a problem, in the worker; as `solvers.planners.solve.solve` is called."""

        def solve(
            problem: Problem,
            planner: Planner,
            *,
            should_stop: Callable[[], bool] = never,
            on_progress: object = None,
            **terms: Any,
        ) -> Result:
            done, last = threading.Event(), list[Event]()

            def hear(event: Event) -> None:
                if event["kind"] in LAST:
                    last.append(event)
                    done.set()

            packed = packed_problem(problem, subject.packed)
            searched = {name: terms[name] for name in ("time_limit_s", "seed", "effort") if name in terms}
            request = AskRequest(packed, subject.workload.reference, planner, explain=False, **searched)
            job = self._jobs().start("ask", request, hear)
            while not done.wait(POLL_S):
                if should_stop():
                    self._jobs().cancel(job)
            answer = last[0]
            if answer["kind"] != "result":
                raise TryingFailed(str(answer.get("message", "")))
            return unpacked_result(answer["packed"], problem)

        return solve


def _flags(row: TableRow) -> dict[str, object]:
    """What a row of the table is, beside its cells."""
    shown = row["cells"]["objective"] != text.NOTHING
    return {
        "place": row["place"],
        "best": row["best"],
        "alike": row["alike"],
        "current": row["current"],
        "can_show": shown,
    }
