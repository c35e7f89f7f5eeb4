"""The left rail: everything a person sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from explorer.accelerators import kinds_text
from explorer.settings import MemoryModel, Settings
from explorer.view.session import DTYPES, Session
from explorer.view.text import GIB
from explorer.web import ids
from explorer.web.backend import Catalogue
from solvers.problem import Pipeline

MICRO_BATCHES = ("auto", "1", "2", "4", "8", "16", "32")
SLIDER_DEVICES = 16
DEFAULT_DEVICES = 4
AUTO, NONE = "auto", "none"
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
WIRES = {AUTO: "auto", "dedicated": "one a pair", "shared": "shared wire"}
TRANSFERS = {
    AUTO: "auto",
    "links": "on links",
    "lane": "one channel",
    "duplex": "each way",
    "blocking": "blocking",
}
MEMORY_MODELS = {"peak": "at the peak", "static": "to the sum"}
PER_NODE = {"auto": "1 node", "2": "2/node", "4": "4/node", "8": "8/node"}
REPLICAS = {"1": "off", "2": "2", "4": "4", "8": "8", "all": "all"}


def left_rail(catalogue: Catalogue, session: Session) -> Component:
    return html.Nav(
        [
            html.Div(
                [
                    _model(catalogue, session),
                    _cluster(catalogue, session),
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
    kinds = [k.name for k in catalogue.kinds]
    kind, second, devices = _mix(settings.device_kind, settings.devices or DEFAULT_DEVICES, kinds[0])
    if kind not in kinds:  # a mix of more than two that a link names
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
                    _select(ids.KIND, kind, {name: name for name in kinds}, "Device kind"),
                    _short_select(ids.PER_NODE, str(settings.devices_per_node or "auto"), PER_NODE, "GPUs per node"),
                ],
                className="pairing",
            ),
            _more_cluster(settings, kinds, second),
        ],
    )


def _mix(kinds: str | tuple[str, ...] | None, devices: int, usual: str) -> tuple[str, tuple[str, int], int]:
    """(first kind, (second kind or "none", how many of it), devices). A mix of more is one kind by its text."""
    if not isinstance(kinds, tuple):
        return kinds or usual, (NONE, 0), devices
    runs = [(kind, len(list(run))) for kind, run in groupby(kinds)]
    if len(runs) == 2:
        return runs[0][0], runs[1], len(kinds)
    return (runs[0][0] if len(runs) == 1 else kinds_text(kinds)), (NONE, 0), len(kinds)


def _more_cluster(settings: Settings, kinds: list[str], second: tuple[str, int]) -> Component:
    """What most clusters leave as it is: a second kind, CPUs, what carries transfers, and what a cap is for."""
    static = settings.memory_model is MemoryModel.STATIC
    bandwidth = settings.bandwidth_bytes_per_s
    unusual = (settings.links, settings.transfers, settings.cpus, bandwidth) != (None,) * 4 or static
    return html.Details(
        [
            html.Summary("Links, CPUs, memory"),
            _row("Links", _select(ids.LINKS, settings.links.value if settings.links else AUTO, WIRES, "Links", 118)),
            _row("Bandwidth", _number(ids.BANDWIDTH, "GB/s", bandwidth and bandwidth / 1e9, 118, suffix=" GB/s")),
            _row(
                "Transfers",
                _select(
                    ids.TRANSFERS, settings.transfers.value if settings.transfers else AUTO, TRANSFERS, "Transfers", 118
                ),
            ),
            _row(
                "Cap applies",
                _select(ids.MEMORY_MODEL, settings.memory_model.value, MEMORY_MODELS, "What a cap applies to", 118),
            ),
            _row("CPUs", _number(ids.CPUS, "CPUs", settings.cpus, 118, whole=True)),
            _row(
                "Mixed with",
                _select(ids.KIND_TWO, second[0], {NONE: "none", **{k: k for k in kinds if "," not in k}},
                        "Second device kind", 118),
            ),
            _row(
                "of which",
                _number(ids.KIND_TWO_COUNT, "GPUs of the second kind", second[1] or None, 118, whole=True,
                        placeholder="half"),
            ),
        ],
        className="more",
        open=unusual or second[0] != NONE,
    )  # fmt: skip


def _objective(session: Session) -> Component:
    """What is minimised, and how the mini-batch runs: as a pipeline, or in one pass."""
    settings = session.settings
    micro = str(settings.micro_batches or "auto")
    return _section(
        "Objective",
        [
            _select(ids.OBJECTIVE, settings.objective.value if settings.objective else AUTO, OBJECTIVES, "Objective"),
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
            _row("Mini-batch", _number(ids.MINI_BATCH, "Mini-batch, samples", settings.mini_batch, 84, whole=True)),
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
                    _select(ids.PIPELINE, settings.pipeline.value, PIPELINES, "Pipeline"),
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
                className="set of-pipelines",
            ),
        ],
    )


def _planner(catalogue: Catalogue, session: Session) -> Component:
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
            _row("Seed", _number(ids.SEED, "Seed", session.seed or None, 84, whole=True, placeholder="0")),
        ],
    )


def _section(title: str, children: list[Component]) -> Component:
    return html.Section([html.H2(title), *children], className="set")


def _row(label: str, control: Component) -> Component:
    return html.Div([html.Span(label, className="label"), control], className="spread")


def _switch(id_: str, label: str, checked: bool) -> Component:
    return dmc.Switch(id=id_, label=label, labelPosition="left", checked=checked, size="xs", className="spread")


def _select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int | None = None) -> Component:
    return dmc.Select(
        id=id_,
        data=[{"value": key, "label": label} for key, label in labels.items()],
        value=value,
        allowDeselect=False,
        size="xs",
        checkIconPosition="right",
        **({} if width is None else {"w": width, "withCheckIcon": False}),
        **{"aria-label": what},
    )


def _number(
    id_: str,
    what: str,
    value: float | None,
    width: int,
    whole: bool = False,
    suffix: str = "",
    placeholder: str = "auto",
) -> Component:
    return dmc.NumberInput(
        id=id_,
        value="" if value is None else value,
        min=0 if id_ in (ids.CPUS, ids.SEED) else 1 if whole else 0.001,
        allowDecimal=not whole,
        allowNegative=False,
        placeholder=placeholder,
        suffix=suffix,
        size="xs",
        w=width,
        hideControls=True,
        debounce=350,
        **{"aria-label": what},
    )


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
