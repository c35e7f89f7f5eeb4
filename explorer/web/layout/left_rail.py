"""The left rail: everything a person sets."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.question.written.declaring import ONE_PASS, PIPELINES
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.cluster_rail import cluster
from explorer.web.layout.fields import Select
from explorer.web.layout.rail import offered, placed, section, setting, switch, with_tip


def left_rail(catalogue: Catalogue, session: Session) -> Component:
    return html.Nav(
        [
            html.Div(
                [
                    _model(catalogue, session),
                    cluster(catalogue, session),
                    html.Section(
                        [
                            html.Div(
                                [
                                    html.H2("Pinned, kept together"),
                                    html.Button("Unpin all", id=ids.UNPIN_ALL, className="tool small", hidden=True),
                                ],
                                className="spread",
                            ),
                            html.Div(id=ids.PINNED),
                            html.P(id=ids.PIN_COST, className="small quiet"),
                        ],
                        className="set",
                        hidden=True,
                    ),
                    _objective(session),
                    _planner(catalogue, session),
                ],
                className="rail-scroll",
            ),
            html.Div(
                [
                    html.Div(
                        [
                            html.Button("Solve", id=ids.SOLVE, className="button main", n_clicks=0),
                            html.Button(
                                "Run",
                                id=ids.RUN_OPEN,
                                className="button",
                                n_clicks=0,
                                disabled=True,
                                **{"aria-label": "Run this plan: choose where, and what to measure"},
                            ),
                            html.Button("Cancel", id=ids.CANCEL, className="button", n_clicks=0, disabled=True),
                        ],
                        className="run",
                    ),
                    switch(ids.LIVE, "Solve on change", True, "live"),
                ],
                className="rail-foot",
            ),
        ],
        className="rail left",
        **{"aria-label": "Settings"},
    )


def model_choices(catalogue: Catalogue) -> list[dict[str, str]]:
    """Names of models with what people call them."""
    return [{"value": model.name, "label": model.name.rsplit("/", 1)[-1]} for model in catalogue.models]


def _model(catalogue: Catalogue, session: Session) -> Component:
    return section(
        "Model",
        [
            Select(id=ids.MODEL, data=model_choices(catalogue), value=session.model, **{"aria-label": "Model"}),
            html.Button("Open a file …", id=ids.OPEN_FILE, className="tool open-file"),
            html.Div(id=ids.OPENED_FILES),
            *setting("training", session),
            *setting("dtype", session),
            html.Div(
                [
                    *setting("precision", session),
                    *setting("optimizer", session),
                    html.Div(setting("recompute", session), className="set of-pipelines"),
                ],
                className="set of-training",
            ),
        ],
    )


def _planners(catalogue: Catalogue) -> list[dict[str, object]]:
    """Grouped by what they are for."""
    groups: dict[str, list[dict[str, str]]] = {}
    for planner in catalogue.planners:
        note = " · ".join(filter(None, (planner.guarantee, planner.source)))
        groups.setdefault(planner.purpose, []).append({"value": planner.name, "label": planner.name, "note": note})
    return [{"group": purpose, "items": items} for purpose, items in groups.items()]


def _objective(session: Session) -> Component:
    """What is minimised, and how the mini-batch runs: as a pipeline, or in one pass."""
    return section(
        "Objective",
        [
            *setting("objective", session),
            html.Div(
                [
                    *placed(ONE_PASS, session),
                    html.P("One pass, unsplit: no micro-batches, pipelines or replicas.", className="hint tall"),
                ],
                className="set of-one-pass",
            ),
            *setting("mini_batch", session),
            html.Div(placed(PIPELINES, session, elsewhere=("recompute",)), className="set of-pipelines"),
        ],
    )


def _planner(catalogue: Catalogue, session: Session) -> Component:
    return section(
        "Planner",
        [
            offered("planner", session.planner, _planners(catalogue)),
            with_tip(html.Div(id=ids.GUARANTEE, className="hint"), "guarantee"),
            *setting("contiguity", session),
            *setting("effort", session),
            *setting("time_limit_s", session),
            *setting("seed", session),
        ],
    )
