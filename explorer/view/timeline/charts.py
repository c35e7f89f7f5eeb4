"""Small multiples of memory over time, and the table of devices."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.plan_types import MemoryView
from explorer.words import text

POINTS = 160
"""Steps a curve keeps: about one a pixel pair of a small multiple."""
READABLE = 0.3
"""Below this share of the cap, curves are drawn larger, below a break in the scale."""
BROKEN = 0.55
"""Height of the highest curve where the scale is broken between it and the cap."""


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


def memory_cards(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One card a device, all on one scale, so that they compare.

    cap: share of the card's height at which the cap's line is; None without a cap. broken: whether the scale is broken
    between the curves and that line, which lies so far above them that they could not be read beside it. share: the
    peak's of the cap.
    """
    highest = max([c["peak_bytes"] for c in plan["memory"]] + [1.0])
    caps = [d["memory_bytes"] for d in plan["devices"] if d["memory_bytes"]]
    far = bool(caps) and highest < READABLE * max(caps)
    top = highest / BROKEN if far else max(highest / 0.8 if not caps else highest, *caps, 1.0)
    cards = []
    for device, curve in zip(plan["devices"], plan["memory"], strict=True):
        cap = device["memory_bytes"]
        cards.append(
            {
                "device": device["index"],
                "name": device["name"],
                "peak": text.nbytes(curve["peak_bytes"]),
                "parts": parts_words(curve["parts"]),
                "limit": text.nbytes(cap) if cap else "no cap",
                "over": bool(cap) and curve["peak_bytes"] > cap * (1 + 1e-9),
                "share": text.percent(curve["peak_bytes"] / cap) if cap else "",
                "cap": (1.0 if far else round(cap / top, 4)) if cap else None,
                "broken": far and bool(cap),
                "floor": round(curve["static_bytes"] / top, 4),
                "points": [[round(x, 4), round(b / top, 4)] for x, b in curve["points"]],
            }
        )
    return cards


def parts_words(parts: Sequence[tuple[str, float]]) -> str:
    """ "parameters 1.2 GiB, gradients 1.2 GiB, ...", the largest first."""
    ordered = sorted(parts, key=lambda part: -part[1])
    return ", ".join(f"{name} {text.nbytes(nbytes)}" for name, nbytes in ordered)


def device_rows(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The devices table: what each holds and what it does with its time."""
    metrics, span = plan["metrics"], plan["span_s"]
    operators = [0] * len(plan["devices"])
    for places in plan["placement"]:
        for device in places:
            operators[device] += 1
    stages = [[i for i, s in enumerate(plan["stages"]) if d in s["devices"]] for d in range(len(operators))]
    rows = []
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


def link_rows(plan: Mapping[str, Any]) -> list[dict[str, str]]:
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
