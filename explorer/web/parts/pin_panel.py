"""Pinning as Dash components: the devices to choose from, under what is selected."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dash import html
from dash.development.base_component import Component

from explorer.view.graph.pinning import listed
from explorer.web.contract import ids


def choices(names: Sequence[str], pinned_on: Collection[int]) -> list[Component]:
    """names: of the devices. pinned_on: where the selection is pinned to, empty if it is not."""
    buttons = [
        html.Button(
            [html.I(className=f"swatch s{i % 64}", **{"aria-hidden": "true"}), name.rpartition(" ")[2]],
            className="tool",
            title=f"Keep it on {name}",
            **{"data-pin": str(i), "aria-pressed": str(i in pinned_on).lower(), "aria-label": f"Pin to {name}"},
        )
        for i, name in enumerate(names)
    ]
    if pinned_on:
        buttons.append(html.Button("Unpin", className="tool", **{"data-pin": "none"}))
    return [
        html.Div([html.Span("Pin to", className="label"), *buttons], className="pin-to"),
        html.Div(
            html.Button(
                "Keep together with …",
                className="tool",
                title="Then choose what it shall share a device with, whichever that is",
                **{"data-together": ""},
            ),
            className="pin-to",
        ),
        html.P(
            "or press p and its number; x unpins; t, then another: together",
            id=ids.PIN_NOTE,
            className="small quiet",
        ),
    ]


def choose_next(chosen: Sequence[str]) -> str:
    """What to do once something shall stay with something else."""
    return f"Now choose what shall share a device with {listed(chosen)}; Escape leaves it."


def together_words(first: Sequence[str], chosen: Sequence[str]) -> str:
    """ "blocks.0 stays with head", for those who listen to the page."""
    return f"{listed(first)} stays with {listed(chosen)}"
