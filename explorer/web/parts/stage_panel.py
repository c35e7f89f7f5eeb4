"""What stands around the stage view and the schedule: legend and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.view.timeline import phases
from explorer.words import text
from explorer.words.actions import KIND_WORDS, TRANSFER

KEYS = (("F", "forward"), ("B", "backward"), ("I", "inputs"), ("W", "weights"), ("R", "again"), ("U", "update"),
        ("T", "transfer"))  # fmt: skip
"""Kinds in the legend's order, with the name of their swatch."""
VISIBLE = 1 / 400
"""Share of the schedule from which on a bar is more than a line."""
LEGEND_WORDS = {**KIND_WORDS, "I": "input gradients", "W": "weight gradients", "R": "recomputed forward"}
PHASE_HINTS = {
    "warm-up": "Until a row's first backward begins",
    "steady": "From a row's first backward to the end of its last forward",
    "drain": "After a row's last forward",
}


def legend(plan: Mapping[str, Any]) -> list[Component]:
    """The kinds of bars that there are, and the phases with their share of the device time."""
    there = _worth(plan)
    kinds = [
        html.Span([html.I(className=f"key {name}"), LEGEND_WORDS[kind]], className="legend")
        for kind, name in KEYS
        if kind in there
    ]
    found = phases.summary(plan)
    if not found:
        return [html.Div(kinds, className="kinds")]
    parts = [
        html.Span(
            [
                html.I(className=f"key phase {told['name']}"),
                html.Span(
                    [f"{told['name']} ", html.B(text.percent(round(told["share"], 2))), html.Em(f", {idle} % idle")]
                ),
            ],
            className="legend",
            title=f"{PHASE_HINTS[told['name']]}: {told['text']} of the devices' time, {told['idle_text']} idle",
        )
        for told, idle in zip(found, text.percents([told["idle"] for told in found])[:-1], strict=True)
    ]
    bubble = html.Span(
        html.Span(["bubble ", html.B(text.percent(plan["metrics"]["bubble"]))]),
        className="legend bubble",
        title="Share of the devices' time that is idle, over the three phases",
    )
    return [html.Div(parts, className="kinds"), html.Div([*kinds, bubble], className="kinds")]


def _worth(plan: Mapping[str, Any]) -> set[str]:
    """The kinds whose bars can be seen."""
    seen: Counter[str] = Counter()
    found = plan["bars"]
    for kind, start, end in zip(found["kind"], found["start_s"], found["end_s"], strict=True):
        seen[kind] = max(seen[kind], end - start)
    if plan["by_operator"]:  # hundreds of them, each of them short
        return set(seen)
    return {kind for kind, longest in seen.items() if kind == TRANSFER or longest > plan["span_s"] * VISIBLE}
