"""The shapes of a schedule: lanes of bars, and bands behind them, at times and rows, in colours by name.

They are written for the canvas of page and widget (`canvas`), as pictures (`explorer.view.pictures.gantt`) and as a
figure of plotly (`explorer.notebook.values`). Kinds of bars differ by hatch, not by hue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from explorer.view.graph.palette import device, pattern_of
from explorer.view.plan_types import Bars
from explorer.view.timeline.gantt_rows import HIDDEN, Row, Rows
from explorer.words.actions import EXCHANGE, KIND_WORDS, REPEATED, TRANSFER

BAR, LINK_BAR, LINK_OFFSET = 0.6, 0.085, 0.40
"""Of a row's height: a bar, a transfer where links have no rows, and how far below the middle that is."""
HATCHES = {"B": "/", "I": "-", "W": "\\", "R": "x", "U": ".", EXCHANGE: "+"}
"""Of a kind; forwards are plain (devices from the ninth on have a hatch of their own)."""
MOST_BY_STAGE = 48
"""Stages up to which each has bars of its own: whether they are numbered does not depend on the narrow ones beside."""


class Paint(NamedTuple):
    """Names of colours (`explorer.view.graph.palette.colour`), "" for none.

    fill; text: of what is written on it; hatch: lines in ``ink`` over the fill, as strong as ``strength`` (0 to 1);
    edge: of its rim, which ``ringed`` bars have however narrow they are.
    """

    fill: str
    text: str = ""
    hatch: str = ""
    ink: str = ""
    strength: float = 0.9
    edge: str = ""
    ringed: bool = False


class Lane(NamedTuple):
    """Bars painted alike at one height.

    name: what they are. row: their row. middle: rows from the top. tall: of a row. at: their positions in the columns
    they come from. start_s, end_s: seconds. words: what each says, as pseudo-HTML. of: what of a run they are, "" for
    a plan. opacity: 0 to 1.
    """

    name: str
    row: int
    middle: float
    tall: float
    paint: Paint
    at: list[int]
    start_s: list[float]
    end_s: list[float]
    words: list[str]
    of: str = ""
    opacity: float = 1.0


class Band(NamedTuple):
    """A background in a row: half as tall as ``half`` rows to either side of its middle."""

    colour: str
    start_s: float
    end_s: float
    middle: float
    half: float


def paint(kind: str, index: int, of_sender: bool = False) -> Paint:
    """How the bars of a kind on a device are painted.

    of_sender: whether transfers are in its colour, where nothing else shows who sends.
    """
    if kind == TRANSFER:
        return Paint(device(index) if of_sender else "quiet")
    if kind == "F":
        text = device(index, "text")
        return Paint(device(index), text, pattern_of(index), text, 0.35, "background")
    soft, text = device(index, "soft"), device(index, "soft-text")
    if kind == REPEATED:
        return Paint(soft, text, edge=device(index), ringed=True)
    return Paint(soft, text, HATCHES[kind], device(index), edge="background")


def lanes(bars: Bars, rows: Rows, names: Sequence[str], describe: Callable[[int], str]) -> list[Lane]:
    """A lane for every row, device, kind and stage; transfers thin below the row, or in the rows of links.

    names: of the devices. describe: the words of a bar, by its position.
    """
    groups: dict[tuple[int, int, str, int], list[int]] = {}
    by_stage = len(set(bars["stage"])) <= MOST_BY_STAGE
    for i, (row, index, kind) in enumerate(zip(rows.of_bar, bars["device"], bars["kind"], strict=True)):
        if row != HIDDEN:
            stage = bars["stage"][i] if by_stage and kind != TRANSFER else -1
            groups.setdefault((row, index, kind, stage), []).append(i)
    middles = rows.middles()
    drawn = []
    for (row, index, kind, _), at in sorted(groups.items()):
        whole = rows.rows[row]
        thin = kind == TRANSFER and not whole.links
        drawn.append(
            Lane(
                f"{names[index]} {KIND_WORDS[kind]}",
                row,
                middles[row] + (LINK_OFFSET if thin else 0.0),
                LINK_BAR if thin else BAR * whole.height,
                paint(kind, index, of_sender=len(whole.devices) != 1),
                at,
                [bars["start_s"][i] for i in at],
                [bars["end_s"][i] for i in at],
                [describe(i) for i in at],
            )
        )
    return drawn


def bands(rows: Sequence[Row], middles: Sequence[float], span_s: float) -> list[Band]:
    """The lanes of rows without phases; of others the phases, as bands that meet those of the next row, so that a
    pipeline's filling and emptying is a staircase."""
    drawn = []
    for row, middle in zip(rows, middles, strict=True):
        if row.phases is None:
            drawn.append(Band("lane", 0.0, span_s, middle, BAR / 2 * row.height))
            continue
        warm_s, drain_s = row.phases[0], row.phases[1]
        for colour, start_s, end_s in (
            ("warm-up", 0.0, warm_s), ("lane", warm_s, drain_s), ("drain", drain_s, span_s),
        ):  # fmt: skip
            drawn.append(Band(colour, start_s, end_s, middle, row.height / 2))
    return drawn
