"""The cluster in the left rail: how many devices of which kind, and what carries their transfers."""

from __future__ import annotations

import math
from itertools import groupby

from dash import html
from dash.development.base_component import Component

from explorer.question.settings import MemoryModel, Settings
from explorer.question.written.device_lists import kinds_text
from explorer.view.session import Session
from explorer.web.contract import ids
from explorer.web.contract.backend import Catalogue
from explorer.web.layout.fields import TextField
from explorer.web.layout.rail import AUTO, number, row, section, select, short_select, slider, told
from explorer.words.text import GIB
from solvers.problem.problem import Optimizer, Precision

NONE = "none"
SLIDER_DEVICES = 16
DEFAULT_DEVICES = 4
WIDTH = 118
NARROW = 74
"""Pixels of the rarer controls."""
PER_NODE = {"auto": "1 node", "2": "2/node", "4": "4/node", "8": "8/node"}
WIRES = {AUTO: "auto", "dedicated": "one a pair", "shared": "shared wire"}
TRANSFERS = {
    AUTO: "auto",
    "links": "on links",
    "lane": "one channel",
    "duplex": "each way",
    "blocking": "blocking",
}
MEMORY_MODELS = {"peak": "to peak", "static": "to sum"}
OPTIMIZERS = {
    "adam": "Adam", "adamw": "AdamW", "adafactor": "Adafactor", "momentum": "momentum", "sgd": "SGD", "none": "none",
}  # fmt: skip
PRECISIONS = {"pure": "as traced", "mixed": "mixed, 16 B", "mixed-fp32-gradients": "mixed, 18 B"}
"""Bytes a parameter with Adam."""


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
                "GPUs",
                html.B(str(devices), id=ids.DEVICES_VALUE),
                "devices",
                id=ids.DEVICES,
                min=1,
                max=max(SLIDER_DEVICES, devices),
                step=1,
                value=devices,
            ),
            slider(
                "Memory per GPU",
                TextField(
                    id=ids.MEMORY_FIELD,
                    value="",
                    width=88,
                    pause_ms=500,
                    **{"aria-label": "Memory cap per GPU, with its unit: 16 GiB, 512 MiB or 80 GB"},
                ),
                "memory",
                id=ids.MEMORY,
                min=min(0.0, math.floor(cap)),
                max=top,
                step=0.125,
                value=cap,
            ),
            html.Div(
                [
                    told(html.Div(select(ids.KIND, kind, {name: name for name in kinds}, "Device kind")), "kind"),
                    told(
                        html.Div(
                            short_select(
                                ids.PER_NODE, str(settings.devices_per_node or "auto"), PER_NODE, "GPUs per node"
                            )
                        ),
                        "node",
                    ),
                ],
                className="pairing",
            ),
            _each_gpu(),
            _more_cluster(settings, kinds, second),
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
        [html.Option("as set below", value=""), *options],
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
            told(html.Summary(["Each GPU by itself ", html.Span(id=ids.FLEET_NOTE, className="tag")]), "each-gpu"),
            html.Table(
                html.Tbody(id=ids.FLEET), className="fleet", **{"aria-label": "Kind and memory cap of each GPU"}
            ),
            html.Button("All alike again", id=ids.FLEET_ALIKE, className="tool small", hidden=True),
        ],
        className="more each",
    )


def _more_cluster(settings: Settings, kinds: list[str], second: tuple[str, int]) -> Component:
    """What most clusters leave as it is: a second kind, CPUs, what carries transfers, and what a cap is for."""
    held = settings.memory_model is MemoryModel.STATIC or settings.optimizer is not Optimizer.ADAM
    held |= settings.precision is not Precision.PURE or settings.keep_free_bytes > 0
    bandwidth = settings.bandwidth_bytes_per_s
    unusual = (settings.links, settings.transfers, settings.cpus, bandwidth) != (None,) * 4 or held
    links = settings.links.value if settings.links else AUTO
    transfers = settings.transfers.value if settings.transfers else AUTO
    others = {NONE: "none", **{kind: kind for kind in kinds if "," not in kind}}
    per_s = None if bandwidth is None else bandwidth / 1e9
    rows = [
        row("Links", select(ids.LINKS, links, WIRES, "Links", WIDTH), "links"),
        row("Bandwidth, GB/s", number(ids.BANDWIDTH, "Bandwidth, GB/s", per_s, NARROW, least=0.001), "bandwidth"),
        row("Transfers", select(ids.TRANSFERS, transfers, TRANSFERS, "Transfers", WIDTH), "transfers"),
        row(
            "Cap applies",
            select(ids.MEMORY_MODEL, settings.memory_model.value, MEMORY_MODELS, "What a cap applies to", WIDTH),
            "cap",
        ),
        row(
            "Keep free, GiB",
            number(
                ids.KEEP_FREE,
                "Keep free on each GPU, GiB",
                settings.keep_free_bytes / GIB or None,
                NARROW,
                placeholder="0",
                least=0,
            ),
            "keep-free",
        ),
        row("Optimizer", select(ids.OPTIMIZER, settings.optimizer.value, OPTIMIZERS, "Optimizer", WIDTH), "optimizer"),
        row(
            "Trained in",
            select(ids.PRECISION, settings.precision.value, PRECISIONS, "Precision of training", WIDTH),
            "precision",
        ),
        row("CPUs", number(ids.CPUS, "CPUs", settings.cpus, WIDTH, whole=True, least=0), "cpus"),
        row("Mixed with", select(ids.KIND_TWO, second[0], others, "Second device kind", WIDTH), "mixed-kind"),
        row(
            "of which",
            number(ids.KIND_TWO_COUNT, "GPUs of the second kind", second[1] or None, WIDTH, True, placeholder="half"),
            "mixed-kind",
        ),
    ]
    return html.Details(
        [html.Summary("Links, CPUs, memory"), *rows], className="more rare", open=unusual or second[0] != NONE
    )
