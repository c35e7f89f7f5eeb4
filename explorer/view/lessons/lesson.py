"""What a lesson is: steps with words and settings, and questions that are answered by moving a control;
and what it may light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.question.settings import declared

BEGUN = "begin"
"""In front of a figure's name, and in place of a number: of the plan that the step began with."""
CONTROLS = {"model": "Model"} | {
    one.link: one.control.label or one.control.what for one in declared() if one.control is not None
}
"""Settings by the names that a link gives them, with what the page calls their controls."""

PARTS = (
    "throughput",
    "time",
    "bubble",
    "peak_memory",
    "bound",
    "graph",
    "schedule",
    "memory_curves",
    "why",
    "help",
    "run",
)
"""The five cards of key figures, then the pictures and the panels, and the tab of runs."""

LIGHTS = (*CONTROLS, *PARTS)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: ``words``, or in their place the ``figure`` of a plan, as text."""

    words: str = ""
    figure: str = ""
    begun: bool = False


Text = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """figure relation than: a number, or None for ``times`` the same figure of the plan that the step began with."""

    figure: str
    relation: str
    than: float | None
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """Answered when a plan meets every goal and nothing differs from the step but settings in ``move``."""

    goals: tuple[Goal, ...]
    move: tuple[str, ...]
    right: Text
    wrong: Text


@dataclass(frozen=True, slots=True)
class Step:
    """settings: all that it states, the lesson's own among them, by the names that a link gives them. light: what is
    lit while it is on."""

    title: str
    text: Text
    settings: Mapping[str, object] = field(default_factory=dict)
    light: tuple[str, ...] = ()
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Lesson:
    """name: what a link calls it. about: one line."""

    name: str
    title: str
    about: str
    steps: tuple[Step, ...]
