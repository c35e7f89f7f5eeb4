"""Memory over time of many devices: a thin strip each, as dark as it is full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from explorer.view.timeline.charts import READABLE
from explorer.words import text

MOST_CARDS = 16
"""Devices up to which each has a curve of its own: more could not be read side by side."""
MOST_ROWS = 16
"""Strips of a panel, where nodes do not say which belong together."""
TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, READABLE)
"""Shares of the cap at which the scale ends, where no device comes near the cap."""
OVER = 1 + 1e-9


def memory_strips(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Strips of a plan's view, or None for so few devices that each has a curve (`charts.memory_cards`).

    what: of which what is shown is a share. ticks: (place from 0 to 1, words) of the scale. panels: [{label, rows}],
    one a node, or a run of devices where there is one node only; a row has device, name, peak, share ("78 %", "" where
    there is no cap), over (whether it breaks its cap) and points [share of the time, place on the scale]; a place above
    1 is above the cap.
    """
    devices, curves = plan["devices"], plan["memory"]
    if len(devices) <= MOST_CARDS:
        return None
    highest = max([curve["peak_bytes"] for curve in curves] + [1.0])
    capped = any(device["memory_bytes"] for device in devices)
    wholes = [device["memory_bytes"] or highest for device in devices]
    fullest = max(
        (c["peak_bytes"] / whole for c, whole, d in zip(curves, wholes, devices, strict=True)
         if d["memory_bytes"] or not capped), default=1.0,
    )  # fmt: skip
    top = next((top for top in TOPS if fullest <= top), 1.0)
    rows = [_row(d, c, whole, top) for d, c, whole in zip(devices, curves, wholes, strict=True)]
    return {
        "what": "of the cap" if capped else f"of the highest peak, {text.nbytes(highest)}",
        "ticks": [[place, text.percent(place * top)] for place in (0.0, 0.5, 1.0)],
        "over": any(row["over"] for row in rows),
        "panels": [{"label": label, "rows": [rows[i] for i in members]} for label, members in _panels(devices)],
    }


def _row(device: Mapping[str, Any], curve: Mapping[str, Any], whole: float, top: float) -> dict[str, Any]:
    cap = device["memory_bytes"]
    return {
        "device": device["index"],
        "name": device["name"],
        "peak": text.nbytes(curve["peak_bytes"]),
        "share": text.percent(curve["peak_bytes"] / cap) if cap else "",
        "over": bool(cap) and curve["peak_bytes"] > cap * OVER,
        "points": [[round(x, 4), round(nbytes / whole / top, 4)] for x, nbytes in curve["points"]],
    }


def _panels(devices: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[int]]]:
    """Label and devices of each panel."""
    nodes = {device["node"] for device in devices}
    if len(nodes) > 1:
        for node in sorted(nodes):
            yield f"node {node}", [i for i, device in enumerate(devices) if device["node"] == node]
        return
    for first in range(0, len(devices), MOST_ROWS):
        members = list(range(first, min(first + MOST_ROWS, len(devices))))
        ends = devices[members[0]]["name"], devices[members[-1]]["name"]
        yield " to ".join(ends), members
