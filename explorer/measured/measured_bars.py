"""The measured iteration as columns, few enough to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.measured.comparison import MeasuredSpan
from explorer.view.timeline.bars import COLUMNS, MAX_BARS


@dataclass
class _Bar:
    """One or several actions of one device and segment, in a row."""

    span: MeasuredSpan
    end_s: float
    wait_s: float
    predicted_s: float | None
    spans: int = 1


def measured_bars(spans: Sequence[MeasuredSpan], limit: int = MAX_BARS) -> dict[str, list[Any]]:
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
    found: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, "segment", "wait_s", "predicted_s")}
    for bar in sorted(bars, key=lambda bar: (bar.span.start_s, bar.span.device)):
        span = bar.span
        micro_batch = span.micro_batch if bar.spans == 1 else -1
        row = [span.device, span.start_s, bar.end_s, span.kind, span.stages[0], micro_batch, -1, 0.0, bar.spans, -1, -1,
               -1, span.segment, bar.wait_s, bar.predicted_s]  # fmt: skip
        for column, value in zip(found.values(), row, strict=True):
            column.append(value)
    return found


def _melted(bars: Sequence[_Bar], gap_s: float, alike: bool) -> list[_Bar]:
    """Neighbours of a device at most ``gap_s`` apart as one; alike: only those of one segment and kind."""
    latest: dict[int, _Bar] = {}
    found = []
    for bar in sorted(bars, key=lambda bar: bar.span.start_s):
        before = latest.get(bar.span.device)
        if before is None or bar.span.start_s - before.end_s > gap_s or (alike and _what(before) != _what(bar)):
            latest[bar.span.device] = bar
            found.append(bar)
            continue
        before.end_s = max(before.end_s, bar.end_s)
        before.spans += bar.spans
        if before.predicted_s is not None:
            before.predicted_s = None if bar.predicted_s is None else before.predicted_s + bar.predicted_s
    return found


def _what(bar: _Bar) -> tuple[int, str]:
    return bar.span.segment, bar.span.kind
