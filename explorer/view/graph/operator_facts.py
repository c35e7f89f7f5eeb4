"""What is known of one operator of a schedule of single operators: when it, its gradients and its update run,
and what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view.graph.inspect import Facts
from explorer.view.plan_types import Skeleton
from explorer.words import text
from explorer.words.actions import TRANSFER

TITLES = {"F": "Forward", "I": "Input gradient", "W": "Weight gradient", "U": "Update", "B": "Backward"}
MOVES = 3


def operator_facts(operator: int, skeleton: Skeleton, plan: Mapping[str, Any]) -> Facts | None:
    """Facts of an operator and of those that mirror it; None if the schedule has no such operator."""
    anchors, names = skeleton["anchors"], skeleton["names"]
    if not 0 <= operator < len(names) or not plan["by_operator"]:
        return None
    found, devices = plan["bars"], [d["name"] for d in plan["devices"]]
    own = anchors[operator]
    mine = [i for i, o in enumerate(found["operator"]) if o >= 0 and anchors[o] == own]
    runs = sorted((i for i in mine if found["kind"][i] != TRANSFER), key=lambda i: found["start_s"][i])
    if not runs:
        return None
    rows = [("Type", text.short(skeleton["types"][own], 26))]
    for i in runs:
        took = text.seconds(found["end_s"][i] - found["start_s"][i])
        rows.append((TITLES.get(found["kind"][i], "Runs"), f"{took} at {text.seconds(found['start_s'][i])}"))
    sent: dict[int, tuple[int, float]] = {}
    for i in mine:
        if found["kind"][i] == TRANSFER and found["to_device"][i] != found["device"][i]:
            many, size = sent.get(found["to_device"][i], (0, 0.0))
            sent[found["to_device"][i]] = (many + 1, size + found["nbytes"][i])
    if sent:
        told = [f"{text.nbytes(size)} → {devices[to]}" for to, (_, size) in sorted(sent.items())]
        rows.append(("Sends", text.listing(told, MOVES)))
    held = skeleton["params"][own]
    if held:
        rows.append(("Parameters", text.nbytes(held)))
    places = sorted({d for i in runs for d in plan["placement"][found["operator"][i]]})
    return Facts(names[own], tuple(devices[d] for d in places), tuple(rows))
