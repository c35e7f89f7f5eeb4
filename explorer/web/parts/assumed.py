"""What a question takes for granted, in words in the header: a click shows what changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dash import html
from dash.development.base_component import Component

from explorer.costs.regions import Recompute
from explorer.question.accelerators import DEFAULT_DEVICES, DEFAULT_KIND
from explorer.question.nodes.described import DEFAULT_BANDWIDTH
from explorer.question.nodes.wired import Wiring, as_measured, machine_of
from explorer.question.settings import SETTINGS, Settings
from explorer.question.written.device_lists import kinds_text
from explorer.web.contract import ids
from solvers.problem.problem import Optimizer, Precision

GB = 1e9


class Assumed(NamedTuple):
    """words: of one thing. setting: the name of what changes it, or the id of a control. meaning: as a sentence."""

    words: str
    setting: str
    meaning: str


def assumptions(settings: Settings, cluster: str = "", stated: bool = False) -> list[Component]:
    """See `assumed`."""
    return [
        html.Button(
            one.words,
            title=f"{one.meaning} Press to change it.",
            **{
                "data-act": "to-setting",
                "data-arg": _control(one.setting),
                "aria-label": f"{one.words}: change it",
            },
        )
        for one in assumed(settings, cluster, stated)
    ]


def _control(setting: str) -> str:
    control = SETTINGS[setting].control if setting in SETTINGS else None
    return setting if control is None else control.id


def assumed(settings: Settings, cluster: str = "", stated: bool = False) -> Sequence[Assumed]:
    """cluster: the name of one that takes the place of devices and links. stated: whether the model's file has times,
    devices and links of its own."""
    assumptions = [] if stated else [_links(settings, cluster)]
    if settings.training is False:
        return [*assumptions, Assumed(_numbers(settings), "dtype", "In which numbers the model runs.")]
    assumptions.append(Assumed(_trained(settings), "precision", "What training keeps: weights, masters and states."))
    if settings.recompute not in (Recompute.MODEL, Recompute.NONE):
        assumptions.append(
            Assumed("recomputes", "recompute", "Forwards may run again before their backward to hold less.")
        )
    return assumptions


def _links(settings: Settings, cluster: str) -> Assumed:
    if cluster:
        return Assumed(cluster, ids.NAMED_CLUSTER, "Devices and links of a machine by name.")
    kinds = settings.device_kind or DEFAULT_KIND
    kind = kinds if isinstance(kinds, str) else kinds[0]
    machine = as_measured(kind) if settings.wiring is Wiring.MEASURED else machine_of(kind)
    bought = settings.wiring is not Wiring.PLAIN and settings.links is None
    rate = settings.bandwidth_bytes_per_s or (machine.inside.bandwidth_bytes_per_s if bought else DEFAULT_BANDWIDTH)
    name = machine.name if bought else "links of"
    words = f"{name} {rate / GB:.3g} GB/s"
    devices = len(kinds) if isinstance(kinds, tuple) else settings.devices or DEFAULT_DEVICES
    node = settings.devices_per_node or (machine.devices if bought else devices)
    between = f", nodes of {node}" if devices > node else ""
    of = kind if isinstance(kinds, str) else kinds_text(kinds)
    meaning = f"What joins {devices} {of}: {words} each way{between}."
    return Assumed(words + between, "wiring", meaning)


def _numbers(settings: Settings) -> str:
    return settings.dtype or "model's dtype"


def _trained(settings: Settings) -> str:
    """ "bf16 mixed, Adam on hosts"."""
    mixed = {Precision.PURE: "", Precision.MIXED: " mixed"}.get(settings.precision, " mixed, fp32 gradients")
    control = SETTINGS["optimizer"].control
    optimizer = settings.optimizer.value if control is None else control.labels[settings.optimizer.value]
    where = " on hosts" if settings.offload_optimizer else ""
    named = f"{optimizer}{where}" if settings.optimizer is not Optimizer.NONE else "no optimizer"
    return f"{_numbers(settings)}{mixed}, {named}"
