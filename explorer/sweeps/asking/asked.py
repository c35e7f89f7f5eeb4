"""Ask many questions: each once, as soon as what it begins with is there, and none that is answered already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.sweeps.asking.kept import Kept
from explorer.sweeps.asking.order import Order
from explorer.sweeps.asking.questions import Answer, Question, refused
from explorer.sweeps.asking.workers import Workers
from solvers.errors import InvalidProblem
from solvers.plan.plan import Plan
from solvers.search.monitor import never

WAIT_S = 0.1
"""How often somebody who wants to stop is heard."""


@dataclass(frozen=True, slots=True)
class Course:
    """How far it is: answers that are there, of them those that were kept from before, and questions being asked."""

    done: int = 0
    kept: int = 0
    running: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """An answer. started_from: the position of the question whose plan the search began with; kept: whether it was
    there already."""

    position: int
    answer: Answer
    started_from: int | None = None
    kept: bool = False


def ask_all(
    order: Order,
    question: Callable[[int], Question],
    workers: Workers,
    library: Kept,
    *,
    should_stop: Callable[[], bool] = never,
    on_course: Callable[[Course], None] = lambda _: None,
) -> Iterator[Found]:
    """An answer to every question of ``order``, as they come.

    question: position -> what is asked there; raises InvalidProblem where that is nothing, which is an answer too.
    library: asked first, and given every new answer before anybody is told of it. When ``should_stop`` turns true,
    what runs ends with what it has, and nothing else begins. Raises RunError where no worker can work any more.
    """
    plans: dict[int, Plan | None] = {}
    running: dict[int, Question] = {}
    kept = 0
    stopping = False

    def found(position: int, answer: Answer, before: bool = False) -> Found:
        plans[position] = answer.plan
        order.answered(position, answer.plan is not None)
        return Found(position, answer, order.start(position), before)

    def start_of(position: int) -> Plan | None:
        at = order.start(position)
        return None if at is None else plans[at]

    while True:
        if not stopping and should_stop():
            stopping = True
            workers.stop()
        while not stopping and workers.free() and (position := order.next()) is not None:
            try:
                asked = question(position)
            except InvalidProblem as error:
                yield found(position, refused(error))
                continue
            start = start_of(position)
            before = library.find(asked, start)
            if before is not None:
                kept += 1
                yield found(position, before, before=True)
                continue
            running[position] = asked
            workers.give(position, asked, start)
            on_course(Course(len(plans), kept, tuple(running)))
        if not running and (stopping or not len(order)):
            return
        for returned in workers.wait(WAIT_S):
            asked = running.pop(returned.position)
            if returned.answer is None:
                continue
            library.keep(asked, start_of(returned.position), returned.answer)
            yield found(returned.position, returned.answer)
        on_course(Course(len(plans), kept, tuple(running)))
