"""A step of a lesson as Dash components. Its words are children, hence text whatever they look like."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.view.lessons.answering import NONE, Known, Verdict
from explorer.view.lessons.figures import FIGURES, figure_text
from explorer.view.lessons.lesson import CONTROLS, Lesson, Step, Text

MARKS = {"right": "✓", "wrong": "✗", "elsewhere": "!", "asked": "?", "waiting": "…"}


def step_text(step: Step, now: Known, then: Known) -> list[Component]:
    """now and then: figures of the plan on the page, and of the one that the step began with."""
    return [html.H3(step.title), html.P(_filled(step.text, now, then))]


def steps(lesson: Lesson, at: int) -> list[Component]:
    """A way to each step, by number."""
    return [
        html.Li(
            html.Button(
                str(place + 1),
                title=step.title,
                **{
                    "data-lesson": lesson.name,
                    "data-step": str(place + 1),
                    "aria-label": f"Step {place + 1}: {step.title}",
                },
                **({"aria-current": "step"} if place == at else {}),
            )
        )
        for place, step in enumerate(lesson.steps)
    ]


def verdict_words(verdict: Verdict | None, now: Known, then: Known) -> list[Component]:
    if verdict is None:
        return []
    mark = html.Span(MARKS[verdict.state], className="mark-of", **{"aria-hidden": "true"})
    rest = [" ", *_filled(verdict.rest, now, then)] if verdict.rest else []
    return [html.P([mark, html.Span([*_moves(verdict), html.B(verdict.lead), *rest])], className=f"is-{verdict.state}")]


def _moves(verdict: Verdict) -> list[Any]:
    """The controls that answer, each a way to where it is."""
    parts: list[Any] = []
    for name in verdict.move:
        parts += [
            " or " if parts else "Move ",
            html.Button(CONTROLS[name], className="row-link", **{"data-spot": name}),
        ]
    return [*parts, ". "] if parts else []


def _filled(text: Text, now: Known, then: Known) -> list[Any]:
    return [
        html.B(
            figure_text(piece.figure, (then if piece.begun else now or NONE).get(piece.figure)).replace(" ", "\u00a0"),
            className="figure-of" if piece.begun else "figure-of now",
            title=FIGURES[piece.figure].name,
        )
        if piece.figure
        else piece.words
        for piece in text
    ]
