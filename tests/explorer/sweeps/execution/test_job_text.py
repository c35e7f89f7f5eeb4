"""The driver asks every question once, as soon as what it begins with is there, wherever its tasks end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from explorer.question.problems import make_problem
from explorer.sweeps.execution.job_text import AnswerLog, Sheet, make_sheet, read_sheet
from explorer.sweeps.execution.pool import Here
from explorer.sweeps.execution.questions import Question, read_answer
from explorer.sweeps.execution.queue import Nothing
from explorer.sweeps.execution.ray_driver import ask_sheet, start_of
from explorer.sweeps.execution.solving import serve
from explorer.sweeps.sweep import before, cell_rows
from solvers.errors import InvalidProblem
from tests.explorer.sweeps.execution.remembered import BASE, LIMITS, few

CELLS = few(("auto",))
QUESTIONS = [Question(make_problem(c.workload, c.point.settings(BASE)), c.planner, LIMITS) for c in CELLS]


@dataclass
class Shuffled:
    """Answers here, in any order, two at a time."""

    sheet: Sheet
    rng: random.Random
    given: list[int] = field(default_factory=list)
    running: dict[int, str] = field(default_factory=dict)

    def free(self) -> bool:
        return len(self.running) < 2

    def give(self, position: int, key: str, question: str, start: str) -> None:
        self.given.append(position)
        self.running[position] = serve(key, self.sheet.graphs[key], question, start)

    def wait(self, seconds: float) -> Sequence[tuple[int, str]]:
        position = self.rng.choice(list(self.running))
        return [(position, self.running.pop(position))]


def answers(sheet: Sheet, seed: int) -> tuple[list[int], dict[int, str]]:
    lines: list[str] = []
    tasks = Shuffled(sheet, random.Random(seed))
    ask_sheet(sheet, tasks, lines.append)
    return tasks.given, dict(AnswerLog().feed("\n".join(lines) + "\n"))


def test_the_answers_are_those_of_one_process_whatever_the_order() -> None:
    rows = dict(cell_rows(CELLS, BASE, LIMITS, Here(), Nothing()))
    sheet = read_sheet(make_sheet(QUESTIONS, before(CELLS), {}).text())
    for seed in range(2):
        given, texts = answers(sheet, seed)
        assert sorted(given) == list(range(len(CELLS)))
        for position, question in enumerate(QUESTIONS):
            assert read_answer(texts[position], question.problem).plan == rows[position].plan


def test_what_is_known_is_not_solved_and_searches_begin_with_it() -> None:
    whole = make_sheet(QUESTIONS, before(CELLS), {})
    _, texts = answers(whole, 0)
    sheet = make_sheet(QUESTIONS, before(CELLS), {0: start_of(texts[0]), 2: ""})
    given, rest = answers(read_sheet(sheet.text()), 0)
    assert sorted(given) == [1, 3]
    assert rest[1].partition('"runtime_s"')[0] == texts[1].partition('"runtime_s"')[0]
    assert sheet.name == whole.name, "what is known changes nothing about whose jobs these are"
    assert replace(whole, code="other").name != whole.name


def test_a_sheet_from_elsewhere_is_checked() -> None:
    text = make_sheet(QUESTIONS, before(CELLS), {}).text()
    for spoilt in (text.replace('"before":[[]', '"before":[[9]'), text[:-1], text.replace('"known"', '"more"')):
        with pytest.raises(InvalidProblem):
            read_sheet(spoilt)
