"""What a worker does with a question, here and on a cluster: text in, text out, and what it needs again stays warm."""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from explorer.question.planner_choice import choose_planner
from explorer.sweeps.execution.questions import (
    FAILED,
    Answer,
    Question,
    answer_text,
    answered,
    read_graph_text,
    read_question,
    read_start,
    refused,
)
from solvers.errors import InvalidPlan, InvalidProblem, UnsupportedProblem, one_line
from solvers.kernels.compiling import Compiling
from solvers.plan.plan import Plan
from solvers.plan.result import Progress
from solvers.planners.solve import solve
from solvers.problem.graph import OpGraph
from solvers.programs.processes.entry import Channel
from solvers.search.monitor import ignore, never

GRAPHS = 8
"""Graphs that a worker keeps."""


def answer_to(
    question: Question,
    start: Plan | None,
    should_stop: Callable[[], bool] = never,
    on_progress: Callable[[Progress, Plan | None], None] = ignore,
) -> Answer:
    """Solve it; what cannot be asked, and a planner that breaks a rule, are answers too."""
    limits = question.limits
    try:
        return answered(
            solve(
                question.problem,
                choose_planner(question.planner),
                start=start,
                effort=limits.effort,
                time_limit_s=limits.time_limit_s,
                gap=limits.gap,
                seed=limits.seed,
                should_stop=should_stop,
                on_progress=on_progress,
            )
        )
    except (InvalidProblem, UnsupportedProblem, InvalidPlan) as error:
        return refused(error)


@dataclass(eq=False)
class TextSolver:
    """Answers questions that come as text, and keeps the graphs they are about."""

    graphs: OrderedDict[str, OpGraph] = field(default_factory=OrderedDict)

    def knows(self, key: str) -> bool:
        return key in self.graphs

    def take(self, key: str, text: str) -> None:
        """A graph by its key; of too many, the one that was not asked about for longest is forgotten."""
        self.graphs[key] = read_graph_text(text)
        while len(self.graphs) > GRAPHS:
            self.graphs.popitem(last=False)

    def answer(self, key: str, question: str, start: str, should_stop: Callable[[], bool] = never) -> str:
        """The answer as text. start: a plan as text, "" for none. Whatever goes wrong is an answer, too: the other
        questions stand."""
        self.graphs.move_to_end(key)
        graph = self.graphs[key]
        try:
            begin = read_start(start, graph) if start else None
            return answer_text(answer_to(read_question(question, graph), begin, should_stop))
        except Exception as error:
            traceback.print_exc()
            return answer_text(Answer(FAILED, reason=one_line(f"internal error ({type(error).__name__}: {error})")))


_solver = TextSolver()


def serve(key: str, graph: str, question: str, start: str) -> str:
    """What a task on a cluster does: `TextSolver.answer` of its process, which stays for the next question."""
    if not _solver.knows(key):
        _solver.take(key, graph)
    return _solver.answer(key, question, start)


def main(channel: Channel) -> None:
    """The child side of `explorer.sweeps.execution.pool`, which keeps solvers, kernels and graphs warm. A payload is
    (key, graph or "", question, start): keys are of graphs, whose text comes along until it was sent once. Out:
    ("compiling", "", kernel, seconds) and ("event", position, answer)."""
    solver = TextSolver()

    def work(position: int, payload: tuple[str, str, str, str]) -> bool:
        key, graph, question, start = payload
        if graph:
            solver.take(key, graph)
        channel.send("event", position, solver.answer(key, question, start, channel.should_stop(position)))
        return True

    with Compiling(report=lambda kernel, seconds: channel.send("compiling", "", kernel, seconds)):
        channel.serve(work)
