"""Answers that are there already, and what is kept of new ones: the library of plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from explorer.library.asked import Asked
from explorer.library.asking import Asking
from explorer.question.planner_choice import choose_planner
from explorer.sweeps.asking.questions import Answer, Question, answered
from solvers.plan.plan import Plan


class Kept(Protocol):
    """start: the plan that the search begins with, a part of the question."""

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        """The whole answer to exactly this question."""
        ...

    def keep(self, question: Question, start: Plan | None, answer: Answer) -> None:
        """Keep an answer, if it is worth it."""
        ...


class Nothing:
    """Finds and keeps nothing."""

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        return None

    def keep(self, question: Question, start: Plan | None, answer: Answer) -> None:
        return None


@dataclass(frozen=True)
class InLibrary:
    """Through ``asking``, which tells its troubles and never fails. again: keep answers, and find none."""

    asking: Asking
    again: bool = False

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        if self.again:
            return None
        result = self.asking.known(_asked(question, start))
        # the last note says since when it is known, which is no reason for there being no plan
        return None if result is None else answered(result, result.notes[:-1])

    def keep(self, question: Question, start: Plan | None, answer: Answer) -> None:
        if answer.result is not None:
            self.asking.model = question.model
            self.asking.found(_asked(question, start), answer.result)


def _asked(question: Question, start: Plan | None) -> Asked:
    limits = question.limits
    return Asked(
        question.problem,
        choose_planner(question.planner),
        start,
        limits.effort,
        limits.time_limit_s,
        limits.gap,
        limits.seed,
    )
