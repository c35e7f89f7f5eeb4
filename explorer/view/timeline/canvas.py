"""The shapes of a schedule as JSON, for the canvas of page and widget (assets/shared/chart.js)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from explorer.view.graph.palette import SURFACES, Theme, colour, mix, text_on
from explorer.view.plan_types import Bars
from explorer.view.timeline.bars import words
from explorer.view.timeline.gantt_rows import Rows
from explorer.view.timeline.shapes import Band, Lane, bands
from explorer.words import text

MARKS = 3
"""Colours beside a row's name; a stage on more devices shows those of the first."""
MARGIN = 80
FOOT = 0.42
"""Rows of room for the words below the last row, when there are eight."""
ROOM = 0.005
"""Of the time axis, after its end."""


class CanvasScene(TypedDict):
    """What a canvas draws of a schedule, in the unit of its time axis. bands: a path in times and rows for each colour;
    axis: end and unit; colours: of text and lines; high and low: the rows at top and bottom; left: pixels for their
    names; mark: {at, words} or None."""

    lanes: list[dict[str, object]]
    bands: list[dict[str, str]]
    axis: dict[str, float | str]
    colours: dict[str, str]
    left: int
    high: float
    low: float
    mark: dict[str, float | str] | None


def canvas(
    drawn: Sequence[Lane],
    rows: Rows,
    span_s: float,
    theme: Theme,
    until_s: float | None = None,
    mark: tuple[str, float] | None = None,
) -> CanvasScene:
    """What a canvas draws of a schedule, in the unit of its time axis.

    drawn: the lanes. until_s: where the time axis ends, if not at span_s. mark: (label, seconds) of a line across all
    rows.
    """
    surface = SURFACES[theme]
    end_s = until_s or span_s
    scale, unit = text.time_unit(end_s or 1.0)
    longest = max((len(row.label) + 1.6 * min(MARKS, len(row.devices)) for row in rows.rows), default=0)
    foot = FOOT * max(1.0, rows.total() / 8) if mark is not None else 0.0
    return {
        "lanes": lanes_object(drawn, scale, theme),
        "bands": _bands(bands(rows.rows, rows.middles(), span_s), scale, theme),
        "axis": {"end": end_s / scale * (1 + ROOM) or 1, "unit": unit},
        "colours": {
            "text": surface.text, "quiet": surface.quiet, "grid": surface.grid, "background": surface.background,
        },
        "left": round(max(MARGIN, 20 + 6.6 * longest)),
        "high": -0.55,
        "low": rows.total() - 0.45 + foot,
        "mark": None if mark is None else {"at": mark[1] / scale, "words": mark[0]},
    }  # fmt: skip


def lanes_object(drawn: Sequence[Lane], scale: float, theme: Theme) -> list[dict[str, object]]:
    """Lanes: name, of, y, tall, opacity; a column each of from, long, at and words; fill, ink (of what is written on
    it), hatch and edge. scale: seconds in a unit of the time axis."""
    lanes: list[dict[str, object]] = []
    for lane in drawn:
        fill, starts = colour(lane.paint.fill, theme), lane.start_s
        fields: dict[str, object] = {
            "name": lane.name,
            "y": round(lane.middle, 4),
            "tall": lane.tall,
            "from": [round(start_s / scale, 6) for start_s in starts],
            "long": [round((end - start) / scale, 6) for start, end in zip(starts, lane.end_s, strict=True)],
            "at": lane.at,
            "words": lane.words,
            "fill": fill,
        }
        if lane.of:
            fields |= {"of": lane.of, "opacity": lane.opacity}
        lanes.append(fields | _painted(lane, fill, theme))
    return lanes


def _painted(lane: Lane, fill: str, theme: Theme) -> dict[str, object]:
    paint, fields = lane.paint, dict[str, object]()
    if paint.text:
        pale = mix(fill, SURFACES[theme].background, lane.opacity)
        fields["ink"] = colour(paint.text, theme) if lane.opacity == 1.0 else text_on(pale)
    if paint.hatch:
        fields["hatch"] = {"shape": paint.hatch, "ink": colour(paint.ink, theme), "strength": paint.strength}
    if paint.edge:
        fields["edge"] = {"colour": colour(paint.edge, theme), "always": paint.ringed}
    return fields


def _bands(drawn: Sequence[Band], scale: float, theme: Theme) -> list[dict[str, str]]:
    """One path a colour, those of lanes below the others."""
    paths: dict[str, list[str]] = {}
    for band in sorted(drawn, key=lambda band: band.colour != "lane"):
        a, b = band.start_s / scale, band.end_s / scale
        top, bottom = band.middle - band.half, band.middle + band.half
        if b > a:
            corners = f"M{a:.6g},{top:.6g}L{b:.6g},{top:.6g}L{b:.6g},{bottom:.6g}L{a:.6g},{bottom:.6g}Z"
            paths.setdefault(band.colour, []).append(corners)
    return [{"path": "".join(parts), "fill": colour(name, theme)} for name, parts in paths.items()]


def hover(bars: Bars, i: int, devices: Sequence[str]) -> str:
    """What a bar says, as pseudo-HTML."""
    start, end = bars["start_s"][i], bars["end_s"][i]
    return (
        f"<b>{text.plain(devices[bars['device'][i]])}</b> · {text.plain(words(bars, i, devices))}<br>"
        f"{text.seconds(end - start)} · {text.seconds(start)} to {text.seconds(end)}"
    )
