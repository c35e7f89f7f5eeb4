"""A comparison as rows for a terminal and as JSON for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import cast

from explorer.measured.comparison import Comparison, MeasuredSpan
from explorer.view.plan_types import MeasuredBars, Report
from explorer.view.timeline import bars as view_bars
from explorer.view.timeline.bars import COLUMNS, MAX_BARS
from explorer.words import text
from solvers.formats.records import record_json

SCHEDULE = "schedule"
PART_WORDS = {
    "operators": "operator costs",
    "links": "links",
    SCHEDULE: "schedule model",
}
"""The three errors, in the order in which they are shown."""
OWN = ("predicted", "fed", "spans", "segments", "operators", "bubble_predicted", "bubble_measured")
"""Fields of a comparison that are shown otherwise than they stand."""


def rows(comparison: Comparison, same_hardware: bool = True) -> list[list[str]]:
    """What, seconds, and the share of the measured time, for a table in a terminal: the prediction, the three
    errors, the measurement, and below them the simulator fed with measured times, bubbles and noise. Where the costs
    are not of the hardware that it ran on, the prediction and what its costs were off by say nothing, and are left
    out."""
    within = "" if comparison.within is None else comparison.within.words()
    table = [["predicted", text.seconds(comparison.predicted_s), within]] if same_hardware else []
    for key, seconds in errors_s(comparison).items():
        if same_hardware or key == SCHEDULE:
            table.append(
                [PART_WORDS[key], text.signed(seconds, text.seconds), text.signed_share(comparison.share(seconds))]
            )
    count = text.plural(len(comparison.iterations_s), "iteration")
    fastest = f"median of {count}, fastest {text.seconds(comparison.fastest_s)}"
    table.append(["measured", text.seconds(comparison.measured_s), fastest])
    if same_hardware:
        table.append(
            [
                "prediction off by",
                text.signed(-comparison.total_error_s, text.seconds),
                text.signed_share(comparison.error),
            ]
        )
    table.append(["fed with measured times", text.seconds(comparison.fed_s), text.signed_share(comparison.fed_error)])
    table.append(["each iteration with its own", "", text.signed_share(comparison.fed_each_error)])
    bubbles = text.percent(comparison.bubble_predicted), text.percent(comparison.bubble_measured)
    table.append(["bubble", f"{bubbles[0]} predicted", f"{bubbles[1]} measured"])
    noise = text.NOTHING if comparison.noise is None else text.percent(comparison.noise)
    table.append(["machine", comparison.noise_word, noise if comparison.noise is not None else ""])
    return table


def errors_s(comparison: Comparison) -> dict[str, float]:
    """Seconds of the three errors, by the keys of PART_WORDS; they add up to measured - predicted."""
    return {
        "operators": comparison.operators_error_s,
        "links": comparison.links_error_s,
        SCHEDULE: comparison.schedule_error_s,
    }


def comparison_object(comparison: Comparison) -> Report:
    """A comparison as JSON, which the functions of `explorer.view.timeline.measured_gantt`, `measured_panel` and
    `errors` read.

    objective; predicted_s, within (between which times that may lie, or None), operators_fed_s, fed_s, measured_s,
    fastest_s, iterations_s, drawn_s; errors: key of
    PART_WORDS or "total" -> {s, share}; error, fed_error and fed_each_error: shares; bubble: {predicted,
    measured}; segments, links and devices: a list of the fields of `SegmentError`, `LinkError` and
    `DeviceError`, the first with ratio; operators: by position {predicted_s, measured_s, runs, profiled, ratio},
    or None; bars: {predicted, fed, measured}, each `explorer.view.timeline.bars.Bars`, the measured ones as
    `explorer.measured.reporting.measured_bars` gives them; agreement and environment: their fields, or None;
    noise (None: unknown), noise_word, losses, notes.
    """
    errors = {**errors_s(comparison), "total": comparison.total_error_s}
    names = [each.name for each in fields(comparison) if each.name not in OWN]
    report = {
        **{name: record_json(getattr(comparison, name)) for name in names},
        "fastest_s": comparison.fastest_s,
        "errors": {key: {"s": s, "share": comparison.share(s)} for key, s in errors.items()},
        "error": comparison.error,
        "fed_error": comparison.fed_error,
        "bubble": {"predicted": comparison.bubble_predicted, "measured": comparison.bubble_measured},
        "segments": [{**record_json(s), "ratio": s.ratio} for s in comparison.segments],
        "operators": [None if o is None else {**record_json(o), "ratio": o.ratio} for o in comparison.operators],
        "bars": {
            "predicted": view_bars.bars(comparison.predicted),
            "fed": view_bars.bars(comparison.fed),
            "measured": measured_bars(comparison.spans),
        },
        "noise_word": comparison.noise_word,
    }
    return cast(Report, report)


@dataclass
class _Bar:
    """One or several actions of one device and segment, in a row."""

    span: MeasuredSpan
    end_s: float
    wait_s: float
    predicted_s: float | None
    spans: int = 1


def measured_bars(spans: Sequence[MeasuredSpan], limit: int = MAX_BARS) -> MeasuredBars:
    """Columns of `explorer.view.timeline.bars`, and segment, wait_s and predicted_s (None: not predicted) besides; kind
    "S" is an all-reduce, stage the first of the segment's.

    At most ``limit`` bars, or one a device: neighbours melt together, those of one segment and kind before others,
    those that are closest first. Melted ones add up what they took by prediction and wait before the first.
    """
    bars = [_Bar(span, span.end_s, span.wait_s, span.predicted_s) for span in spans]
    whole = max((span.end_s for span in spans), default=0.0)
    for alike in (True, False):
        width = whole / 4000
        while len(bars) > limit and width <= 2 * whole:
            bars = _melted(bars, width, alike)
            width *= 2
    columns: dict[str, list[object]] = {name: [] for name in (*COLUMNS, "segment", "wait_s", "predicted_s")}
    for bar in sorted(bars, key=lambda bar: (bar.span.start_s, bar.span.device)):
        span = bar.span
        micro_batch = span.micro_batch if bar.spans == 1 else -1
        row = [span.device, span.start_s, bar.end_s, span.kind, span.stages[0], micro_batch, -1, 0.0, bar.spans, -1, -1,
               -1, span.segment, bar.wait_s, bar.predicted_s]  # fmt: skip
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return cast(MeasuredBars, columns)


def _melted(bars: Sequence[_Bar], gap_s: float, alike: bool) -> list[_Bar]:
    """Neighbours of a device at most ``gap_s`` apart as one; alike: only those of one segment and kind."""
    latest: dict[int, _Bar] = {}
    melted = []
    for bar in sorted(bars, key=lambda bar: bar.span.start_s):
        before = latest.get(bar.span.device)
        if before is None or bar.span.start_s - before.end_s > gap_s or (alike and _what(before) != _what(bar)):
            latest[bar.span.device] = bar
            melted.append(bar)
            continue
        before.end_s = max(before.end_s, bar.end_s)
        before.spans += bar.spans
        if before.predicted_s is not None:
            before.predicted_s = None if bar.predicted_s is None else before.predicted_s + bar.predicted_s
    return melted


def _what(bar: _Bar) -> tuple[int, str]:
    return bar.span.segment, bar.span.kind
