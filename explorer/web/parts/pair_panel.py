"""The strip above the views: one plan or the other of a pair, and the difference in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.view import versus
from explorer.view.session import IN_SEQUENCE, PAIR
from explorer.web.state.pairing import Answer
from explorer.words import text


def offer(known: Sequence[str], seen: str = "") -> list[Component]:
    """What stands there before anybody asked. known: the planners there are; seen: what the picture shows, in words."""
    picture = html.Span(seen, className="story", title=seen)
    if any(name.removesuffix(IN_SEQUENCE) not in known for name in PAIR):
        return [picture] if seen else []
    return [
        html.Button(
            "Compare with a sequential pipeline",
            className="tool",
            title="The same model and settings, planned as a DAG of stages and as a chain of them",
            **{"data-act": "pair"},
        ),
        picture,
    ]


def strip(pair: Sequence[str], answers: Sequence[Answer | None], shown: str | None, running: bool) -> list[Component]:
    """pair: the planners; answers: theirs so far; shown: the planner of the plan on the page, if it is of
    this question; running: whether the missing ones are being looked for."""
    choices = [
        html.Button(
            versus.shown_name(planner),
            disabled=answer is None or answer.facts is None,
            title=planner,
            **{"data-act": "show-pair", "data-arg": str(i), "aria-pressed": "true" if planner == shown else "false"},
        )
        for i, (planner, answer) in enumerate(zip(pair, answers, strict=True))
    ]
    return [
        html.Div(choices, className="choice", role="group", **{"aria-label": "Which plan is shown"}),
        html.Span(_words(pair, answers, running), className="story"),
        html.Button(
            "×",
            className="tool",
            title="Show one plan only",
            **{"data-act": "unpair", "aria-label": "Show one plan only"},
        ),
    ]


def _words(pair: Sequence[str], answers: Sequence[Answer | None], running: bool) -> str | list[Any]:
    facts = [a.facts for a in answers if a is not None and a.facts is not None]
    if len(facts) == 2:
        return [versus.story(facts) + ": ", html.B(versus.pair_verdict(facts))]
    refused = [f"{versus.shown_name(a.member)}: {a.why}." for a in answers if a is not None and a.facts is None]
    if refused:
        return text.short(" ".join(refused), 200)
    waits = [versus.shown_name(p) for p, a in zip(pair, answers, strict=True) if a is None]
    return f"{'Planning' if running else 'Not planned yet:'} {text.listing(waits)}" + (" …" if running else ".")
