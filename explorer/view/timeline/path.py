"""The critical path of a schedule: the chain of spans, each released by the one before, that ends last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.view.plan_types import HeavySpan, PathPart, PathView
from explorer.view.timeline.exchanges import NO_EXCHANGE, OfSpan
from explorer.view.timeline.lanes import lane_label
from explorer.words import text
from explorer.words.actions import KIND_WORDS, action_parts
from solvers.plan.schedule import Schedule

HEAVIEST = 3
SHOWN = 3
"""Parts of a path named one by one; the rest is shown as one."""


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the makespan: compute on a device, exchange among its members, transfers over a resource, or waiting.

    device: of compute and exchange, else -1. resource: of transfers, else "". spans: how many of the path."""

    kind: str
    device: int
    resource: str
    seconds: float
    spans: int


@dataclass(frozen=True, slots=True)
class Heavy:
    """One of the longest spans of a path: position in the schedule, operator (it or its sender; -1 unknown),
    kind, seconds and, of a transfer, what it moves and the receiver."""

    span: int
    operator: int
    kind: str
    device: int
    to_device: int
    seconds: float
    nbytes: float


def path_parts(schedule: Schedule, exchanged: OfSpan = lambda _: NO_EXCHANGE) -> list[Part]:
    """What the makespan is made of, the largest part first; the parts add up to it. exchanged: what of a span is
    exchange among the members of its device."""
    sums: dict[tuple[str, int, str], float] = defaultdict(float)
    spans: dict[tuple[str, int, str], int] = defaultdict(int)
    at = 0.0
    for position in schedule.critical:
        span = schedule.spans[position]
        key = ("transfer", -1, span.resource) if span.is_transfer else ("compute", span.device, "")
        exchange_s, here = exchanged(span).seconds, span.end_s - span.start_s
        if exchange_s > 0:
            sums["exchange", span.device, ""] += exchange_s
            spans["exchange", span.device, ""] += 1
            here -= exchange_s
        if here > 0 or not exchange_s:
            sums[key] += here
            spans[key] += 1
        if span.start_s > at:
            sums["waiting", -1, ""] += span.start_s - at
        at = max(at, span.end_s)
    if schedule.makespan_s > at:
        sums["waiting", -1, ""] += schedule.makespan_s - at
    parts = [Part(*key, seconds, spans[key]) for key, seconds in sums.items() if seconds > 0]
    return sorted(parts, key=lambda part: (-part.seconds, part.kind, part.device, part.resource))


def heaviest(schedule: Schedule, senders: Sequence[tuple[int, int]], most: int = HEAVIEST) -> list[Heavy]:
    """The longest spans of the path, longest first. senders: see `explorer.view.timeline.lanes.endpoints`."""
    order = sorted(
        schedule.critical, key=lambda i: (schedule.spans[i].start_s - schedule.spans[i].end_s, i)
    )  # fmt: skip
    longest = []
    for position in order[:most]:
        span = schedule.spans[position]
        kind = action_parts(span)[1]
        operator = senders[position][0]
        longest.append(
            Heavy(position, operator, kind, span.device, span.to_device, span.end_s - span.start_s, span.nbytes)
        )
    return longest


def part_words(part: Part, names: Sequence[str]) -> str:
    """ "GPU 0 compute", "transfer GPU 0 → 1", "waiting"."""
    if part.kind in ("compute", "exchange"):
        return f"{names[part.device]} {part.kind}"
    return f"transfer {lane_label(part.resource, names)}" if part.kind == "transfer" else "waiting"


def heavy_words(heavy: Heavy, names: Sequence[str]) -> str:
    """ "forward on GPU 0", "2 MiB to GPU 1": what a span does for its operator."""
    if heavy.to_device >= 0:
        return f"{text.nbytes(heavy.nbytes)} to {names[heavy.to_device]}"
    return f"{KIND_WORDS[heavy.kind]} on {names[heavy.device]}"


def sentence(parts: Sequence[Part], makespan_s: float, names: Sequence[str], shown: int = SHOWN) -> str:
    """ "Step 8.2 ms = GPU 0 compute 61 % + transfer GPU 0 → 1 12 % + GPU 1 compute 27 %": whole percents that
    add up to 100, all after the first ``shown`` parts as one, and none of 0."""
    if not parts or makespan_s <= 0:
        return f"Step {text.seconds(makespan_s)}"
    shares = summed([(part_words(part, names), part.seconds / makespan_s) for part in parts], shown)
    shares = [(words, percent) for words, percent in shares if percent > 0]
    return f"Step {text.seconds(makespan_s)} = " + " + ".join(f"{word} {percent} %" for word, percent in shares)


def summed(parts: Sequence[tuple[str, float]], shown: int) -> list[tuple[str, int]]:
    """(words, share) as whole percents of which any number of the first reads the same: those after ``shown``
    are added up as "12 others"."""
    whole = [int(percent) for percent in text.percents([share for _, share in parts])[:-1]]
    count = shown if len(parts) > shown + 1 else len(parts)
    percents = [(words, percent) for (words, _), percent in zip(parts[:count], whole, strict=False)]
    rest = len(parts) - count
    return [*percents, (f"{rest} others", sum(whole[count:]))] if rest else percents


def path_view(
    schedule: Schedule, senders: Sequence[tuple[int, int]], operators: Sequence[str], names: Sequence[str],
    links: Mapping[str, int], exchanged: OfSpan = lambda _: NO_EXCHANGE,
) -> PathView:  # fmt: skip
    """The path as JSON. Columns, one entry a run of spans that follow on one lane: device, link (position in
    the links, -1 for compute), start_s, end_s; steps: spans on it; parts [{kind, device, words, share}];
    heaviest [{operator, name, device, words, start_s, seconds, share}]; sentence."""
    columns: dict[str, list[Any]] = {"device": [], "link": [], "start_s": [], "end_s": []}
    for position in schedule.critical:
        span = schedule.spans[position]
        link = links.get(span.resource, -1)
        ends = columns["end_s"]
        last = (columns["device"][-1], columns["link"][-1]) if ends else None
        if last == (span.device, link) and span.start_s <= ends[-1] * (1 + 1e-9):
            ends[-1] = span.end_s
            continue
        for name, value in (("device", span.device), ("link", link), ("start_s", span.start_s), ("end_s", span.end_s)):
            columns[name].append(value)
    parts = path_parts(schedule, exchanged)
    span_s = schedule.makespan_s or 1.0
    return {
        "device": columns["device"],
        "link": columns["link"],
        "start_s": columns["start_s"],
        "end_s": columns["end_s"],
        "steps": len(schedule.critical),
        "sentence": sentence(parts, schedule.makespan_s, names),
        "parts": [_part_object(part, span_s, names) for part in parts],
        "heaviest": [_heavy_object(heavy, schedule, operators, names) for heavy in heaviest(schedule, senders)],
    }


def _part_object(part: Part, span_s: float, names: Sequence[str]) -> PathPart:
    return {
        "kind": part.kind,
        "device": part.device if part.kind == "compute" else -1,
        "words": part_words(part, names),
        "share": part.seconds / span_s,
        "spans": part.spans,
    }


def _heavy_object(heavy: Heavy, schedule: Schedule, operators: Sequence[str], names: Sequence[str]) -> HeavySpan:
    return {
        "operator": heavy.operator,
        "device": heavy.device,
        "name": operators[heavy.operator] if heavy.operator >= 0 else "",
        "words": heavy_words(heavy, names),
        "start_s": schedule.spans[heavy.span].start_s,
        "seconds": heavy.seconds,
        "share": heavy.seconds / (schedule.makespan_s or 1.0),
    }
