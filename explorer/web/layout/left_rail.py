"""The left rail: everything a person sets."""

from __future__ import annotations

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from explorer.view.session import DTYPES, Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.cluster_rail import cluster
from explorer.web.layout.rail import AUTO, hinted, number, row, section, select, short_select, switch
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
OBJECTIVES = {
    AUTO: "Default objective",
    "iteration": "Iteration time",
    "max-load": "Max-load (steady state)",
    "makespan": "Makespan (one pass)",
}
EXECUTIONS = {AUTO: "auto", "operator": "operator", "call": "stage"}
EFFORT_HINT = (
    "How much work the search counts before it ends: quick about a seventh of normal, thorough eight times as much. The"
    " same question and effort give the same plan on every machine."
)
GUARD_HINT = "A guard only: most searches end by themselves, by counted work. One that it stops depends on the machine."
REPLICAS = {"1": "off", "2": "2", "4": "4", "8": "8", "all": "all"}


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
                            dmc.Button("Solve", id=ids.SOLVE, n_clicks=0, fullWidth=True),
                            dmc.Button(
                                "Run",
                                id=ids.RUN_OPEN,
                                n_clicks=0,
                                variant="default",
                                disabled=True,
                                **{"aria-label": "Run this plan: choose where, and what to measure"},
                            ),
                            dmc.Button("Cancel", id=ids.CANCEL, n_clicks=0, variant="default", disabled=True),
                        ],
                        className="run",
                    ),
                    dmc.Switch(
                        id=ids.LIVE,
                        label="Solve on change",
                        labelPosition="left",
                        checked=True,
                        size="xs",
                        className="spread",
                    ),
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
            dmc.Select(
                id=ids.MODEL,
                data=model_choices(catalogue),
                value=session.model,
                searchable=True,
                allowDeselect=False,
                size="xs",
                maxDropdownHeight=420,
                checkIconPosition="right",
                **{"aria-label": "Model"},
            ),
            html.Button("Open a file …", id=ids.OPEN_FILE, className="tool open-file"),
            html.Div(id=ids.OPENED_FILES),
            dmc.SegmentedControl(
                id=ids.PHASE,
                data=[{"value": "true", "label": "Training"}, {"value": "false", "label": "Inference"}],
                value="false" if training is False else "true",
                size="xs",
                fullWidth=True,
            ),
            dmc.SegmentedControl(
                id=ids.DTYPE,
                data=[{"value": "auto", "label": "as built"}, *({"value": name, "label": name} for name in DTYPES)],
                value=session.settings.dtype or "auto",
                size="xs",
                fullWidth=True,
                className="dense",
            ),
        ],
    )


def _objective(session: Session) -> Component:
    """What is minimised, and how the mini-batch runs: as a pipeline, or in one pass."""
    settings = session.settings
    micro = str(settings.micro_batches or "auto")
    return section(
        "Objective",
        [
            select(ids.OBJECTIVE, settings.objective.value if settings.objective else AUTO, OBJECTIVES, "Objective"),
            html.Div(
                [
                    html.Div("What runs as a unit", className="label"),
                    dmc.SegmentedControl(
                        id=ids.EXECUTION,
                        data=[{"value": key, "label": label} for key, label in EXECUTIONS.items()],
                        value=settings.execution.value if settings.execution else AUTO,
                        size="xs",
                        fullWidth=True,
                        className="dense",
                    ),
                    html.P(
                        "One pass, unsplit: no micro-batches, pipelines or replicas.",
                        className="hint tall",
                    ),
                ],
                className="set of-one-pass",
            ),
            row("Mini-batch", number(ids.MINI_BATCH, "Mini-batch, samples", settings.mini_batch, 84, whole=True)),
            html.Div(
                [
                    html.Div("Micro-batches", className="label"),
                    dmc.SegmentedControl(
                        id=ids.MICRO_BATCHES,
                        data=list(MICRO_BATCHES if micro in MICRO_BATCHES else (*MICRO_BATCHES, micro)),
                        value=micro,
                        size="xs",
                        fullWidth=True,
                        className="dense",
                    ),
                    select(ids.PIPELINE, settings.pipeline.value, PIPELINES, "Pipeline"),
                    row(
                        "Replicate stages",
                        short_select(
                            ids.REPLICAS,
                            "all" if settings.max_replicas == 0 else str(settings.max_replicas),
                            REPLICAS,
                            "Replicate stages, on how many GPUs at most",
                        ),
                    ),
                    switch(ids.RECOMPUTE, "Recompute activations", settings.recompute),
                    switch(ids.IN_SEQUENCE, "Stages in sequence", settings.in_sequence),
                ],
                className="set of-pipelines",
            ),
        ],
    )


def _planner(catalogue: Catalogue, session: Session) -> Component:
    return section(
        "Planner",
        [
            dmc.Select(
                id=ids.PLANNER,
                data=[{"value": p.name, "label": p.name} for p in catalogue.planners],
                value=session.planner,
                allowDeselect=False,
                searchable=True,
                size="xs",
                maxDropdownHeight=320,
                checkIconPosition="right",
                **{"aria-label": "Planner"},
            ),
            html.Div(id=ids.GUARANTEE, className="hint"),
            html.Div("Contiguity", className="label"),
            dmc.SegmentedControl(
                id=ids.CONTIGUITY,
                data=[
                    {"value": "auto", "label": "Auto"},
                    {"value": "acyclic", "label": "Acyclic"},
                    {"value": "convex", "label": "Convex"},
                    {"value": "none", "label": "None"},
                ],
                value=session.settings.contiguity.value if session.settings.contiguity else AUTO,
                size="xs",
                fullWidth=True,
                className="dense",
            ),
            html.Div(
                [
                    hinted(html.Div("Effort", className="label"), EFFORT_HINT),
                    dmc.SegmentedControl(
                        id=ids.EFFORT,
                        data=[effort.value for effort in Effort],
                        value=session.effort.value,
                        size="xs",
                        fullWidth=True,
                        className="dense",
                        **{"aria-label": "Effort of the search"},
                    ),
                ]
            ),
            row(
                "Stop after",
                dmc.NumberInput(
                    id=ids.TIME_LIMIT,
                    value=session.time_limit_s,
                    min=0.1,
                    max=600,
                    suffix=" s",
                    size="xs",
                    w=84,
                    hideControls=True,
                    debounce=350,
                    **{"aria-label": "Time limit, seconds: only a guard"},
                ),
                GUARD_HINT,
            ),
            row("Seed", number(ids.SEED, "Seed", session.seed or None, 84, whole=True, placeholder="0", least=0)),
        ],
    )
