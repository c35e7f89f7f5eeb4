"""Memory over time, as small multiples or as a strip for each of many devices, and the table of devices."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypedDict

from explorer.view.plan_types import Device, MemoryView, PlanView
from explorer.words import text

POINTS = 160
"""Steps a curve keeps: about one a pixel pair of a small multiple."""
READABLE = 0.3
"""Below this share of the cap, curves are drawn larger, below a break in the scale."""
BROKEN = 0.55
"""Height of the highest curve where the scale is broken between it and the cap."""
MOST_CARDS = 16
"""Devices up to which each has a curve of its own: more could not be read side by side."""
MOST_ROWS = 16
"""Strips of a panel, where nodes do not say which belong together."""
TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, READABLE)
"""Shares of the cap at which the scale ends, where no device comes near the cap."""
OVER = 1 + 1e-9


class MemoryCard(TypedDict):
    """Of a device. cap: share of the card's height at which the cap's line is, None without a cap. broken: whether the
    scale is broken between the curves and that line, which lies so far above them that they could not be read beside
    it. share: the peak's of the cap."""

    device: int
    name: str
    peak: str
    parts: str
    limit: str
    over: bool
    share: str
    cap: float | None
    broken: bool
    floor: float
    points: list[list[float]]


class Strip(TypedDict):
    """Of a device. share: "78 %", "" where there is no cap. over: whether it breaks its cap. points: [share of the
    time, place on the scale]; a place above 1 is above the cap."""

    device: int
    name: str
    peak: str
    share: str
    over: bool
    points: list[list[float]]


class StripPanel(TypedDict):
    label: str
    rows: list[Strip]


class Strips(TypedDict):
    """See `memory_strips`."""

    what: str
    ticks: list[tuple[float, str]]
    over: bool
    panels: list[StripPanel]


class DeviceRow(TypedDict):
    """A row of the devices table."""

    device: int
    name: str
    kind: str
    stages: str
    operators: str
    busy: str
    compute: str
    load: str
    parameters: str
    peak: str
    of_cap: str


def memory_curve(times_s: Sequence[float], nbytes: Sequence[float], static_bytes: float, span_s: float) -> MemoryView:
    """A memory curve thinned to at most POINTS steps that keeps every window's highest value.

    points: [share of the span, bytes], ascending in time. peak is exact.
    """
    peak = max(nbytes, default=static_bytes)
    if len(times_s) <= POINTS:
        points = [[_share(t, span_s), b] for t, b in zip(times_s, nbytes, strict=True)]
        return {"points": points or [[0.0, static_bytes]], "static_bytes": static_bytes, "peak_bytes": peak}
    points = []
    for window in range(POINTS):
        start, end = span_s * window / POINTS, span_s * (window + 1) / POINTS
        first = max(0, bisect_right(times_s, start) - 1)
        last = max(first + 1, bisect_right(times_s, end))
        points.append([window / POINTS, max(nbytes[first:last])])
    return {"points": points, "static_bytes": static_bytes, "peak_bytes": peak}


def memory_cards(plan: PlanView) -> list[MemoryCard]:
    """One card a device, all on one scale, so that they compare."""
    highest = max([c["peak_bytes"] for c in plan["memory"]] + [1.0])
    caps = [d["memory_bytes"] for d in plan["devices"] if d["memory_bytes"]]
    far = bool(caps) and highest < READABLE * max(caps)
    top = highest / BROKEN if far else max(highest / 0.8 if not caps else highest, *caps, 1.0)
    cards: list[MemoryCard] = []
    for device, curve in zip(plan["devices"], plan["memory"], strict=True):
        cap = device["memory_bytes"]
        cards.append(
            {
                "device": device["index"],
                "name": device["name"],
                "peak": text.nbytes(curve["peak_bytes"]),
                "parts": parts_words(curve.get("parts", ()), device.get("members", 1)),
                "limit": text.nbytes(cap) if cap else "no cap",
                "over": bool(cap and curve["peak_bytes"] > cap * (1 + 1e-9)),
                "share": text.percent(curve["peak_bytes"] / cap) if cap else "",
                "cap": (1.0 if far else round(cap / top, 4)) if cap else None,
                "broken": far and bool(cap),
                "floor": round(curve["static_bytes"] / top, 4),
                "points": [[round(x, 4), round(b / top, 4)] for x, b in curve["points"]],
            }
        )
    return cards


def parts_words(parts: Sequence[tuple[str, float]], members: int = 1) -> str:
    """ "parameters 1.2 GiB, gradients 1.2 GiB, ...", the largest first. members: of a tensor-parallel group, each of
    which holds that."""
    ordered = sorted(parts, key=lambda part: -part[1])
    of = f"; per member of a group of {members}" if members > 1 and ordered else ""
    return ", ".join(f"{name} {text.nbytes(nbytes)}" for name, nbytes in ordered) + of


def device_rows(plan: PlanView) -> list[DeviceRow]:
    """The devices table: what each holds and what it does with its time."""
    metrics, span = plan["metrics"], plan["span_s"]
    operators = [0] * len(plan["devices"])
    for places in plan["placement"]:
        for place in places:
            operators[place] += 1
    stages = [[i for i, s in enumerate(plan["stages"]) if d in s["devices"]] for d in range(len(operators))]
    rows: list[DeviceRow] = []
    for device in plan["devices"]:
        i = device["index"]
        cap, peak = device["memory_bytes"], plan["memory"][i]["peak_bytes"]
        rows.append(
            {
                "device": i,
                "name": f"{device['name']} ({device['alike']}, alike)" if device.get("alike") else device["name"],
                "kind": device["kind"],
                "stages": ", ".join(map(str, stages[i][:6])) + (" …" if len(stages[i]) > 6 else "") or text.NOTHING,
                "operators": text.count(operators[i]),
                "busy": text.percent(plan["busy_s"][i] / span if span else None),
                "compute": text.seconds(plan["busy_s"][i]),
                "load": text.seconds(metrics["load_s"][i]),
                "parameters": text.nbytes(plan["memory"][i]["static_bytes"]),
                "peak": text.nbytes(peak),
                "of_cap": text.percent(peak / cap) if cap else text.NOTHING,
            }
        )
    return rows


def link_rows(plan: PlanView) -> list[dict[str, str]]:
    """The links table, the busiest first."""
    span = plan["span_s"]
    return [
        {
            "name": use["label"],
            "transfers": text.count(use["transfers"]),
            "bytes": text.nbytes(use["nbytes"]),
            "busy": text.percent(use["busy_s"] / span if span else None),
            "time": text.seconds(use["busy_s"]),
        }
        for use in sorted(plan["links"], key=lambda use: -use["busy_s"])
    ]


def _share(time_s: float, span_s: float) -> float:
    return 0.0 if span_s <= 0 or not math.isfinite(span_s) else min(1.0, time_s / span_s)


def memory_strips(plan: PlanView) -> Strips | None:
    """Strips of a plan's view, or None for so few devices that each has a curve (`charts.memory_cards`).

    what: of which what is shown is a share. ticks: (place from 0 to 1, words) of the scale. panels: [{label, rows}],
    one a node, or a run of devices where there is one node only.
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
        "ticks": [(place, text.percent(place * top)) for place in (0.0, 0.5, 1.0)],
        "over": any(row["over"] for row in rows),
        "panels": [{"label": label, "rows": [rows[i] for i in members]} for label, members in _panels(devices)],
    }


def _row(device: Device, curve: MemoryView, whole: float, top: float) -> Strip:
    cap = device["memory_bytes"]
    return {
        "device": device["index"],
        "name": device["name"],
        "peak": text.nbytes(curve["peak_bytes"]),
        "share": text.percent(curve["peak_bytes"] / cap) if cap else "",
        "over": bool(cap and curve["peak_bytes"] > cap * OVER),
        "points": [[round(x, 4), round(nbytes / whole / top, 4)] for x, nbytes in curve["points"]],
    }


def _panels(devices: Sequence[Device]) -> Iterator[tuple[str, list[int]]]:
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
