"""The left rail: everything a person sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from explorer.accelerators import kinds_text
from explorer.view.session import DTYPES, Session
from explorer.view.text import GIB
from explorer.web import ids
from explorer.web.backend import Catalogue
from solvers.problem import Pipeline

MICRO_BATCHES = ("auto", "1", "2", "4", "8", "16", "32")
SLIDER_DEVICES = 16
DEFAULT_DEVICES = 4
PIPELINES = {
    Pipeline.ONE_F_ONE_B: "1F1B",
    Pipeline.GPIPE: "GPipe",
    Pipeline.INTERLEAVED: "Interleaved 1F1B",
    Pipeline.ZERO_BUBBLE: "Zero-bubble",
    Pipeline.PLANNER: "Planner's own",
}
PER_NODE = {"auto": "1 node", "2": "2/node", "4": "4/node", "8": "8/node"}
REPLICAS = {"1": "off", "2": "2", "4": "4", "8": "8", "all": "all"}


def left_rail(catalogue: Catalogue, session: Session) -> Component:
    return html.Nav(
        [
            html.Div(
                [
                    _model(catalogue, session),
                    _cluster(catalogue, session),
                    _pipeline(session),
                    _planner(catalogue, session),
                ],
                className="rail-scroll",
            ),
            html.Div(
                [
                    html.Div(
                        [
                            dmc.Button("Solve", id=ids.SOLVE, n_clicks=0, fullWidth=True),
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


def _model(catalogue: Catalogue, session: Session) -> Component:
    training = session.settings.training
    return _section(
        "Model",
        [
            dmc.Select(
                id=ids.MODEL,
                data=[{"value": m.name, "label": m.name.rsplit("/", 1)[-1]} for m in catalogue.models],
                value=session.model,
                searchable=True,
                allowDeselect=False,
                size="xs",
                maxDropdownHeight=420,
                checkIconPosition="right",
                **{"aria-label": "Model"},
            ),
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


def _cluster(catalogue: Catalogue, session: Session) -> Component:
    settings = session.settings
    kind = settings.device_kind or catalogue.kinds[0].name
    devices = len(kind) if isinstance(kind, tuple) else settings.devices or DEFAULT_DEVICES
    kinds = [k.name for k in catalogue.kinds]
    if isinstance(kind, tuple):  # a mix that a link names
        kind = kinds_text(kind)
        kinds.append(kind)
    own = next((k.memory_bytes for k in catalogue.kinds if k.name == kind), 16 * GIB)
    top = math.log2(own / GIB)
    cap = min(top, math.log2(settings.memory_bytes / GIB)) if isinstance(settings.memory_bytes, float) else top
    return _section(
        "Cluster",
        [
            _slider(
                "GPUs",
                ids.DEVICES_VALUE,
                str(devices),
                id=ids.DEVICES,
                min=1,
                max=max(SLIDER_DEVICES, devices),
                step=1,
                value=devices,
            ),
            _slider(
                "Memory per GPU",
                ids.MEMORY_VALUE,
                "",
                id=ids.MEMORY,
                min=min(0.0, math.floor(cap)),
                max=top,
                step=0.0625,
                value=cap,
            ),
            html.Div(
                [
                    dmc.Select(
                        id=ids.KIND,
                        data=kinds,
                        value=kind,
                        allowDeselect=False,
                        size="xs",
                        checkIconPosition="right",
                        **{"aria-label": "Device kind"},
                    ),
                    _short_select(ids.PER_NODE, str(settings.devices_per_node or "auto"), PER_NODE, "GPUs per node"),
                ],
                className="pairing",
            ),
        ],
    )


def _pipeline(session: Session) -> Component:
    settings = session.settings
    micro = str(settings.micro_batches or "auto")
    return _section(
        "Pipeline",
        [
            _row(
                "Mini-batch",
                dmc.NumberInput(
                    id=ids.MINI_BATCH,
                    value=settings.mini_batch or "",
                    min=1,
                    max=65536,
                    allowDecimal=False,
                    allowNegative=False,
                    placeholder="auto",
                    size="xs",
                    w=84,
                    hideControls=True,
                    debounce=350,
                    **{"aria-label": "Mini-batch, samples"},
                ),
            ),
            html.Div("Micro-batches", className="label"),
            dmc.SegmentedControl(
                id=ids.MICRO_BATCHES,
                data=list(MICRO_BATCHES if micro in MICRO_BATCHES else (*MICRO_BATCHES, micro)),
                value=micro,
                size="xs",
                fullWidth=True,
                className="dense",
            ),
            dmc.Select(
                id=ids.PIPELINE,
                data=[{"value": kind.value, "label": label} for kind, label in PIPELINES.items()],
                value=settings.pipeline.value,
                allowDeselect=False,
                size="xs",
                checkIconPosition="right",
                **{"aria-label": "Pipeline"},
            ),
            _row(
                "Replicate stages",
                _short_select(
                    ids.REPLICAS,
                    "all" if settings.max_replicas == 0 else str(settings.max_replicas),
                    REPLICAS,
                    "Replicate stages, on how many GPUs at most",
                ),
            ),
            _switch(ids.RECOMPUTE, "Recompute activations", settings.recompute),
            _switch(ids.IN_SEQUENCE, "Stages in sequence", settings.in_sequence),
        ],
    )


def _planner(catalogue: Catalogue, session: Session) -> Component:
    objective = session.settings.objective
    return _section(
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
            dmc.Select(
                id=ids.OBJECTIVE,
                data=[
                    {"value": "auto", "label": "Default objective"},
                    {"value": "iteration", "label": "Iteration time"},
                    {"value": "max-load", "label": "Max-load (steady state)"},
                    {"value": "makespan", "label": "Makespan (one pass)"},
                ],
                value=objective.value if objective else "auto",
                allowDeselect=False,
                size="xs",
                checkIconPosition="right",
                **{"aria-label": "Objective"},
            ),
            html.Div("Contiguity", className="label"),
            dmc.SegmentedControl(
                id=ids.CONTIGUITY,
                data=[
                    {"value": "auto", "label": "Auto"},
                    {"value": "acyclic", "label": "Acyclic"},
                    {"value": "convex", "label": "Convex"},
                    {"value": "none", "label": "None"},
                ],
                value=session.settings.contiguity.value if session.settings.contiguity else "auto",
                size="xs",
                fullWidth=True,
                className="dense",
            ),
            _row(
                "Time limit",
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
                    **{"aria-label": "Time limit, seconds"},
                ),
            ),
        ],
    )


def _section(title: str, children: list[Component]) -> Component:
    return html.Section([html.H2(title), *children], className="set")


def _row(label: str, control: Component) -> Component:
    return html.Div([html.Span(label, className="label"), control], className="spread")


def _switch(id_: str, label: str, checked: bool) -> Component:
    return dmc.Switch(id=id_, label=label, labelPosition="left", checked=checked, size="xs", className="spread")


def _short_select(id_: str, value: str, labels: Mapping[str, str], what: str) -> Component:
    """A select that needs no label of its own; a value that is not among the usual ones is added."""
    told = {**labels, value: labels.get(value, value)}
    return dmc.Select(
        id=id_,
        data=[{"value": key, "label": label} for key, label in told.items()],
        value=value,
        allowDeselect=False,
        size="xs",
        w=82,
        withCheckIcon=False,
        **{"aria-label": what},
    )


def _slider(label: str, value_id: str, shown: str, **props: Any) -> Component:
    return html.Div(
        [
            html.Div([html.Span(label, className="label"), html.B(shown, id=value_id)], className="spread"),
            dmc.Slider(
                label=None, size=4, thumbSize=14, updatemode="drag", thumbLabel=label, className="slider", **props
            ),
        ]
    )
