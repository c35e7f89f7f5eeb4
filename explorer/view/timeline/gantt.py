"""Bars as a plotly figure (plain dicts, no plotly needed)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from explorer.view.graph.palette import SURFACES, Theme, swatch
from explorer.view.plan_types import Bars
from explorer.view.timeline.bars import words
from explorer.view.timeline.gantt_paint import BAR, LINK_BAR, LINK_OFFSET, backgrounds, marker, text_colour
from explorer.view.timeline.gantt_rows import HIDDEN, Row, Rows
from explorer.view.timeline.repeated import label
from explorer.words import text
from explorer.words.actions import KIND_WORDS, REPEATED, TRANSFER

LABELLED = 72
"""With more bars than this in a lane, none has its micro-batch number: it could not be read."""
EDGED = 40
"""With more bars than this in a lane, they have no edge: it would be all that is seen."""
MOST_APART = 48
"""Stages up to which each has bars of its own: whether they are numbered does not depend on the narrow ones beside."""
MARKS = 3
"""Colours beside a row's name; a stage on more devices shows those of the first."""
EDGE = 0.6
MARGIN = 80
FOOT = 0.42
"""Rows of room for the words below the last row, when there are eight."""


def figure(
    found: Bars,
    devices: Sequence[str],
    span_s: float,
    theme: Theme,
    shown: Sequence[int] | None = None,
    rows: Rows | None = None,
    until_s: float | None = None,
    mark: tuple[str, float] | None = None,
    hover: Callable[[Bars, int], str] | None = None,
    edged_s: float | None = None,
) -> dict[str, Any]:
    """A plotly figure: one trace per row, device, kind and stage, transfers thin below the row, or in the rows of
    links.

    customdata of a bar is its position in ``found``. rows: by default the devices, of which shown keeps
    some (a filter). until_s: where the time axis ends, if not at span_s. mark: (label, seconds) of a line
    across all rows. hover: what a bar says, if not what `words` does. edged_s: how
    long a bar must be to have an edge, if that is not for the lane to say.
    """
    if rows is None:
        lanes = list(shown) if shown is not None else list(range(len(devices)))
        place = {device: row for row, device in enumerate(lanes)}
        told = tuple(Row(text.short(devices[d], 12), (d,)) for d in lanes)
        rows = Rows("devices", told, tuple(place.get(device, HIDDEN) for device in found["device"]))
    scale, unit = text.time_unit(until_s or span_s or 1.0)
    groups: dict[tuple[int, int, str, int], list[int]] = {}
    apart = len(set(found["stage"])) <= MOST_APART
    for i, (row, device, kind) in enumerate(zip(rows.of_bar, found["device"], found["kind"], strict=True)):
        if row != HIDDEN:
            stage = found["stage"][i] if apart and kind != TRANSFER else -1
            groups.setdefault((row, device, kind, stage), []).append(i)
    crowd = Counter[int]()
    for (row, _, kind, _), members in groups.items():
        crowd[row] += len(members) if kind != TRANSFER else 0
    most = max(crowd.values(), default=0)
    middles = rows.middles()
    say = hover or (lambda bars, i: _hover(bars, i, devices))
    data = [
        _trace(found, members, rows.rows[row], middles[row], device, kind, scale, devices, theme, most, say, edged_s)
        for (row, device, kind, _), members in sorted(groups.items())
    ]
    layout = _layout(rows, span_s / scale, (until_s or span_s) / scale, scale, unit, theme)
    if mark is not None:
        _add_mark(layout, mark[0], mark[1] / scale, rows.total(), theme)
    return {"data": data, "layout": layout}


def _trace(
    found: Bars,
    members: list[int],
    row: Row,
    middle: float,
    device: int,
    kind: str,
    scale: float,
    devices: Sequence[str],
    theme: Theme,
    most: int,
    say: Callable[[Bars, int], str],
    edged_s: float | None,
) -> dict[str, Any]:
    transfer = kind == TRANSFER
    edges: float | list[float] = EDGE if most <= EDGED else 0.0
    if edged_s is not None:
        edges = [EDGE if found["end_s"][i] - found["start_s"][i] >= edged_s else 0.0 for i in members]
    thin = transfer and not row.links
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "name": f"{devices[device]} {KIND_WORDS[kind]}",
        "base": [round(found["start_s"][i] / scale, 6) for i in members],
        "x": [round((found["end_s"][i] - found["start_s"][i]) / scale, 6) for i in members],
        "y": [round(middle + (LINK_OFFSET if thin else 0), 4)] * len(members),
        "width": LINK_BAR if thin else BAR * row.height,
        "customdata": members,
        "hovertext": [say(found, i) for i in members],
        "hoverinfo": "text",
        "marker": marker(device, kind, theme, edges, transfer and len(row.devices) != 1),
    }
    if not transfer:
        repeats = kind == REPEATED
        numbers = (
            [found["micro_batch"][i] for i in members] if not repeats and most <= LABELLED and kind not in "RU" else []
        )
        trace |= {
            "text": [label(found, i) for i in members] if repeats else [str(n) if n >= 0 else "" for n in numbers],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "inside",
            "textfont": {"size": 11, "color": text_colour(device, kind, theme)},
        }
    return trace


def _layout(lanes: Rows, span: float, until: float, scale: float, unit: str, theme: Theme) -> dict[str, Any]:
    surface = SURFACES[theme]
    names = []
    rows, middles = lanes.rows, lanes.middles()
    for row in rows:
        squares = "".join(f'<span style="color:{swatch(d, theme).fill}">■</span>' for d in row.devices[:MARKS])
        names.append(f"{squares} {text.plain(row.label)}")
    longest = max((len(row.label) + 1.6 * min(MARKS, len(row.devices)) for row in rows), default=0)
    return {
        "barmode": "overlay",
        "bargap": 0,
        "showlegend": False,
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "hovermode": "closest",
        "dragmode": "pan",
        "margin": {"l": round(max(MARGIN, 20 + 6.6 * longest)), "r": 12, "t": 26, "b": 6},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 11, "color": surface.text},
        "shapes": backgrounds(rows, middles, span, scale, theme),
        "xaxis": {
            "type": "linear",
            "side": "top",
            "range": [0, until * 1.005 or 1],
            "ticksuffix": f" {unit}",
            "nticks": 7,
            "tickangle": 0,
            "showgrid": True,
            "gridcolor": surface.grid,
            "zeroline": False,
            "tickfont": {"color": surface.quiet, "size": 10.5},
        },
        "yaxis": {
            "range": [lanes.total() - 0.45, -0.55],
            "fixedrange": True,
            "tickvals": [round(middle, 4) for middle in middles],
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


def _add_mark(layout: dict[str, Any], label: str, at: float, rows: float, theme: Theme) -> None:
    """A dashed line at ``at`` with its label below the rows, on the side where there is room."""
    surface = SURFACES[theme]
    foot = rows - 0.45 + FOOT * max(1.0, rows / 8)
    line = {"width": 1.5, "color": surface.text, "dash": "dash"}
    layout["shapes"].append({"type": "line", "x0": at, "x1": at, "y0": -0.5, "y1": foot, "line": line})
    layout["yaxis"]["range"][0] = foot
    late = at > 0.6 * layout["xaxis"]["range"][1]
    layout["annotations"] = [
        {
            "x": at,
            "y": foot,
            "text": text.plain(label),
            "showarrow": False,
            "xanchor": "right" if late else "left",
            "yanchor": "bottom",
            "xshift": -4 if late else 4,
            "bgcolor": surface.background,
            "borderpad": 2,
            "font": {"size": 10.5, "color": surface.text},
        }
    ]


def _hover(found: Bars, i: int, devices: Sequence[str]) -> str:
    start, end = found["start_s"][i], found["end_s"][i]
    return (
        f"<b>{text.plain(devices[found['device'][i]])}</b> · {text.plain(words(found, i, devices))}<br>"
        f"{text.seconds(end - start)} · {text.seconds(start)} to {text.seconds(end)}"
    )
