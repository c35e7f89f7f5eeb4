"""The controls around a plan: what they say, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from explorer.costs.devices import DEVICES
from explorer.notebook.messages import SETTABLE
from explorer.question.accelerators import DEFAULT_KIND
from explorer.question.written.declaring import AUTO, OWN, SWITCH
from explorer.question.written.kinds import Choice, Number, Whole
from explorer.words import text
from solvers.planners.registry import PLANNERS
from solvers.problem.cluster import CPU_KIND
from solvers.problem.problem import Problem
from solvers.search.planner import Planner

Offered = tuple[str, str, str]
"""Value, label and title."""


@cache
def choices() -> dict[str, list[Offered]]:
    """What each choice offers, the default first."""
    planners = sorted(PLANNERS.items(), key=lambda item: item[0] != "auto")
    kinds = [name for name in DEVICES if name != CPU_KIND]
    return {
        "planner": [(name, name, f"{planner.guarantee}; {planner.source}") for name, planner in planners],
        **{
            name: [("" if value == AUTO else value, label, "") for value, label in one.control.labels.items()]
            for name, one in SETTABLE.items()
            if one.control is not None and isinstance(one.kind, Choice)
        },
        "device_kind": [(name, name, "") for name in sorted(kinds, key=lambda name: name != DEFAULT_KIND)],
    }


@cache
def fields() -> list[tuple[str, str, str, str]]:
    """Name, label, kind ("step", "choice", "switch", "number" or "text") and place of each control, as declared."""
    rows = []
    for name, one in SETTABLE.items():
        control = one.control
        assert control is not None
        kind = "text"
        if name in choices():
            kind = "choice"
        elif control.shape == SWITCH:
            kind = "switch"
        elif type(one.kind) in (Whole, Number):
            kind = "step" if control.shape == OWN else "number"
        label = control.heading if control.unit != 1 else control.label or control.what
        rows.append((name, label, kind, control.in_widget))
    return rows


def controls(written: Mapping[str, object], problem: Problem, given: bool) -> dict[str, object]:
    """The controls, values as text, defaults shown where nothing is set, and choices. written: settings by name, as
    they were set; given: whether the problem was handed in whole, so that the controls do not describe it."""
    planner = written["planner"]
    kinds = list(dict.fromkeys(problem.cluster.devices[i].kind for i in problem.cluster.accelerators))
    kind = kinds[0] if len(kinds) == 1 else ", ".join(kinds)
    caps = dict.fromkeys(problem.cluster.devices[i].memory_bytes for i in problem.cluster.accelerators)
    speeds = dict.fromkeys(link.bandwidth_bytes_per_s for link in problem.cluster.speeds)
    values = {name: _text(written[name]) for name in SETTABLE} | {
        "devices": str(len(problem.cluster.accelerators)),
        "device_kind": kind,
        "memory": _size(written["memory"]),
        "planner": planner if isinstance(planner, str) else cast(Planner, planner).name,
        "bandwidth": _rate(written["bandwidth"]),
    }
    lists = {name: list(offered) for name, offered in choices().items()}
    for name, value in values.items():
        if name in lists and all(value != offered for offered, _, _ in lists[name]):
            lists[name].insert(0, (str(value), str(value), ""))
    return {
        "fields": fields(),
        "values": values,
        "defaults": {
            "memory": text.nbytes(next(iter(caps))) if len(caps) == 1 else "",
            "mini_batch": f"{problem.mini_batch:,}",
            "micro_batches": "auto",
            "bandwidth": f"{text.digits(next(iter(speeds)) / 1e9)} GB/s" if len(speeds) == 1 else "",
        },
        "choices": lists,
        "given": given,
    }


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _size(memory: object) -> str:
    if isinstance(memory, str):
        return memory
    if isinstance(memory, int | float):
        return text.nbytes(memory)
    return "" if memory is None else ", ".join(map(_size, memory)) if isinstance(memory, list | tuple) else ""


def _rate(bandwidth: object) -> str:
    if isinstance(bandwidth, int | float):
        return f"{text.digits(bandwidth / 1e9)} GB/s"
    return bandwidth if isinstance(bandwidth, str) else ""
