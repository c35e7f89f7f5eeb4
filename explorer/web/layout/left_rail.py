"""The left rail: everything a person sets."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.session import DTYPES, Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.cluster_rail import cluster
from explorer.web.layout.fields import NumberField, Select
from explorer.web.layout.rail import number, row, section, segments, select, short_select, switch, told
from explorer.web.parts.choices import AUTO, OBJECTIVES
from solvers.problem.problem import Pipeline
from solvers.search.effort import Effort

MICRO_BATCHES = ("auto", "1", "2", "4", "8", "16", "32")
PIPELINES = {
    Pipeline.ONE_F_ONE_B.value: "1F1B",
    Pipeline.GPIPE.value: "GPipe",
    Pipeline.INTERLEAVED.value: "Interleaved 1F1B",
    Pipeline.ZERO_BUBBLE.value: "Zero-bubble",
    Pipeline.PLANNER.value: "Planner's own",
}
EXECUTIONS = {AUTO: "auto", "operator": "operator", "call": "stage"}
REPLICAS = {"1": "off", "2": "2", "4": "4", "8": "8", "all": "all"}
ZERO = {"0": "nothing", "1": "ZeRO-1", "2": "ZeRO-2", "3": "ZeRO-3"}


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
    training = session.settings.training
    return section(
        "Model",
        [
            Select(id=ids.MODEL, data=model_choices(catalogue), value=session.model, **{"aria-label": "Model"}),
            html.Button("Open a file …", id=ids.OPEN_FILE, className="tool open-file"),
            html.Div(id=ids.OPENED_FILES),
            segments(
                ids.PHASE,
                "false" if training is False else "true",
                {"true": "Training", "false": "Inference"},
                "training",
                "Training or inference",
            ),
            segments(
                ids.DTYPE,
                session.settings.dtype or AUTO,
                {AUTO: "own", **{name: name for name in DTYPES}},
                "dtype",
                "Number format",
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
    settings = session.settings
    micro = str(settings.micro_batches or "auto")
    return section(
        "Objective",
        [
            told(
                html.Div(
                    select(
                        ids.OBJECTIVE, settings.objective.value if settings.objective else AUTO, OBJECTIVES, "Objective"
                    )
                ),
                "objective",
            ),
            html.Div(
                [
                    html.Div("What runs as a unit", className="label"),
                    segments(
                        ids.EXECUTION, settings.execution.value if settings.execution else AUTO, EXECUTIONS, "unit"
                    ),
                    html.P(
                        "One pass, unsplit: no micro-batches, pipelines or replicas.",
                        className="hint tall",
                    ),
                ],
                className="set of-one-pass",
            ),
            row(
                "Mini-batch",
                number(ids.MINI_BATCH, "Mini-batch, samples", settings.mini_batch, 84, whole=True),
                "mini-batch",
            ),
            html.Div(
                [
                    html.Div("Micro-batches", className="label"),
                    segments(
                        ids.MICRO_BATCHES,
                        micro,
                        {count: count for count in dict.fromkeys((*MICRO_BATCHES, micro))},
                        "micro-batch",
                        "Micro-batches",
                    ),
                    told(html.Div(select(ids.PIPELINE, settings.pipeline.value, PIPELINES, "Pipeline")), "pipeline"),
                    row(
                        "Replicate stages",
                        short_select(
                            ids.REPLICAS,
                            "all" if settings.max_replicas == 0 else str(settings.max_replicas),
                            REPLICAS,
                            "Replicate stages, on how many GPUs at most",
                        ),
                        "replicas",
                    ),
                    row(
                        "Replicas share",
                        short_select(ids.ZERO, str(settings.zero), ZERO, "What replicas share out: stage of ZeRO", 96),
                        "zero",
                    ),
                    switch(ids.RECOMPUTE, "Recompute activations", settings.recompute, "recompute"),
                    switch(ids.IN_SEQUENCE, "Stages in sequence", settings.in_sequence, "sequence"),
                ],
                className="set of-pipelines",
            ),
        ],
    )


def _planner(catalogue: Catalogue, session: Session) -> Component:
    return section(
        "Planner",
        [
            told(
                html.Div(
                    Select(
                        id=ids.PLANNER, data=_planners(catalogue), value=session.planner, **{"aria-label": "Planner"}
                    )
                ),
                "planner",
            ),
            told(html.Div(id=ids.GUARANTEE, className="hint"), "guarantee"),
            html.Div("Contiguity", className="label"),
            segments(
                ids.CONTIGUITY,
                session.settings.contiguity.value if session.settings.contiguity else AUTO,
                {AUTO: "Auto", "acyclic": "Acyclic", "convex": "Convex", "none": "None"},
                "contiguity",
                "Contiguity",
            ),
            html.Div("Effort", className="label"),
            segments(
                ids.EFFORT,
                session.effort.value,
                {effort.value: effort.value for effort in Effort},
                "effort",
                "Effort of the search",
            ),
            row(
                "Stop after",
                NumberField(
                    id=ids.TIME_LIMIT,
                    value=session.time_limit_s,
                    min=0.1,
                    max=600,
                    unit="s",
                    width=84,
                    pause_ms=350,
                    **{"aria-label": "Time limit, seconds: only a guard"},
                ),
                "guard",
            ),
            row(
                "Seed", number(ids.SEED, "Seed", session.seed or None, 84, whole=True, placeholder="0", least=0), "seed"
            ),
        ],
    )
