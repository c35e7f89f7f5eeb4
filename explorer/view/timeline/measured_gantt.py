"""A run's schedule over the predicted one: two lanes a device on one time axis, the predicted above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.graph.palette import SURFACES, Theme, mix, swatch, text_on
from explorer.view.timeline import gantt
from explorer.view.timeline.bars import COLUMNS
from explorer.view.timeline.gantt_paint import marker
from explorer.words import text
from explorer.words.actions import KIND_WORDS, TRANSFER

PREDICTED, MEASURED, WAIT = "predicted", "measured", "wait"
SYNC = "S"
WORDS = {**KIND_WORDS, SYNC: "all-reduce"}
LANE_HEIGHT, LANE_OFFSET = 0.36, 0.2
"""Of a row's height: what a lane takes, and how far its middle is from the row's."""
PALE = 0.55
"""Opacity of what was only predicted."""
SAME = 0.005
"""Relative difference of two times that is none to people."""

Columns = Mapping[str, Sequence[Any]]


def figure(
    comparison: Mapping[str, Any],
    devices: Sequence[str],
    theme: Theme,
    shown: Sequence[int] | None = None,
    fed: bool = False,
) -> dict[str, Any]:
    """A plotly figure {data, layout}, as `explorer.view.timeline.gantt.figure` gives it: rows are devices.

    comparison: of `explorer.measured.comparison_object`. devices: their names. shown: the devices to show, by
    default those that the run or the prediction uses. fed: the upper lane is the simulation that was fed with
    measured times, in place of the prediction. Each trace is one row, lane ("predicted", "measured" or "wait",
    its ``meta``) and kind; customdata of a bar is its position in the columns that it comes from. A dashed
    line marks the end of the upper lane.
    """
    upper: Columns = comparison["bars"]["fed" if fed else "predicted"]
    lower: Columns = comparison["bars"]["measured"]
    ends = comparison["fed_s" if fed else "predicted_s"], comparison["drawn_s"]
    used = {d for c in (upper, lower) for d, kind in zip(c["device"], c["kind"], strict=True) if kind != TRANSFER}
    rows = list(shown) if shown is not None else sorted(used)
    mark = (f"{'fed' if fed else 'predicted'} end {text.seconds(ends[0])}", ends[0])
    nothing: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    drawn = gantt.figure(nothing, devices, ends[1], theme, rows, None, max(ends), mark)
    scale, _ = text.time_unit(max(ends) or 1.0)
    place = {device: row for row, device in enumerate(rows)}
    hover = _Hover(comparison, upper, lower, devices)
    data: list[dict[str, Any]] = []
    for lane, columns, offset in ((PREDICTED, upper, -LANE_OFFSET), (MEASURED, lower, LANE_OFFSET)):
        for (row, kind), members in sorted(_grouped(columns, place).items()):
            trace = _trace(columns, members, devices, kind, lane, theme, scale)
            trace["y"] = [round(row + offset, 4)] * len(members)
            trace["hovertext"] = [hover.words(lane, i) for i in members]
            data.append(trace)
    data += _waits(lower, place, scale, theme, devices)
    return {"data": data, "layout": drawn["layout"]}


def legend() -> list[dict[str, str]]:
    """The lanes in words: key ("predicted", "measured" or "wait") and label."""
    return [
        {"key": PREDICTED, "label": "predicted (upper, pale)"},
        {"key": MEASURED, "label": "measured (lower)"},
        {"key": WAIT, "label": "waiting for messages"},
    ]


def table(comparison: Mapping[str, Any], devices: Sequence[str], limit: int = 400) -> list[dict[str, str]]:
    """The chart's table twin in time order: device, what, start, took, predicted, off and waited."""
    found: Columns = comparison["bars"]["measured"]
    order = sorted(range(len(found["device"])), key=lambda i: (found["start_s"][i], found["device"][i]))
    rows = []
    for i in order[:limit]:
        took, predicted = found["end_s"][i] - found["start_s"][i], found["predicted_s"][i]
        rows.append(
            {
                "device": devices[found["device"][i]],
                "what": _what(found, i, "segment"),
                "start": text.seconds(found["start_s"][i]),
                "took": text.seconds(took),
                "predicted": text.seconds(predicted),
                "off": change(took, predicted) or text.NOTHING,
                "waited": text.seconds(found["wait_s"][i]),
            }
        )
    return rows


def change(measured_s: float, predicted_s: float | None) -> str:
    """ "+25 %", "−3 %", "as predicted", or "" where there is nothing to compare with."""
    return text.change(predicted_s, measured_s, SAME, "as predicted")


class _Hover:
    """What a bar says: the time of its fellow on the other lane beside its own."""

    def __init__(self, comparison: Mapping[str, Any], upper: Columns, lower: Columns, devices: Sequence[str]) -> None:
        self.columns = {PREDICTED: upper, MEASURED: lower}
        self.devices = devices
        segment_of = {stage: s["segment"] for s in comparison["segments"] for stage in s["stages"]}
        self.measured_s = {_key(lower, i, lower["segment"][i]): _took(lower, i) for i in range(len(lower["device"]))}
        self.segment_of = segment_of

    def words(self, lane: str, i: int) -> str:
        found = self.columns[lane]
        name = text.plain(self.devices[found["device"][i]])
        start, end = found["start_s"][i], found["end_s"][i]
        span = f"{text.seconds(start)} to {text.seconds(end)}"
        if lane == PREDICTED:
            fellow = self.measured_s.get(_key(found, i, self.segment_of.get(found["stage"][i], -1)))
            beside = f" · measured {text.seconds(fellow)}" if fellow is not None else ""
            told = f"predicted {text.seconds(_took(found, i))}{beside}"
            return f"<b>{name}</b> · {_what(found, i, 'stage')}<br>{told}<br>{span}"
        predicted = found["predicted_s"][i]
        off = change(_took(found, i), predicted)
        beside = f" · predicted {text.seconds(predicted)}" + (f" ({off})" if off else "") if predicted else ""
        waited = f"<br>waited {text.seconds(found['wait_s'][i])} before" if found["wait_s"][i] > 0 else ""
        told = f"measured {text.seconds(_took(found, i))}{beside}"
        return f"<b>{name}</b> · {_what(found, i, 'segment')}<br>{told}<br>{span}{waited}"


def _took(found: Columns, i: int) -> float:
    took: float = found["end_s"][i] - found["start_s"][i]
    return took


def _key(found: Columns, i: int, segment: int) -> tuple[int, int, str, int]:
    return found["device"][i], segment, found["kind"][i], found["micro_batch"][i]


def _what(found: Columns, i: int, where: str) -> str:
    """ "forward, segment 2, micro-batch 0"."""
    micro_batch = found["micro_batch"][i]
    number = f", {where} {found[where][i]}" if found[where][i] >= 0 else ""
    merged = f" ({found['spans'][i]} actions)" if found["spans"][i] > 1 else ""
    return WORDS[found["kind"][i]] + number + (f", micro-batch {micro_batch}" if micro_batch >= 0 else "") + merged


def _grouped(found: Columns, place: Mapping[int, int]) -> dict[tuple[int, str], list[int]]:
    """(row, kind) -> bars, transfers left out: they wait in no lane of a device."""
    groups: dict[tuple[int, str], list[int]] = {}
    for i, (device, kind) in enumerate(zip(found["device"], found["kind"], strict=True)):
        if device in place and kind != TRANSFER:
            groups.setdefault((place[device], kind), []).append(i)
    return groups


def _trace(
    found: Columns, members: list[int], devices: Sequence[str], kind: str, lane: str, theme: Theme, scale: float
) -> dict[str, Any]:
    device = found["device"][members[0]]
    edge = gantt.EDGE if len(members) <= gantt.EDGED else 0.0
    painted = _sync_marker(theme) if kind == SYNC else marker(device, kind, theme, edge)
    numbers = [found["micro_batch"][i] for i in members] if len(members) <= gantt.LABELLED and kind in "FBIW" else []
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"{devices[device]} {WORDS[kind]}, {lane}",
        "meta": lane,
        "base": [round(found["start_s"][i] / scale, 6) for i in members],
        "x": [round(_took(found, i) / scale, 6) for i in members],
        "width": LANE_HEIGHT,
        "customdata": members,
        "hoverinfo": "text",
        "marker": {**painted, "opacity": PALE if lane == PREDICTED else 1.0},
        "text": [str(n) if n >= 0 else "" for n in numbers],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": 10, "color": _text_colour(device, kind, lane, theme)},
    }


def _text_colour(device: int, kind: str, lane: str, theme: Theme) -> str:
    """Readable on a bar, on a pale one too."""
    paint = swatch(device, theme)
    fill = paint.fill if kind == "F" else paint.soft
    return text_on(mix(fill, SURFACES[theme].background, PALE) if lane == PREDICTED else fill)


def _sync_marker(theme: Theme) -> dict[str, Any]:
    return {"color": SURFACES[theme].quiet, "line": {"width": 0}}


def _waits(
    lower: Columns, place: Mapping[int, int], scale: float, theme: Theme, devices: Sequence[str]
) -> list[dict[str, Any]]:
    """What a device waited for messages, pale and hatched, on the measured lane."""
    surface = SURFACES[theme]
    found = []
    for device, row in place.items():
        members = [i for i, d in enumerate(lower["device"]) if d == device and lower["wait_s"][i] > 0]
        if not members:
            continue
        hover = [
            f"<b>{text.plain(devices[device])}</b> · waits {text.seconds(lower['wait_s'][i])} for messages<br>"
            f"before {_what(lower, i, 'segment')}"
            for i in members
        ]
        found.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": f"{devices[device]} waiting, measured",
                "meta": WAIT,
                "base": [round((lower["start_s"][i] - lower["wait_s"][i]) / scale, 6) for i in members],
                "x": [round(lower["wait_s"][i] / scale, 6) for i in members],
                "y": [round(row + LANE_OFFSET, 4)] * len(members),
                "width": LANE_HEIGHT,
                "customdata": members,
                "hovertext": hover,
                "hoverinfo": "text",
                "marker": {
                    "opacity": PALE,
                    "color": surface.grid,
                    "line": {"width": 0},
                    "pattern": {"shape": "/", "bgcolor": surface.grid, "fgcolor": surface.quiet, "size": 5,
                                "solidity": 0.18},
                },
            }
        )  # fmt: skip
    return found
