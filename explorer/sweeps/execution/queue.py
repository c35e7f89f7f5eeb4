"""Ask many questions: each once, as soon as what it begins with is there, and none that is answered already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from explorer.library.cached_solver import CachedSolver
from explorer.library.question_key import SearchQuestion
from explorer.question.planner_choice import choose_planner
from explorer.sweeps.execution.order import Order
from explorer.sweeps.execution.questions import Answer, Question, answered, refused
from explorer.sweeps.execution.workers import Workers
from solvers.errors import InvalidProblem
from solvers.plan.plan import Plan
from solvers.search.monitor import never

WAIT_S = 0.1
"""How often somebody who wants to stop is heard."""


class AnswerStore(Protocol):
    """start: the plan that the search begins with, a part of the question."""

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        """The whole answer to exactly this question."""
        ...

    def store(self, question: Question, start: Plan | None, answer: Answer) -> None:
        """Keep an answer, if it is worth it."""
        ...


class Nothing:
    """Finds and keeps nothing."""

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        return None

    def store(self, question: Question, start: Plan | None, answer: Answer) -> None:
        return None


@dataclass(frozen=True)
class InLibrary:
    """Through ``solver``, which reports its troubles and never fails. again: cache answers, and look up none."""

    solver: CachedSolver
    again: bool = False

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        if self.again:
            return None
        result = self.solver.known(_search_question(question, start))
        # the last note says since when it is known, which is no reason for there being no plan
        return None if result is None else answered(result, result.notes[:-1])

    def store(self, question: Question, start: Plan | None, answer: Answer) -> None:
        if answer.result is not None:
            self.solver.model = question.model
            self.solver.store(_search_question(question, start), answer.result)


def _search_question(question: Question, start: Plan | None) -> SearchQuestion:
    limits = question.limits
    return SearchQuestion(
        question.problem,
        choose_planner(question.planner),
        start,
        limits.effort,
        limits.time_limit_s,
        limits.gap,
        limits.seed,
    )


@dataclass(frozen=True, slots=True)
class Course:
    """How far it is: answers that are there, of them those that were cached, and questions being searched."""

    done: int = 0
    cached: int = 0
    running: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer. started_from: the position of the question whose plan the search began with; cached: whether it was
    there already."""

    position: int
    answer: Answer
    started_from: int | None = None
    cached: bool = False


class Answers:
    """The answers that are there. cached: how many of them were there before."""

    def __init__(self, order: Order, library: AnswerStore) -> None:
        self.order = order
        self.library = library
        self.plans: dict[int, Plan | None] = {}
        self.cached = 0

    def __len__(self) -> int:
        return len(self.plans)

    def start(self, position: int) -> Plan | None:
        """The plan that the search of a question begins with."""
        at = self.order.start(position)
        return None if at is None else self.plans[at]

    def add(self, position: int, answer: Answer, before: bool = False) -> Answered:
        """An answer: questions that waited for it can be asked."""
        self.plans[position] = answer.plan
        self.cached += before
        self.order.answered(position, answer.plan is not None)
        return Answered(position, answer, self.order.start(position), before)

    def add_new(self, position: int, question: Question, answer: Answer) -> Answered:
        """An answer that was not there before: the library has it before anybody else."""
        self.library.store(question, self.start(position), answer)
        return self.add(position, answer)

    def known(self, position: int, question: Question) -> Answered | None:
        """What the library has to a question."""
        answer = self.library.find(question, self.start(position))
        return None if answer is None else self.add(position, answer, before=True)


def ask_all(
    order: Order,
    question: Callable[[int], Question],
    workers: Workers,
    library: AnswerStore,
    *,
    should_stop: Callable[[], bool] = never,
    on_course: Callable[[Course], None] = lambda _: None,
) -> Iterator[Answered]:
    """An answer to every question of ``order``, as they come.

    question: position -> what is asked there; raises InvalidProblem where that is nothing, which is an answer too.
    library: asked first, and given every new answer before anybody gets it. When ``should_stop`` turns true,
    what runs ends with what it has, and nothing else begins. Raises RunError where no worker can work any more.
    """
    answers = Answers(order, library)
    running: dict[int, Question] = {}
    stopping = False
    while True:
        if not stopping and should_stop():
            stopping = True
            workers.stop()
        while not stopping and workers.free() and (position := order.next()) is not None:
            try:
                sent = question(position)
            except InvalidProblem as error:
                yield answers.add(position, refused(error))
                continue
            if (known := answers.known(position, sent)) is not None:
                yield known
                continue
            running[position] = sent
            workers.give(position, sent, answers.start(position))
            on_course(Course(len(answers), answers.cached, tuple(running)))
        if not running and (stopping or not len(order)):
            return
        for returned in workers.wait(WAIT_S):
            sent = running.pop(returned.position)
            if returned.answer is not None:
                yield answers.add_new(returned.position, sent, returned.answer)
        on_course(Course(len(answers), answers.cached, tuple(running)))
