"""A schedule as bars, and the bars as a plotly figure (plain dicts, no plotly needed)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view import text
from explorer.view.palette import SURFACES, Theme, swatch
from solvers.schedule import Schedule

MAX_BARS = 5000
LABELLED = 40
"""With more bars than this in a lane, none has its micro-batch number: it could not be read."""
BAR, LINK_BAR, LINK_OFFSET = 0.6, 0.085, 0.40

Bars = dict[str, list[Any]]
"""JSON, one list a column: device, start_s, end_s, kind (F B I W U, or T for a transfer), stage (-1
unknown), micro_batch (-1: several, or none), to_device (-1: not a transfer), nbytes, spans (how many
spans were merged into it)."""
COLUMNS = ("device", "start_s", "end_s", "kind", "stage", "micro_batch", "to_device", "nbytes", "spans")
KIND_WORDS = {
    "F": "forward",
    "B": "backward",
    "I": "backward, inputs",
    "W": "backward, weights",
    "U": "update",
    "T": "transfer",
}
_ACTION = re.compile(r"^(\d+)([FBIWU])(\d*)")


def bars(schedule: Schedule, limit: int = MAX_BARS) -> Bars:
    """At most ``limit`` bars (or one a lane): neighbours melt together as needed, first those of one
    micro-batch, then those of a stage and kind with a gap too small to see, then any on a device."""
    rows = [_row(span) for span in schedule.spans]
    gap = schedule.makespan_s / 4000
    for alike, widest in ((7, 0.0), (4, gap * 16), (1, schedule.makespan_s)):
        width = 0.0 if widest == 0 else gap
        while len(rows) > limit and width <= widest:
            rows = _merged(rows, width, alike)
            width = width * 2 or 1.0 + schedule.makespan_s
    rows.sort(key=lambda row: (row[0], row[1]))
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def figure(
    found: Bars,
    devices: Sequence[str],
    span_s: float,
    theme: Theme,
    shown: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A plotly figure: one trace per device and kind, a lane a device, transfers thin below it.

    customdata of a bar is its position in ``found``. shown limits the devices (a filter).
    """
    lanes = list(shown) if shown is not None else list(range(len(devices)))
    row_of = {device: row for row, device in enumerate(lanes)}
    scale, unit = text.time_unit(span_s or 1.0)
    groups: dict[tuple[int, str], list[int]] = {}
    for i, (device, kind) in enumerate(zip(found["device"], found["kind"], strict=True)):
        if device in row_of:
            groups.setdefault((device, kind), []).append(i)
    crowd = Counter(d for d, kind in zip(found["device"], found["kind"], strict=True) if kind != "T")
    labelled = max(crowd.values(), default=0) <= LABELLED
    data = [
        _trace(found, members, device, kind, row_of[device], scale, devices, theme, labelled)
        for (device, kind), members in sorted(groups.items())
    ]
    return {"data": data, "layout": _layout(lanes, devices, span_s / scale, unit, theme)}


def table(found: Bars, devices: Sequence[str], limit: int = 400) -> list[dict[str, str]]:
    """The Gantt chart's table twin, in time order; the first ``limit`` bars."""
    order = sorted(range(len(found["device"])), key=lambda i: (found["start_s"][i], found["device"][i]))
    return [
        {
            "device": devices[found["device"][i]],
            "what": _what(found, i, devices),
            "start": text.seconds(found["start_s"][i]),
            "end": text.seconds(found["end_s"][i]),
            "took": text.seconds(found["end_s"][i] - found["start_s"][i]),
        }
        for i in order[:limit]
    ]


def _row(span: Any) -> list[Any]:
    match = _ACTION.match(span.action)
    stage = int(match[1]) if match else -1
    kind = "T" if span.is_transfer else match[2] if match else "F"
    micro_batch = int(match[3]) if match and match[3] else -1
    return [span.device, span.start_s, span.end_s, kind, stage, micro_batch, span.to_device, span.nbytes, 1]


def _merged(rows: list[list[Any]], gap: float, alike: int) -> list[list[Any]]:
    """Melt neighbours on a lane that are at most ``gap`` apart and agree in device, and if asked in
    kind, stage, receiver (alike 4) and micro-batch (alike 7)."""
    latest: dict[tuple[int, bool], list[Any]] = {}
    found: list[list[Any]] = []
    for row in sorted(rows, key=lambda r: r[1]):
        lane = (row[0], row[3] == "T")
        before = latest.get(lane)
        if before is not None and row[1] - before[2] <= gap and _traits(row, alike) == _traits(before, alike):
            before[2] = max(before[2], row[2])
            before[4] = before[4] if before[4] == row[4] else -1
            before[5] = before[5] if before[5] == row[5] else -1
            before[7] += row[7]
            before[8] += row[8]
            continue
        latest[lane] = list(row)
        found.append(latest[lane])
    return found


def _traits(row: list[Any], alike: int) -> tuple[Any, ...]:
    _, _, _, kind, stage, micro_batch, to, _, _ = row
    return (kind, stage, to, micro_batch) if alike == 7 else (kind, stage, to) if alike == 4 else ()


def _trace(
    found: Bars,
    members: list[int],
    device: int,
    kind: str,
    row: int,
    scale: float,
    devices: Sequence[str],
    theme: Theme,
    labelled: bool,
) -> dict[str, Any]:
    transfer = kind == "T"
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "name": f"{devices[device]} {KIND_WORDS[kind]}",
        "base": [round(found["start_s"][i] / scale, 6) for i in members],
        "x": [round((found["end_s"][i] - found["start_s"][i]) / scale, 6) for i in members],
        "y": [row + (LINK_OFFSET if transfer else 0)] * len(members),
        "width": LINK_BAR if transfer else BAR,
        "customdata": members,
        "hovertext": [_hover(found, i, devices) for i in members],
        "hoverinfo": "text",
        "marker": _marker(device, kind, theme, 0.6 if labelled else 0.0),
    }
    if labelled and not transfer:
        paint = swatch(device, theme)
        numbers = [found["micro_batch"][i] for i in members]
        trace |= {
            "text": [str(n) if n >= 0 else "" for n in numbers],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "inside",
            "textfont": {"size": 11, "color": paint.text if kind == "F" else paint.soft_text},
        }
    return trace


def _marker(device: int, kind: str, theme: Theme, edge_width: float) -> dict[str, Any]:
    paint, surface = swatch(device, theme), SURFACES[theme]
    if kind == "T":
        return {"color": surface.quiet, "line": {"width": 0}}
    edge = {"width": edge_width, "color": surface.background}
    if kind == "F":
        marker: dict[str, Any] = {"color": paint.fill, "line": edge}
        if paint.pattern:
            marker["pattern"] = _pattern(paint.pattern, paint.fill, paint.text, 0.35)
        return marker
    shape = {"U": ".", "W": "\\"}.get(kind, "/")
    return {"color": paint.soft, "line": edge, "pattern": _pattern(shape, paint.soft, paint.fill, 0.9)}


def _pattern(shape: str, under: str, over: str, opacity: float) -> dict[str, Any]:
    return {"shape": shape, "bgcolor": under, "fgcolor": over, "fgopacity": opacity, "size": 6, "solidity": 0.22}


def _layout(lanes: Sequence[int], devices: Sequence[str], span: float, unit: str, theme: Theme) -> dict[str, Any]:
    surface = SURFACES[theme]
    names = [
        f'<span style="color:{swatch(d, theme).fill}">■</span> {text.plain(text.short(devices[d], 12))}' for d in lanes
    ]
    return {
        "barmode": "overlay",
        "bargap": 0,
        "showlegend": False,
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "hovermode": "closest",
        "dragmode": "pan",
        "margin": {"l": 80, "r": 12, "t": 26, "b": 6},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 11, "color": surface.text},
        "shapes": [_lane(row, span, surface.lane) for row in range(len(lanes))],
        "xaxis": {
            "type": "linear",
            "side": "top",
            "range": [0, span * 1.005 or 1],
            "ticksuffix": f" {unit}",
            "nticks": 7,
            "tickangle": 0,
            "showgrid": True,
            "gridcolor": surface.grid,
            "zeroline": False,
            "tickfont": {"color": surface.quiet, "size": 10.5},
        },
        "yaxis": {
            "range": [len(lanes) - 0.45, -0.55],
            "fixedrange": True,
            "tickvals": list(range(len(lanes))),
            "ticktext": names,
            "showgrid": False,
            "zeroline": False,
            "ticks": "outside",
            "ticklen": 7,
            "tickcolor": "rgba(0,0,0,0)",
        },
        "hoverlabel": {
            "bgcolor": surface.background,
            "bordercolor": surface.grid,
            "font": {"color": surface.text, "size": 12},
            "align": "left",
        },
    }


def _lane(row: int, span: float, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "x0": 0,
        "x1": span,
        "y0": row - BAR / 2,
        "y1": row + BAR / 2,
        "fillcolor": colour,
        "line": {"width": 0},
    }


def _what(found: Mapping[str, Sequence[Any]], i: int, devices: Sequence[str]) -> str:
    stage, micro_batch = found["stage"][i], found["micro_batch"][i]
    words = KIND_WORDS[found["kind"][i]]
    if found["kind"][i] == "T":
        words = f"transfer to {devices[found['to_device'][i]]}, {text.nbytes(found['nbytes'][i])}"
    where = f", stage {stage}" if stage >= 0 else ""
    which = f", micro-batch {micro_batch}" if micro_batch >= 0 and found["kind"][i] != "U" else ""
    merged = f" ({found['spans'][i]} spans)" if found["spans"][i] > 1 else ""
    return f"{words}{where}{which}{merged}"


def _hover(found: Mapping[str, Sequence[Any]], i: int, devices: Sequence[str]) -> str:
    start, end = found["start_s"][i], found["end_s"][i]
    return (
        f"<b>{text.plain(devices[found['device'][i]])}</b> · {text.plain(_what(found, i, devices))}<br>"
        f"{text.seconds(end - start)} · {text.seconds(start)} to {text.seconds(end)}"
    )
