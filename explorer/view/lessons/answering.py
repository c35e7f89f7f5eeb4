"""Whether a plan answers a step's question, and what is said of it. Only figures of plans count."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explorer.view.lessons.figures import FIGURES, figure_text, figures_of
from explorer.view.lessons.lesson import CONTROLS, Goal, Question, Text
from explorer.view.lessons.reading import RELATIONS
from explorer.view.lessons.stated import changed
from explorer.view.plan_types import PlanView, Report
from explorer.view.session import Session
from explorer.words import text

Known = Mapping[str, float | None]
"""Figures by name; empty where there is no plan."""
NONE: Known = {}
SAME = 1e-9

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": lambda value, wanted: value <= wanted * (1 + SAME),
    ">": operator.gt,
    ">=": lambda value, wanted: value >= wanted * (1 - SAME),
    "=": lambda value, wanted: abs(value - wanted) <= SAME * max(1.0, abs(wanted)),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """state: "waiting" before the step's own plan is there, "asked" while nothing has moved, then "right", "wrong" or
    "elsewhere" (something else differs as well). lead: what is said first; rest: the lesson's own words, if any; move:
    the settings to be moved, while nothing has."""

    state: str
    lead: str
    rest: Text = ()
    move: tuple[str, ...] = ()


def known(plan: PlanView | None, ran: Report | None = None) -> Known:
    """The figures of a plan; ran: the comparison with its run."""
    return NONE if plan is None else figures_of({**plan, "ran": ran})


def verdict(question: Question, session: Session, begun: Session | None, now: Known, then: Known) -> Verdict:
    """session: what the page asks now, begun: what it asked when the step began; now and then: figures of their
    plans."""
    if begun is None:
        return Verdict("waiting", "The step's own plan is not there yet. If it does not come, start the step again.")
    moved = changed(session, begun)
    if not moved:
        return Verdict("asked", f"Wanted: {wanted(question.goals, then)}.", move=question.move)
    others = sorted(moved - set(question.move))
    if others:
        named = text.listing([CONTROLS.get(name, name) for name in others])
        return Verdict("elsewhere", f"Also changed: {named}. Put it back, or start the step again.")
    if not now:
        return Verdict("wrong", "There is no plan for this.", question.wrong)
    if any(goal.than is None and then.get(goal.figure) is None for goal in question.goals):
        return Verdict("waiting", "There is no first plan to compare with: start the step again.")
    met = all(_met(goal, now, then) for goal in question.goals)
    figures = ", ".join(
        f"{FIGURES[goal.figure].name} {figure_text(goal.figure, now[goal.figure])}" for goal in question.goals
    )
    if met:
        return Verdict("right", f"Yes: {figures}.", question.right)
    return Verdict("wrong", f"Not yet: {figures}; wanted {wanted(question.goals, then)}.", question.wrong)


def wanted(goals: Sequence[Goal], then: Known) -> str:
    """ "bubble below 15 %, peak memory at most 16 GiB"."""
    sentences = []
    for goal in goals:
        value = _than(goal, then)
        number = "that of the first plan" if value is None else figure_text(goal.figure, value)
        sentences.append(f"{FIGURES[goal.figure].name} {RELATIONS[goal.relation]} {number}")
    return ", ".join(sentences)


def _met(goal: Goal, now: Known, then: Known) -> bool:
    value, than = now[goal.figure], _than(goal, then)
    return value is not None and than is not None and COMPARE[goal.relation](value, than)


def _than(goal: Goal, then: Known) -> float | None:
    if goal.than is not None:
        return goal.than
    begun = then.get(goal.figure)
    return None if begun is None else begun * goal.times
