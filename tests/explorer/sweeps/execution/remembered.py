"""A library of answers in memory, and the rows that differ in nothing but when they were found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from explorer.question.settings import Settings
from explorer.sweeps.execution.questions import (
    Answer,
    Limits,
    Question,
    answer_text,
    question_text,
    read_answer,
    start_text,
)
from explorer.sweeps.points import Point
from explorer.sweeps.sweep import Cell, Row, cells, row_object
from solvers.plan.plan import Plan
from solvers.search.effort import Effort
from tests.explorer.view.small import branches_workload, chain_workload

BASE = Settings(mini_batch=8)
LIMITS = Limits(Effort.QUICK)


@dataclass
class Remembered:
    """Keeps answers as text, by the question and what its search began with. asked: how often each was stored."""

    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)

    def find(self, question: Question, start: Plan | None) -> Answer | None:
        text = self.answers.get(self._key(question, start))
        return None if text is None else read_answer(text, question.problem)

    def store(self, question: Question, start: Plan | None, answer: Answer) -> None:
        if answer.result is None:
            return
        key = self._key(question, start)
        assert key not in self.answers, "asked twice"
        self.answers[key] = answer_text(answer)
        self.stored.append(key[0])

    @staticmethod
    def _key(question: Question, start: Plan | None) -> tuple[str, str]:
        name = question.problem.graph.name
        return name + question_text(question), "" if start is None else start_text(start)


def few(planners: tuple[str, ...] = ("auto", "equal")) -> tuple[Cell, ...]:
    """Two small models, planners, two numbers of devices."""
    return cells([chain_workload(), branches_workload()], planners, [Point(2), Point(4)])


def plain_rows(pairs: Iterable[tuple[int, Row]]) -> list[dict[str, Any]]:
    """The rows in order, as JSON but for the seconds that the search took."""
    rows = dict(pairs)
    return [{**row_object(rows[i]), "model": rows[i].model, "runtime_s": None} for i in sorted(rows)]
