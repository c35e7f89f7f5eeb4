"""A schedule as bars: columns of plain numbers, few enough to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from explorer.view.plan_types import Bars
from explorer.view.timeline.exchanges import NO_EXCHANGE, Exchange, OfActions
from explorer.words import text
from explorer.words.actions import BACKWARD, EXCHANGE, KIND_WORDS, REPEATED, TRANSFER, action_parts
from solvers.plan.schedule import Schedule, Span

MAX_BARS = 5000

COLUMNS = ("device", "start_s", "end_s", "kind", "stage", "micro_batch", "to_device", "nbytes", "spans", "link",
           "operator", "reader")  # fmt: skip


def bars(
    schedule: Schedule,
    limit: int = MAX_BARS,
    again_s: Mapping[int, float] | None = None,
    links: Mapping[str, int] | None = None,
    exchanged: OfActions | None = None,
) -> Bars:
    """At most ``limit`` bars (or one a lane): neighbours melt together as needed, first those of one
    micro-batch, then those of a stage and kind with a gap too small to see, then any of a stage, then any
    on a device. again_s: stage -> seconds at the begin of its backwards in which its forward runs again.
    links: resource -> its position. exchanged: of actions, what members of groups exchange: drawn at their end,
    wherever in them it is."""
    of = exchanged or {}
    rows = [row for span in schedule.spans for row in _rows(span, again_s or {}, links or {}, of)]
    gap = schedule.makespan_s / 4000
    for alike, widest in ((7, 0.0), (4, gap * 16), (2, schedule.makespan_s), (1, schedule.makespan_s)):
        width = 0.0 if widest == 0 else gap
        while len(rows) > limit and width <= widest:
            rows = _merged(rows, width, alike)
            width = width * 2 or 1.0 + schedule.makespan_s
    rows.sort(key=lambda row: (row[0], row[1]))
    return columns_of(rows)


def columns_of(rows: Sequence[Sequence[Any]]) -> Bars:
    """Bars of rows in the order of COLUMNS."""
    return cast(Bars, {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)})


def row_of(bars: Bars, i: int) -> list[Any]:
    """A bar in the order of COLUMNS."""
    columns = cast("dict[str, list[Any]]", bars)
    return [columns[name][i] for name in COLUMNS]


def table(bars: Bars, devices: Sequence[str], limit: int = 400, operators: Sequence[str] = ()) -> list[dict[str, str]]:
    """The Gantt chart's table twin, in time order; the first ``limit`` bars. operators: names by position."""
    order = sorted(range(len(bars["device"])), key=lambda i: (bars["start_s"][i], bars["device"][i]))
    return [
        {
            "device": devices[bars["device"][i]],
            "what": words(bars, i, devices, operators),
            "start": text.seconds(bars["start_s"][i]),
            "end": text.seconds(bars["end_s"][i]),
            "took": text.seconds(bars["end_s"][i] - bars["start_s"][i]),
        }
        for i in order[:limit]
    ]


def words(bars: Bars, i: int, devices: Sequence[str], operators: Sequence[str] = ()) -> str:
    """What a bar is, in words: "forward, stage 0, micro-batch 3", or "forward, layers.0.mlp"."""
    stage, micro_batch = bars["stage"][i], bars["micro_batch"][i]
    kind = KIND_WORDS[bars["kind"][i]]
    if bars["kind"][i] == TRANSFER:
        kind = f"transfer to {devices[bars['to_device'][i]]}, {text.nbytes(bars['nbytes'][i])}"
    if bars["kind"][i] == EXCHANGE:
        kind = f"{kind}, {text.nbytes(bars['nbytes'][i])} from each member"
    operator = bars["operator"][i]
    where = f", stage {stage}" if stage >= 0 else ""
    if operators and operator >= 0:
        return f"{kind}{' of' if bars['kind'][i] == TRANSFER else ','} {operators[operator]}"
    if bars["kind"][i] == REPEATED:
        return f"{kind}{where}, {micro_batch:,} micro-batches ({bars['spans'][i]} spans)"
    which = f", micro-batch {micro_batch}" if micro_batch >= 0 and bars["kind"][i] != "U" else ""
    merged = f" ({bars['spans'][i]} spans)" if bars["spans"][i] > 1 else ""
    return f"{kind}{where}{which}{merged}"


def _rows(span: Span, again_s: Mapping[int, float], links: Mapping[str, int], exchanged: OfActions) -> list[list[Any]]:
    stage, kind, micro_batch = action_parts(span)
    row = [span.device, span.start_s, span.end_s, kind, stage, micro_batch, span.to_device, span.nbytes, 1,
           links.get(span.resource, -1), -1, -1]  # fmt: skip
    exchange = exchanged.get((stage, kind), NO_EXCHANGE)
    if stage not in again_s or kind == "W" or kind not in BACKWARD:
        return with_exchange(row, exchange)
    cut = min(span.end_s, span.start_s + again_s[stage])
    again = [span.device, span.start_s, cut, "R", stage, micro_batch, -1, 0.0, 1, -1, -1, -1]
    first = exchanged.get((stage, "F"), NO_EXCHANGE)
    rest = Exchange(exchange.seconds - first.seconds, exchange.nbytes - first.nbytes)
    return [*with_exchange(again, first), *with_exchange([span.device, cut, *row[2:]], rest)]


def with_exchange(row: list[Any], exchange: Exchange) -> list[list[Any]]:
    """A bar as it is, or as what it computes and what it exchanges."""
    if exchange.seconds <= 0:
        return [row]
    device, start, end = row[:3]
    cut = max(start, end - exchange.seconds)
    compute = [] if cut - start <= 1e-9 * (end - start) else [[device, start, cut, *row[3:]]]
    return [*compute, [device, cut, end, EXCHANGE, *row[4:7], exchange.nbytes, *row[8:]]]


def _merged(rows: list[list[Any]], gap: float, alike: int) -> list[list[Any]]:
    """Melt neighbours on a lane that are at most ``gap`` apart and agree in device, and if asked in
    stage (alike 2), kind and receiver (alike 4) and micro-batch (alike 7)."""
    latest: dict[tuple[int, bool, int], list[Any]] = {}
    merged: list[list[Any]] = []
    for row in sorted(rows, key=lambda r: r[1]):
        lane = (row[0], row[3] == TRANSFER, row[9])
        before = latest.get(lane)
        if before is not None and row[1] - before[2] <= gap and _traits(row, alike) == _traits(before, alike):
            before[2] = max(before[2], row[2])
            before[4] = before[4] if before[4] == row[4] else -1
            before[5] = before[5] if before[5] == row[5] else -1
            before[7] += row[7]
            before[8] += row[8]
            continue
        latest[lane] = list(row)
        merged.append(latest[lane])
    return merged


def _traits(row: list[Any], alike: int) -> tuple[Any, ...]:
    _, _, _, kind, stage, micro_batch, to, *_ = row
    traits = {7: (stage, kind, to, micro_batch), 4: (stage, kind, to), 2: (stage,)}
    return traits.get(alike, ())
