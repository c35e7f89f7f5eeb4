"""A run's schedule over the predicted one: two lanes a device on one time axis, the predicted above."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.view.graph.palette import Theme
from explorer.view.plan_types import Bars, MeasuredBars, Report
from explorer.view.timeline.canvas import CanvasScene, canvas
from explorer.view.timeline.gantt_rows import Row, Rows
from explorer.view.timeline.shapes import BAR, Lane, Paint, paint
from explorer.words import text
from explorer.words.actions import KIND_WORDS, TRANSFER

PREDICTED, MEASURED, WAIT = "predicted", "measured", "wait"
SYNC = "S"
WORDS = {**KIND_WORDS, SYNC: "all-reduce"}
LANE_HEIGHT, LANE_OFFSET = 0.36, 0.2
"""Of a row's height: what a lane takes, and how far its middle is from the row's."""
PALE = 0.55
"""Opacity of what was only predicted."""
WAITING = Paint("grid", hatch="/", ink="quiet", strength=1.0)
SAME = 0.005
"""Relative difference of two times that is none to people."""


def figure(comparison: Report, devices: Sequence[str], theme: Theme, both: bool = True) -> CanvasScene:
    """What a canvas draws of a run (`explorer.view.timeline.canvas.canvas`): rows are devices.

    comparison: of `explorer.measured.comparison_object`. devices: their names. both: whether the prediction is in a
    lane above the run's. The positions of the run's bars follow those of the predicted ones, where these are drawn. A
    dashed line marks the end of the prediction.
    """
    upper = comparison["bars"]["predicted"]
    lower = comparison["bars"]["measured"]
    ends = comparison["predicted_s"], comparison["drawn_s"]
    rows = run_rows(comparison, devices)
    hover = _Hover(comparison, upper, lower, devices)
    offset, tall, first = (LANE_OFFSET, LANE_HEIGHT, len(upper["device"])) if both else (0.0, BAR, 0)
    drawn = _lanes(hover, PREDICTED, rows, -LANE_OFFSET, LANE_HEIGHT) if both else []
    below = _lanes(hover, MEASURED, rows, offset, tall) + _waits(hover, rows, offset, tall)
    drawn += [lane._replace(at=[first + i for i in lane.at]) for lane in below]
    mark = f"predicted end {text.seconds(ends[0])}", ends[0]
    return canvas(drawn, rows, ends[1], theme, max(ends), mark)


def run_rows(comparison: Report, devices: Sequence[str]) -> Rows:
    """A row for every device that the run or the prediction uses."""
    columns = comparison["bars"]["predicted"], comparison["bars"]["measured"]
    used = {d for c in columns for d, kind in zip(c["device"], c["kind"], strict=True) if kind != TRANSFER}
    return Rows("devices", tuple(Row(text.short(devices[d], 12), (d,)) for d in sorted(used)), ())


def legend() -> list[dict[str, str]]:
    """The lanes in words: key ("predicted", "measured" or "wait") and label."""
    return [
        {"key": PREDICTED, "label": "predicted (upper, pale)"},
        {"key": MEASURED, "label": "measured (lower)"},
        {"key": WAIT, "label": "waiting for messages"},
    ]


def table(comparison: Report, devices: Sequence[str], limit: int = 400) -> list[dict[str, str]]:
    """The chart's table twin in time order: device, what, start, took, predicted, off and waited."""
    bars = comparison["bars"]["measured"]
    order = sorted(range(len(bars["device"])), key=lambda i: (bars["start_s"][i], bars["device"][i]))
    rows = []
    for i in order[:limit]:
        took, predicted = bars["end_s"][i] - bars["start_s"][i], bars["predicted_s"][i]
        rows.append(
            {
                "device": devices[bars["device"][i]],
                "what": _what(bars, i, _segment(bars, i)),
                "start": text.seconds(bars["start_s"][i]),
                "took": text.seconds(took),
                "predicted": text.seconds(predicted),
                "off": change(took, predicted) or text.NOTHING,
                "waited": text.seconds(bars["wait_s"][i]),
            }
        )
    return rows


def change(measured_s: float, predicted_s: float | None) -> str:
    """ "+25 %", "−3 %", "as predicted", or "" where there is nothing to compare with."""
    return text.change(predicted_s, measured_s, SAME, "as predicted")


class _Hover:
    """What a bar says: the time of its fellow on the other lane beside its own."""

    def __init__(self, comparison: Report, upper: Bars, lower: MeasuredBars, devices: Sequence[str]) -> None:
        self.columns: dict[str, Bars] = {PREDICTED: upper, MEASURED: lower, WAIT: lower}
        self.run = lower
        self.devices = devices
        segment_of = {stage: s["segment"] for s in comparison["segments"] for stage in s["stages"]}
        self.measured_s = {_key(lower, i, lower["segment"][i]): _took(lower, i) for i in range(len(lower["device"]))}
        self.segment_of = segment_of

    def words(self, lane: str, i: int) -> str:
        """Of the bar at a position in the columns of its lane."""
        bars = self.columns[lane]
        name = text.plain(self.devices[bars["device"][i]])
        if lane == WAIT:
            waits = text.seconds(self.run["wait_s"][i])
            return f"<b>{name}</b> · waits {waits} for messages<br>before {_what(bars, i, _segment(self.run, i))}"
        start, end = bars["start_s"][i], bars["end_s"][i]
        span = f"{text.seconds(start)} to {text.seconds(end)}"
        if lane == PREDICTED:
            fellow = self.measured_s.get(_key(bars, i, self.segment_of.get(bars["stage"][i], -1)))
            beside = f" · measured {text.seconds(fellow)}" if fellow is not None else ""
            duration = f"predicted {text.seconds(_took(bars, i))}{beside}"
            return f"<b>{name}</b> · {_what(bars, i, _numbered('stage', bars['stage'][i]))}<br>{duration}<br>{span}"
        predicted = self.run["predicted_s"][i]
        off = change(_took(bars, i), predicted)
        beside = f" · predicted {text.seconds(predicted)}" + (f" ({off})" if off else "") if predicted else ""
        waited = f"<br>waited {text.seconds(self.run['wait_s'][i])} before" if self.run["wait_s"][i] > 0 else ""
        duration = f"measured {text.seconds(_took(bars, i))}{beside}"
        return f"<b>{name}</b> · {_what(bars, i, _segment(self.run, i))}<br>{duration}<br>{span}{waited}"


def _took(bars: Bars, i: int) -> float:
    took: float = bars["end_s"][i] - bars["start_s"][i]
    return took


def _key(bars: Bars, i: int, segment: int) -> tuple[int, int, str, int]:
    return bars["device"][i], segment, bars["kind"][i], bars["micro_batch"][i]


def _segment(bars: MeasuredBars, i: int) -> str:
    return _numbered("segment", bars["segment"][i])


def _numbered(what: str, number: int) -> str:
    return f", {what} {number}" if number >= 0 else ""


def _what(bars: Bars, i: int, where: str) -> str:
    """ "forward, segment 2, micro-batch 0". where: ", segment 2"."""
    micro_batch = bars["micro_batch"][i]
    merged = f" ({bars['spans'][i]} actions)" if bars["spans"][i] > 1 else ""
    return WORDS[bars["kind"][i]] + where + (f", micro-batch {micro_batch}" if micro_batch >= 0 else "") + merged


def _lanes(hover: _Hover, of: str, rows: Rows, offset: float, tall: float) -> list[Lane]:
    """A lane for every row and kind, transfers left out: they wait in no lane of a device."""
    bars = hover.columns[of]
    place = {row.devices[0]: number for number, row in enumerate(rows.rows)}
    groups: dict[tuple[int, str], list[int]] = {}
    for i, (device, kind) in enumerate(zip(bars["device"], bars["kind"], strict=True)):
        if kind != TRANSFER:
            groups.setdefault((place[device], kind), []).append(i)
    return [
        Lane(
            f"{hover.devices[bars['device'][at[0]]]} {WORDS[kind]}, {of}",
            row,
            row + offset,
            tall,
            Paint("quiet") if kind == SYNC else paint(kind, bars["device"][at[0]]),
            at,
            [bars["start_s"][i] for i in at],
            [bars["end_s"][i] for i in at],
            [hover.words(of, i) for i in at],
            of,
            PALE if of == PREDICTED else 1.0,
        )
        for (row, kind), at in sorted(groups.items())
    ]


def _waits(hover: _Hover, rows: Rows, offset: float, tall: float) -> list[Lane]:
    """What a device waited for messages, pale and hatched, on the measured lane."""
    bars = hover.run
    drawn = []
    for number, row in enumerate(rows.rows):
        at = [i for i, d in enumerate(bars["device"]) if d == row.devices[0] and bars["wait_s"][i] > 0]
        if at:
            ends = [bars["start_s"][i] for i in at]
            starts = [end - bars["wait_s"][i] for i, end in zip(at, ends, strict=True)]
            words = [hover.words(WAIT, i) for i in at]
            name = f"{hover.devices[row.devices[0]]} waiting, measured"
            drawn.append(Lane(name, number, number + offset, tall, WAITING, at, starts, ends, words, WAIT, PALE))
    return drawn
