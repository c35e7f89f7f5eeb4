"""The schedule of a plan's view as a picture: a row for each device, stage or link, with its phases and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.view.graph.palette import device
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Rect, Shape, Stroke, text_width
from explorer.view.pictures.time_scale import BREAK, TimeScale, round_step, time_scale
from explorer.view.plan_types import PlanView
from explorer.view.timeline.bars import words
from explorer.view.timeline.gantt_rows import Row, Rows, rows_of
from explorer.view.timeline.shapes import HATCHES, LINK_BAR, Lane, bands
from explorer.view.timeline.shapes import lanes as lanes_of
from explorer.words import text
from explorer.words.actions import EXCHANGE, KIND_WORDS, TRANSFER

WIDTH = 1180.0
HEIGHTS = ((12, 34.0), (24, 24.0), (10_000, 15.0))
"""(rows up to which, pixels of a row)."""
AXIS, FOOT, HEAD = 26.0, 30.0, 24.0
RIGHT = 16.0
TICKS = 9
MARKS = 2
"""Colours beside the name of a row; replicas show those of the first."""
FAINTER = 0.5
"""The most of a hatch's strength: lines in print are finer than on a canvas."""
NUMBERED = 12.0
"""Pixels from which a bar has room for the number of its micro-batch."""
HATCHED = 3.0
"""Pixels from which a bar is hatched: a narrower one would only look dirty."""
MELTED = 1.5
"""Bars narrower than this, and gaps narrower than half of it, melt with neighbours of the same kind."""
SPARSE = 12.0
"""Bars of a stage and kind that follow one another melt where they are narrower than this in the mean: nothing could be
written on them, and a texture says nothing."""


def gantt_picture(
    plan: PlanView,
    *,
    rows: str = "auto",
    links: str = "auto",
    width: float = WIDTH,
    heading: str = "",
    operators: Sequence[str] = (),
) -> Picture:
    """The schedule of a plan's view (`explorer.view.plan_view.plan_view`), at most about ``width`` pixels wide.

    rows, links: as in `explorer.view.timeline.gantt_rows.rows_of`. heading: a line above, "" for none. operators: names
    by position, for what a bar says. Of a long steady state the middle is left out, and said so (`TimeScale`).
    """
    lanes = rows_of(plan, rows, links)
    height = next(pixels for most, pixels in HEIGHTS if len(lanes.rows) <= most)
    marks = 10.0 * max((min(MARKS, len(row.devices)) for row in lanes.rows), default=0)
    left = max(76.0, 24 + marks + max((text_width(row.label, 11) for row in lanes.rows), default=0.0))
    top = AXIS + (HEAD if heading else 0.0)
    scale = time_scale(plan, left, width - left - RIGHT)
    bottom = top + lanes.total() * height
    middles = [top + (middle + 0.5) * height for middle in lanes.middles()]
    shapes: list[Shape] = []
    if heading:
        shapes.append(Label(8, HEAD / 2 + 3, heading, "text", 13, bold=True))
    for band in bands(lanes.rows, middles, scale.end_s):
        for x, wide in scale.parts(band.start_s, band.end_s):
            half = band.half * height
            shapes.append(Rect(x, band.middle - half, wide, 2 * half, band.colour))
    shapes += _axis(scale, top, bottom)
    shapes += _names(lanes.rows, middles)
    shapes += _bars(plan, lanes, top, height, scale, operators)
    if scale.is_cut:
        shapes += _break(scale, top, bottom)
    shapes += _legend(plan, lanes, left, bottom + FOOT / 2 + 2, scale)
    description = f"Schedule of {text.plural(len(plan['devices']), 'device')}, {text.seconds(plan['span_s'])}"
    return Picture(tuple(shapes), width, bottom + FOOT, description, len(plan["devices"]))


def _axis(scale: TimeScale, top: float, bottom: float) -> list[Shape]:
    unit_s, unit = text.time_unit(scale.end_s)
    shown = (scale.end_s - (scale.resume_s - scale.cut_s)) / unit_s
    step = round_step(shown / TICKS)
    shapes: list[Shape] = []
    last = -math.inf
    for i in range(int(scale.end_s / unit_s / step + 1e-9) + 1):
        time_s = i * step * unit_s
        if scale.is_cut and scale.cut_s - 0.2 * step * unit_s < time_s < scale.resume_s + 0.2 * step * unit_s:
            continue
        x = scale.at(time_s)
        shapes.append(Stroke(((x, top - 5), (x, bottom)), "grid"))
        words_ = f"{text.digits(round(i * step, 9))} {unit}"
        wide = text_width(words_, 10.5)
        if x - wide / 2 > last + 6 and x + wide / 2 < scale.at(scale.end_s) + RIGHT:
            shapes.append(Label(x, top - 13, words_, "quiet", 10.5, "start" if i == 0 else "middle"))
            last = x + (wide if i == 0 else wide / 2)
    return shapes


def _names(rows: Sequence[Row], middles: Sequence[float]) -> list[Shape]:
    shapes: list[Shape] = []
    begin = 8 + 10 * max((min(MARKS, len(row.devices)) for row in rows), default=0) + 4.0
    for row, middle in zip(rows, middles, strict=True):
        size = 11.0 if row.height == 1.0 else 9.5
        shapes.append(Label(begin, middle, row.label, "text" if row.height == 1.0 else "quiet", size))
        side = 8.0 if row.height == 1.0 else 6.0
        for place, index in enumerate(row.devices[:MARKS]):
            shapes.append(Rect(8 + place * (side + 2), middle - side / 2, side, side, device(index), radius=1.5))
    return shapes


def _bars(
    plan: PlanView,
    lanes: Rows,
    top: float,
    height: float,
    scale: TimeScale,
    operators: Sequence[str],
) -> list[Shape]:
    names, bars = [device["name"] for device in plan["devices"]], plan["bars"]
    highest = str(max(bars["micro_batch"], default=0))
    shapes: list[Shape] = []
    for bar in _melted(plan, lanes_of(bars, lanes, names, lambda i: words(bars, i, names, operators)), scale):
        lane, paint, kind = bar.lane, bar.lane.paint, bars["kind"][bar.first]
        tall = max(lane.tall * height, 2.0 if lane.tall == LINK_BAR else 0.0)
        y = top + (lane.middle + 0.5) * height - tall / 2
        description = bar.words if bar.count == 1 else f"{KIND_WORDS[kind]}, {bar.count:,} bars"
        title = f"{names[bars['device'][bar.first]]}: {description}, from {text.seconds(bars['start_s'][bar.first])}"
        separate = bar.count == 1 or not plan["by_operator"]  # runs of operators touch one another
        hatched = separate and bar.wide >= HATCHED
        shapes.append(
            Rect(bar.x, y, max(bar.wide, 0.6), tall, paint.fill, paint.edge if hatched else "", 0.8, 0.0,
                 paint.hatch if hatched else "", paint.ink, min(paint.strength, FAINTER), title)
        )  # fmt: skip
        low, high = bar.numbers
        label = "" if low < 0 or kind in (*"RU", EXCHANGE, TRANSFER) else str(low) if low == high else f"{low}–{high}"
        longest = label if low != high else highest  # of a row all have their number, or none
        if label and tall >= 9 and bar.wide >= max(NUMBERED, text_width(longest, 9.5) + 3):
            rim = "" if kind == "F" and not paint.hatch else paint.fill
            shapes.append(Label(bar.x + bar.wide / 2, y + tall / 2, label, paint.text, 9.5, "middle", halo=rim))
    return shapes


@dataclass(slots=True)
class Melted:
    """Bars of a lane drawn as one: the position of the first, how many there are, pixels, the first and the last
    micro-batch (-1: none), and the words of the first."""

    lane: Lane
    first: int
    x: float
    wide: float
    numbers: tuple[int, int]
    words: str
    count: int = 1


def _melted(plan: PlanView, lanes: Sequence[Lane], scale: TimeScale) -> list[Melted]:
    """The bars that are to be seen, in the order of time; what is too narrow to be distinguished is one."""
    sparse = MELTED if plan["by_operator"] else SPARSE  # an operator is no repetition
    numbers = plan["bars"]["micro_batch"]
    bars = sorted((lane.start_s[n], number, n) for number, lane in enumerate(lanes) for n in range(len(lane.at)))
    means = [sum(lane.end_s) - sum(lane.start_s) for lane in lanes]
    narrows = [
        MELTED if mean * scale.per_s >= sparse * len(lane.at) else sparse
        for mean, lane in zip(means, lanes, strict=True)
    ]
    melted: list[Melted] = []
    latest: dict[tuple[int, float], Melted] = {}
    for start_s, number, n in bars:
        lane, narrow = lanes[number], narrows[number]
        for x, wide in scale.parts(start_s, lane.end_s[n]):
            before = latest.get((lane.row, lane.middle))
            if before is not None and before.lane is lane and (
                x - (before.x + before.wide) < narrow / 2
                and (wide < narrow or before.wide < narrow or narrow > MELTED)
            ):  # fmt: skip
                before.wide = max(before.wide, x + wide - before.x)
                before.count += 1
                known = numbers[lane.at[n]] >= 0 <= before.numbers[1]
                before.numbers = (before.numbers[0], numbers[lane.at[n]]) if known else (-1, -1)
                continue
            first = lane.at[n]
            bar = Melted(lane, first, x, wide, (numbers[first], numbers[first]), lane.words[n])
            latest[lane.row, lane.middle] = bar
            melted.append(bar)
    return melted


def _break(scale: TimeScale, top: float, bottom: float) -> list[Shape]:
    """The gap where micro-batches are left out, between two jagged lines."""
    x = scale.at(scale.cut_s)
    shapes: list[Shape] = [Rect(x, top - 6, BREAK, bottom - top + 12, "background")]
    for side in (x + 2, x + BREAK - 2):
        teeth = [(side + (2.5 if i % 2 else -2.5), top + (bottom - top) * i / 16) for i in range(17)]
        shapes.append(Stroke(tuple(teeth), "quiet", 1.0))
    shapes.append(Label(x + BREAK / 2, (top + bottom) / 2, f"+{scale.left_out}", "text", 10, "middle", bold=True))
    return shapes


def _legend(plan: PlanView, lanes: Rows, left: float, y: float, scale: TimeScale) -> list[Shape]:
    kinds = set(plan["bars"]["kind"])
    shapes: list[Shape] = []
    x = left
    for kind in (*"FRBIWU", EXCHANGE, TRANSFER):
        if kind not in kinds:
            continue
        if kind == TRANSFER:
            shapes.append(Rect(x, y - 1.5, 16, 3, "quiet"))
        else:
            fill = "quiet" if kind == "F" else "grid"
            shapes.append(Rect(x, y - 5, 16, 10, fill, hatch=HATCHES.get(kind, ""), ink="quiet"))
        shapes.append(Label(x + 21, y, KIND_WORDS[kind], "quiet", 10))
        x += 21 + text_width(KIND_WORDS[kind], 10) + 16
    if any(row.phases is not None for row in lanes.rows):
        for name in ("warm-up", "drain"):
            shapes.append(Rect(x, y - 5, 16, 10, name))
            shapes.append(Label(x + 21, y, name, "quiet", 10))
            x += 21 + text_width(name, 10) + 16
    if scale.is_cut:
        each = f", {text.seconds(scale.period_s)} each" if scale.alike else ""
        shapes.append(
            Label(x, y, f"{scale.left_out} micro-batches of the steady state are left out{each}", "quiet", 10)
        )
    return shapes
