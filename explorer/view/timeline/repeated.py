"""A pipeline of many micro-batches as people read it: how it fills, what then repeats, and how it empties.

Hundreds of bars a few pixels wide are a texture. While they cannot be distinguished, what a row repeats in its steady
state is one bar between the first and the last of its rounds; zoomed in, every bar is there.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from explorer.view.plan_types import Bars, PlanView
from explorer.view.timeline.bars import COLUMNS, columns_of, row_of
from explorer.view.timeline.phases import is_pipelined
from explorer.words.actions import EXCHANGE, REPEATED, TRANSFER

PIXELS = 700
"""About as wide as a schedule is drawn."""
LEGIBLE = 9.0
"""Pixels of a bar that can be distinguished from its neighbours, and numbered."""
END_ROUNDS = 3
"""Rounds of the steady state that are drawn at either end of what repeats."""
LEAST = 4
"""Rounds that are worth a bar of their own."""

AT = {name: i for i, name in enumerate(COLUMNS)}


def drawn(plan: PlanView, window: tuple[float, float]) -> tuple[Bars, bool]:
    """The bars to draw of a plan's view while ``window`` (seconds) is in sight, and whether some stand for several."""
    bars = plan["bars"]
    if not is_pipelined(plan):
        return bars, False
    pixel_s = max(window[1] - window[0], 1e-12) / PIXELS
    hidden: set[int] = set()
    added: list[list[Any]] = []
    for device, phases in enumerate(plan["phases"]["devices"]):
        indices = [i for i, d in enumerate(bars["device"]) if d == device]
        work = [i for i in indices if bars["kind"][i] not in (TRANSFER, "U")]
        if phases is None or len({bars["stage"][i] for i in work}) != 1:
            continue
        middle = _repeats(bars, work, phases[0], phases[1], pixel_s)
        if not middle:
            continue
        start, end = bars["start_s"][middle[0]], max(bars["end_s"][i] for i in middle)
        hidden.update(middle)
        added.append(_block(bars, middle, device, start, end))
        added += _sent(bars, indices, hidden, start, end)
    if not added:
        return bars, False
    rows = [row_of(bars, i) for i in range(len(bars["device"])) if i not in hidden]
    rows = sorted([*rows, *added], key=lambda row: (row[AT["device"]], row[AT["start_s"]]))
    return columns_of(rows), True


def label(bars: Bars, i: int) -> str:
    """What is written on a bar of what repeats, "" on others."""
    return f"{bars['micro_batch'][i]:,} × forward, backward" if bars["kind"][i] == REPEATED else ""


def _repeats(columns: Bars, work: list[int], warm_s: float, drain_s: float, pixel_s: float) -> list[int]:
    """The bars of a row's steady state but the first and the last rounds; none where bars can be distinguished."""
    wide = [columns["end_s"][i] - columns["start_s"][i] for i in work if columns["kind"][i] != EXCHANGE]
    if not wide or median(wide) >= LEGIBLE * pixel_s:
        return []
    work = sorted(work, key=lambda i: (columns["start_s"][i], columns["end_s"][i]))
    rounds = len({columns["micro_batch"][i] for i in work})
    bars = max(1, round(len(work) / max(rounds, 1)))
    slack = 1e-9 * max(drain_s, 1e-12)
    steady = [i for i in work if columns["start_s"][i] >= warm_s - slack and columns["end_s"][i] <= drain_s + slack]
    middle = steady[END_ROUNDS * bars : len(steady) - END_ROUNDS * bars]
    return middle if len(middle) >= LEAST * bars else []


def _block(bars: Bars, middle: list[int], device: int, start: float, end: float) -> list[Any]:
    """One bar for all of these; its micro_batch counts how many micro-batches they are of."""
    row = row_of(bars, middle[0])
    several = len({bars["micro_batch"][i] for i in middle})
    values = {"device": device, "start_s": start, "end_s": end, "kind": REPEATED, "micro_batch": several,
            "spans": sum(bars["spans"][i] for i in middle), "nbytes": 0.0}  # fmt: skip
    for name, value in values.items():
        row[AT[name]] = value
    return row


def _sent(bars: Bars, indices: list[int], hidden: set[int], start: float, end: float) -> list[list[Any]]:
    """What a device sends meanwhile, one bar for each receiver and link; those that are hidden for it are added to
    ``hidden``."""
    lanes: dict[tuple[int, int], list[int]] = {}
    for i in indices:
        if bars["kind"][i] == TRANSFER and start <= bars["start_s"][i] and bars["end_s"][i] <= end:
            lanes.setdefault((bars["to_device"][i], bars["link"][i]), []).append(i)
    added = []
    for members in lanes.values():
        if len(members) < LEAST:
            continue
        hidden.update(members)
        row = row_of(bars, members[0])
        values = {
            "end_s": max(bars["end_s"][i] for i in members),
            "micro_batch": -1,
            "spans": sum(bars["spans"][i] for i in members),
            "nbytes": sum(bars["nbytes"][i] for i in members),
        }
        for name, value in values.items():
            row[AT[name]] = value
        added.append(row)
    return added
