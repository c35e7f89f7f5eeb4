"""The runs of a model as Dash components: one row a run; a click on one shows it again, with its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.runner.bundles.history import UNFINISHED
from explorer.view.run_events import PastRun
from explorer.web.parts.markup import titled_table
from explorer.words import text

BAD = ("failed", "time limit", UNFINISHED)
"""Ends that nobody wanted."""


def history(runs: Sequence[PastRun], shown: str, going: bool) -> Component:
    """The runs of a model. shown: the bundle that is in the panel; going: whether a run goes on."""
    if not runs:
        return html.P("None yet.", className="small quiet")
    head = [("When", ""), ("Target", ""), ("Planner", ""), ("Predicted", "n"), ("Measured", "n")]
    body = []
    for run in runs:
        attributes: dict[str, Any] = {
            "key": run.bundle,
            "className": "plan",
            "data-act": "show-run",
            "data-arg": run.bundle,
        }
        if run.bundle == shown:
            attributes["aria-current"] = "true"
        running = going and run is runs[0] and run.word == UNFINISHED
        ended = text.seconds(run.measured_s) if run.ok and run.measured_s is not None else run.word
        body.append(
            html.Tr(
                [
                    html.Th(
                        html.Button(run.when, className="row-link", title="Show this run and its plan"), scope="row"
                    ),
                    html.Td(run.target),
                    html.Td(run.planner),
                    html.Td(text.seconds(run.predicted_s), className="n"),
                    html.Td(
                        "running" if running else ended, className="n bad" if run.word in BAD and not running else "n"
                    ),
                ],
                **attributes,
            )
        )
    return titled_table("Runs of this model", head, body, "comparison runs")
