"""The table over degrees as a heat map: which divisions of the work are fast, and why others have no plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.words import text
from solvers.formats.result_json import DegreeRow

SHADES = 4
"""Steps between the best and what takes twice as long."""


@dataclass(frozen=True, slots=True)
class DegreeCell:
    """words: the seconds, or what stands for none. shade: 1 for twice as slow as the best or slower, up to `SHADES`
    for the best; 0 without a plan. title: all that is known of the cell; best: whether it is the answer's."""

    words: str
    shade: int
    title: str
    best: bool


@dataclass(frozen=True, slots=True)
class DegreeMap:
    """tensor: the columns; data: the rows, of replicas. cells: [data][tensor], None where nothing was asked. reasons:
    why cells have no plan, each once, with the degrees it is of."""

    tensor: tuple[int, ...]
    data: tuple[int, ...]
    cells: tuple[tuple[DegreeCell | None, ...], ...]
    reasons: tuple[tuple[str, str], ...]


def degree_map(rows: Sequence[DegreeRow]) -> DegreeMap | None:
    """None where no degrees were searched. Of several numbers of stages a cell shows the best."""
    if not rows:
        return None
    tensor = tuple(sorted({row["tensor"] for row in rows}))
    data = tuple(sorted({row["data"] for row in rows}))
    best_s = min(map(_seconds, rows))
    cells = tuple(
        tuple(_cell([row for row in rows if (row["data"], row["tensor"]) == (d, t)], best_s) for t in tensor)
        for d in data
    )
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            reasons.setdefault(row["reason"], []).append(f"{row['data']} x {row['tensor']} x {row['pipeline']}")
    return DegreeMap(tensor, data, cells, tuple((text.listing(of, 4), why) for why, of in reasons.items()))


def _seconds(row: DegreeRow) -> float:
    return math.inf if row["objective_s"] is None else row["objective_s"]


def _cell(rows: Sequence[DegreeRow], best_s: float) -> DegreeCell | None:
    if not rows:
        return None
    least_s = min(map(_seconds, rows))
    title = "; ".join(_words(row) for row in rows)
    if math.isinf(least_s):
        return DegreeCell("none", 0, title, False)
    slower = least_s / best_s - 1 if best_s > 0 else 0.0
    shade = max(1, SHADES - math.floor(slower * SHADES))
    return DegreeCell(text.seconds(least_s), shade, title, least_s == best_s)


def _words(row: DegreeRow) -> str:
    """ "2 replicas x 4 x 2 stages: 112 ms, 20.4 GiB"."""
    what = f"{text.plural(row['data'], 'replica')}, groups of {row['tensor']}, {text.plural(row['pipeline'], 'stage')}"
    known = row["reason"] or f"{text.seconds(row['objective_s'])}, {text.nbytes(row['peak_memory_bytes'])}"
    return f"{what}: {known}"
