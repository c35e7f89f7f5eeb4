"""Bars of a schedule of single operators: all of them kept, as many drawn as can be seen, and described in words.

Zoomed out, neighbours on a lane that are too narrow to tell apart melt into runs; zoomed in, every operator
is a bar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.plan_types import Bars, LinkUse
from explorer.view.timeline.bars import COLUMNS, columns_of, row_of, with_exchange
from explorer.view.timeline.exchanges import NO_EXCHANGE, OfSpan
from explorer.words import text
from explorer.words.actions import BACKWARD, EXCHANGE, KIND_WORDS, TRANSFER, action_parts
from solvers.plan.schedule import Schedule

MOST_KEPT = 20_000
"""Spans of which a page keeps every one; of more, the shortest neighbours are kept as runs."""
MOST_DRAWN = 1_500
PIXELS = 900
"""About as wide as a schedule is drawn."""
NARROW = 2.5
"""Pixels. Two bars narrower than this are not seen apart."""

AT = {name: i for i, name in enumerate(COLUMNS)}
Row = list[Any]
NAME = 64
SOON = 1e-6
"""Share of a transfer's end up to which its reader starts "at once"."""


def operator_bars(
    schedule: Schedule,
    senders: Sequence[tuple[int, int]],
    links: Mapping[str, int],
    most: int = MOST_KEPT,
    exchanged: OfSpan = lambda _: NO_EXCHANGE,
) -> tuple[Bars, bool]:
    """A bar a span, by lane and time, and whether all are there. senders: see `lanes.endpoints`; links: as for
    `bars`; exchanged: what members of groups exchange in a span, which is a bar of its own at its end."""
    rows: list[Row] = []
    for span, (sender, reader) in zip(schedule.spans, senders, strict=True):
        stage, kind, _ = action_parts(span)
        row = [span.device, span.start_s, span.end_s, kind, stage, -1, span.to_device, span.nbytes, 1,
               links.get(span.resource, -1), sender, reader if kind == TRANSFER else -1]  # fmt: skip
        rows += with_exchange(row, exchanged(span))
    rows.sort(key=lambda row: (_lane(row), row[1]))
    shown = rows if len(rows) <= most else _thinned(rows, schedule.makespan_s / 1e5, most)
    return columns_of(shown), len(shown) == len(rows)


def drawn(bars: Bars, window: tuple[float, float], most: int = MOST_DRAWN) -> tuple[Bars, bool]:
    """The bars to draw while ``window`` (seconds) is in sight: those in it and as far again to either side,
    at most ``most`` of them (or one a lane); and whether any of them is a run of several."""
    start, end = window
    width = max(end - start, 1e-12)
    low, high = start - width, end + width
    starts, ends = bars["start_s"], bars["end_s"]
    inside = [i for i in range(len(starts)) if starts[i] < high and ends[i] > low]
    rows = [row_of(bars, i) for i in inside]
    shown = _thinned(rows, width / PIXELS, most)
    return columns_of(shown), len(shown) < len(rows)


def family(kind: str) -> str:
    """What may melt: forwards with forwards, whatever follows from the loss with its like, transfers."""
    return kind if kind in ("F", TRANSFER) else "B"


def _thinned(rows: list[Row], pixel_s: float, most: int) -> list[Row]:
    melted = _melted(rows, pixel_s)
    while len(melted) > most:
        pixel_s *= 2
        before = len(melted)
        melted = _melted(rows, pixel_s)
        if len(melted) == before and pixel_s > max((row[2] for row in rows), default=0.0):
            break
    return melted


def _melted(rows: list[Row], pixel_s: float) -> list[Row]:
    """Runs of neighbours on a lane of one family that are narrow, at most a pixel apart. rows: by lane, then
    time."""
    melted: list[Row] = []
    run: list[Row] = []
    for row in rows:
        narrow = row[2] - row[1] < NARROW * pixel_s
        if run and narrow and _goes_on(run[-1], row, pixel_s):
            run.append(row)
            continue
        melted += _as_bar(run)
        run = [row]
        if not narrow:
            melted.append(row)
            run = []
    return melted + _as_bar(run)


def _goes_on(before: Row, row: Row, pixel_s: float) -> bool:
    alike = EXCHANGE in (before[3], row[3]) or family(before[3]) == family(row[3])
    return _lane(before) == _lane(row) and alike and row[1] - before[2] <= pixel_s


def _as_bar(run: Sequence[Row]) -> list[Row]:
    if len(run) < 2:
        return list(run)
    first = run[0]
    bar = list(first)
    bar[AT["end_s"]] = max(row[2] for row in run)
    bar[AT["kind"]] = _kind(run)
    for name in ("stage", "micro_batch", "to_device", "operator", "reader"):
        alike = all(row[AT[name]] == first[AT[name]] for row in run)
        bar[AT[name]] = first[AT[name]] if alike else -1
    if bar[AT["kind"]] == TRANSFER:
        bar[AT["to_device"]] = first[AT["to_device"]]
    bar[AT["nbytes"]] = sum(row[AT["nbytes"]] for row in run)
    bar[AT["spans"]] = sum(row[AT["spans"]] for row in run)
    return [bar]


def _kind(run: Sequence[Row]) -> str:
    """The kind that takes more than half of a run's time; else of backwards, "B"."""
    times: Counter[str] = Counter()
    for row in run:
        times[row[3]] += row[2] - row[1]
    kind, most = times.most_common(1)[0]
    mixed = len(times) > 1 and any(k in BACKWARD for k in times) and 2 * most <= sum(times.values())
    return "B" if mixed else kind


def _lane(row: Row) -> tuple[int, int, int]:
    """Compute of a device, a link, or (where transfers occupy devices) what a device sends."""
    if row[3] != TRANSFER:
        return 0, row[0], 0
    return (1, row[9], 0) if row[9] >= 0 else (0, row[0], 1)


class OperatorWords:
    """Words of bars. found: all bars of the schedule; operators, devices, links: names by position."""

    def __init__(self, bars: Bars, operators: Sequence[str], devices: Sequence[str], links: Sequence[LinkUse]) -> None:
        self.operators, self.devices, self.links = operators, devices, links
        self.start: dict[int, float] = {}
        self.sent: dict[int, list[int]] = {}
        for i, (kind, operator) in enumerate(zip(bars["kind"], bars["operator"], strict=True)):
            if operator < 0:
                continue
            if kind == TRANSFER:
                self.sent.setdefault(operator, []).append(bars["to_device"][i])
            else:
                self.start[operator] = bars["start_s"][i]

    def hover(self, drawn: Bars, i: int) -> str:
        """Pseudo-HTML: where, what, of which operator, how long and when, and who waits for it."""
        start, end = drawn["start_s"][i], drawn["end_s"][i]
        kind, link = drawn["kind"][i], drawn["link"][i]
        where = self.links[link]["label"] if kind == TRANSFER and link >= 0 else self.devices[drawn["device"][i]]
        lines = [f"<b>{text.plain(where)}</b> · {text.plain(self.what(drawn, i))}"]
        if drawn["operator"][i] >= 0:
            of = "of " if kind == TRANSFER else ""
            lines.append(of + text.plain(text.short(self.operators[drawn["operator"][i]], NAME)))
        lines.append(f"{text.seconds(end - start)} · {text.seconds(start)} to {text.seconds(end)}")
        lines += [text.plain(line) for line in (self.waits(drawn, i),) if line]
        if drawn["spans"][i] > 1:
            lines.append("zoom in to see each")
        return "<br>".join(lines)

    def what(self, drawn: Bars, i: int) -> str:
        """ "forward", "transfer to GPU 1, 2 MiB", "17 operators, backward"."""
        kind, spans = drawn["kind"][i], drawn["spans"][i]
        if kind == TRANSFER:
            to = drawn["to_device"][i]
            size = text.nbytes(drawn["nbytes"][i])
            if spans > 1:
                return f"{spans:,} transfers, {size}"
            sends = to == drawn["device"][i]
            return f"sends {size}" if sends else f"transfer to {self.devices[to]}, {size}"
        word = KIND_WORDS[kind]
        if kind == EXCHANGE:
            word = f"{word}, {text.nbytes(drawn['nbytes'][i])} from each member"
        return word if spans == 1 else f"{text.plural(spans, 'operator')}, {word}"

    def waits(self, drawn: Bars, i: int) -> str:
        """Who reads a transfer, and whether it waited for it; to whom an operator's results are sent."""
        reader, operator = drawn["reader"][i], drawn["operator"][i]
        if reader >= 0 and reader in self.start:
            name = text.short(self.operators[reader], NAME)
            late = self.start[reader] - drawn["end_s"][i]
            to = self.devices[drawn["to_device"][i]]
            if late <= SOON * max(drawn["end_s"][i], 1e-9):
                return f"{to} then runs {name}"
            return f"read {text.seconds(late)} later by {name}"
        if drawn["kind"][i] != TRANSFER and operator in self.sent and drawn["spans"][i] == 1:
            places = sorted(set(self.sent[operator]) - {drawn["device"][i]})
            return f"sent to {text.listing([self.devices[d] for d in places], 4)}" if places else ""
        return ""
