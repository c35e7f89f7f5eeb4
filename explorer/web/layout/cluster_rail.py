"""The cluster in the left rail: how many devices of which kind, and what carries their transfers."""

from __future__ import annotations

import math
from itertools import groupby

from dash import html
from dash.development.base_component import Component

from explorer.question.settings import declared
from explorer.question.written.declaring import RARE, Control
from explorer.question.written.device_lists import kinds_text
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.fields import TextField
from explorer.web.layout.rail import choices, number, offered, placed, row, section, select, setting, slider, with_tip
from explorer.words.text import GIB

NONE = "none"
SLIDER_DEVICES = 16
DEFAULT_DEVICES = 4
WIDTH = 118
"""Pixels of the rarer controls."""


def cluster(catalogue: Catalogue, session: Session) -> Component:
    settings = session.settings
    kinds = [k.name for k in catalogue.kinds]
    kind, second, devices = _mix(settings.device_kind, settings.devices or DEFAULT_DEVICES, kinds[0])
    if kind not in kinds:  # a mix of more than two that a link names
        kinds.append(kind)
    own = next((k.memory_bytes for k in catalogue.kinds if k.name == kind), 16 * GIB)
    top = math.log2(own / GIB)
    cap = min(top, math.log2(settings.memory_bytes / GIB)) if isinstance(settings.memory_bytes, float) else top
    return section(
        "Cluster",
        [
            *_named(catalogue),
            *_saved(catalogue),
            slider(
                "devices",
                html.B(str(devices), id=ids.DEVICES_VALUE),
                min=1,
                max=max(SLIDER_DEVICES, devices),
                step=1,
                value=devices,
            ),
            slider(
                "memory",
                TextField(
                    id=ids.MEMORY_FIELD,
                    value="",
                    width=88,
                    pause_ms=500,
                    **{"aria-label": "Memory cap per GPU, with its unit: 16 GiB, 512 MiB or 80 GB"},
                ),
                min=min(0.0, math.floor(cap)),
                max=top,
                step=0.125,
                value=cap,
            ),
            html.Div(
                [
                    offered("device_kind", kind, choices({name: name for name in kinds})),
                    *setting("devices_per_node", session),
                ],
                className="pairing",
            ),
            *setting("wiring", session),
            *setting("tensor_parallel", session),
            html.Div(setting("sequence_parallel", session), className="set of-groups"),
            _each_gpu(),
            _more_cluster(session, kinds, second),
        ],
    )


def _named(catalogue: Catalogue) -> list[Component]:
    """Clusters by name, in place of the settings below."""
    if not catalogue.clusters:
        return []
    options = [
        html.Option(
            c.name.replace("x", " × ", 1) if c.name[0].isdigit() else c.name,
            value=c.name,
            title=c.title,
            **{"data-devices": str(c.devices), "data-memory": str(c.memory_bytes)},
        )
        for c in catalogue.clusters
    ]
    chosen = html.Select(
        [html.Option("custom", value=""), *options],
        id=ids.NAMED_CLUSTER,
        className="field named-cluster",
        **{"aria-label": "A cluster by name"},
    )
    return [row("Machine", chosen, "named-cluster")]


def _saved(catalogue: Catalogue) -> list[Component]:
    """What was measured here and saved under a name, in place of estimates."""
    if not catalogue.profiles and not catalogue.times:
        return []
    groups = [
        html.Optgroup([html.Option(name, value=f"{what}/{name}") for name in names], label=label)
        for what, names, label in (
            ("profile", catalogue.profiles, "profiles of a model"), ("times_file", catalogue.times, "operator times")
        )
        if names
    ]  # fmt: skip
    chosen = html.Select(
        [html.Option("estimated", value=""), *groups],
        id=ids.SAVED_COSTS,
        className="field named-cluster",
        **{"aria-label": "Costs: estimated, or measured and saved under a name"},
    )
    return [row("Costs", chosen, "saved-costs")]


def _mix(kinds: str | tuple[str, ...] | None, devices: int, usual: str) -> tuple[str, tuple[str, int], int]:
    """(first kind, (second kind or "none", how many of it), devices). A mix of more is one kind by its text."""
    if not isinstance(kinds, tuple):
        return kinds or usual, (NONE, 0), devices
    runs = [(kind, len(list(run))) for kind, run in groupby(kinds)]
    if len(runs) == 2:
        return runs[0][0], runs[1], len(kinds)
    return (runs[0][0] if len(runs) == 1 else kinds_text(kinds)), (NONE, 0), len(kinds)


def _each_gpu() -> Component:
    """A table of kinds and caps, one for each, that the page's scripts fill."""
    return html.Details(
        [
            with_tip(html.Summary(["Per-GPU settings ", html.Span(id=ids.FLEET_NOTE, className="tag")]), "each-gpu"),
            html.Table(
                html.Tbody(id=ids.FLEET), className="fleet", **{"aria-label": "Kind and memory cap of each GPU"}
            ),
            html.Button("Use the same for all", id=ids.FLEET_ALIKE, className="tool small", hidden=True),
        ],
        className="more each",
    )


def _more_cluster(session: Session, kinds: list[str], second: tuple[str, int]) -> Component:
    """What most clusters leave as it is: the rarer settings, and a second kind of device."""
    others = {NONE: "none", **{kind: kind for kind in kinds if "," not in kind}}
    rare = [one for one in declared() if one.control is not None and one.control.place == RARE]
    unusual = any(getattr(session.settings, one.field) != one.default for one in rare)
    count = Control(id=ids.KIND_TWO_COUNT, label="", meaning="", whole=True, empty="half")
    rows = [
        *placed(RARE, session),
        row("Second GPU type", select(ids.KIND_TWO, second[0], others, "Second device kind", WIDTH), "mixed-kind"),
        row(
            "Count",
            number(count, second[1] or "", "GPUs of the second kind"),
            "mixed-kind",
        ),
    ]
    return html.Details(
        [html.Summary("Links, CPUs, memory"), *rows], className="more rare", open=unusual or second[0] != NONE
    )
