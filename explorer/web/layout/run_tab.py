"""The tab in which a plan is run: where and how, what comes of it, and the runs before."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.session import MAX_RUN_STEPS
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.fields import Checkbox, NumberField, Select

STEPS = 5


def run_tab(catalogue: Catalogue) -> Component:
    history = html.Section([html.H2("Runs of this model"), html.Div(id=ids.RUN_HISTORY)], className="run-history")
    return html.Div(
        [
            html.Div([*_run_controls(catalogue), *_buttons()], className="run-head"),
            html.Div([html.Div(id=ids.RUN_BODY, className="run-body"), history], className="run-split"),
        ],
        className="run-tab",
    )


def _run_controls(catalogue: Catalogue) -> list[Component]:
    """Where and how a plan is run."""
    targets = [{"value": t.name, "label": f"{t.name} · {t.detail}" if t.detail else t.name} for t in catalogue.targets]
    target = Select(
        id=ids.RUN_TARGET,
        data=targets,
        value=targets[0]["value"] if targets else None,
        width=176,
        disabled=not targets,
        **{"aria-label": "Target: where the plan is run"},
    )
    steps = NumberField(
        id=ids.RUN_STEPS,
        value=STEPS,
        min=1,
        max=MAX_RUN_STEPS,
        whole=True,
        width=52,
        pause_ms=0,
        **{"aria-label": "Measured steps"},
    )
    verify = Checkbox(
        children=[html.Span("Compare with ", className="long"), "single device"],
        id=ids.RUN_VERIFY,
        checked=False,
        **{"aria-label": "Verify losses, gradients and parameters against the whole model"},
    )
    return [
        html.Label([html.Span("on", className="label"), target], className="pick"),
        html.Label([steps, html.Span("steps", className="label")], className="pick"),
        verify,
    ]


def _buttons() -> list[Component]:
    return [
        html.Button("Run", id=ids.RUN_START, className="tool strong", n_clicks=0, disabled=True),
        html.Button("Cancel", id=ids.RUN_STOP, className="tool", n_clicks=0, disabled=True),
        html.Span(id=ids.RUN_NOTE, className="quiet", role="status", **{"aria-live": "polite"}),
        html.Div(className="spring"),
        html.Button(
            "Re-plan with measured costs",
            id=ids.RUN_REPLAN,
            className="tool",
            hidden=True,
            title="Measures every operator and link on the target, then plans again",
            **{"data-act": "replan"},
        ),
    ]
