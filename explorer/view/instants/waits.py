"""What an idle device waits for, and what that waited for, down to what started it, also in words.

Every span but those that run first was let start by the end of another: the last of those it waited for, or the one
that left its device or link (`solvers.plan.schedule.Schedule.cause`). So the way back from an idle time is a chain
without holes: every link of it ends where the one after it begins, and the first of them begins at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypedDict

from explorer.view.instants.played import SYNC, SpanWords
from explorer.view.plan_types import Course
from explorer.words import text
from explorer.words.actions import TRANSFER

LAST = -1
"""In place of a span: a device waits for nothing of its own any more, but for the schedule to end."""
LEAST_QUEUED = 1e-3
"""Share of a transfer's time below which nobody needs to hear that it queued."""
SPOKEN = 2
"""Legs of the chain that the sentence lists."""


class WaitStep(TypedDict):
    """device: that computes or sends."""

    kind: str
    device: int
    words: str
    note: str
    start_s: float
    seconds: float


class WaitView(TypedDict):
    """A wait for the panel. steps: backwards in time; started: what the chain begins with."""

    device: int
    title: str
    when: str
    sentence: str
    steps: list[WaitStep]
    started: str


class ChainColumns(TypedDict):
    """A chain in time order. resource: its name, "" for compute."""

    device: list[int]
    resource: list[str]
    start_s: list[float]
    end_s: list[float]


@dataclass(frozen=True, slots=True)
class Wait:
    """A device is idle from start_s to end_s. before: the span it then runs, or LAST. chain: spans, backwards in time:
    the first ends at end_s, each begins where the next one ends, the last one begins at 0."""

    device: int
    start_s: float
    end_s: float
    before: int
    chain: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leg:
    """Links of a chain that follow one another on one resource, as one: from start_s to end_s. spans: in time order.
    queued_s: of a transfer, how long it was ready before its link, or device, was free."""

    start_s: float
    end_s: float
    spans: tuple[int, ...]
    queued_s: float = 0.0


def idle_time(course: Course, device: int, at_s: float) -> tuple[float, float, int] | None:
    """(start_s, end_s, the span that ends it or LAST) of the idle time of a device at an instant. None where it is
    busy, or has nothing to do in all of the schedule."""
    before, after, then = 0.0, float(course["span_s"]), LAST
    works = False
    for i, on in enumerate(course["on"]):
        if on != device:
            continue
        start, end = course["start_s"][i], course["end_s"][i]
        if start <= at_s < end:
            return None
        works = True
        if end <= at_s:
            before = max(before, end)
        elif start < after:
            after, then = start, i
    return (before, after, then) if works and before <= at_s <= after else None


def wait_at(course: Course, device: int, at_s: float) -> Wait | None:
    """What a device waits for at an instant; None where it is busy, or has nothing to do at all."""
    idle = idle_time(course, device, at_s)
    if idle is None or idle[1] <= idle[0]:
        return None
    start, end, then = idle
    first = (
        max(range(len(course["end_s"])), key=lambda i: course["end_s"][i]) if then == LAST else course["cause"][then]
    )
    return Wait(device, start, end, then, chain(course, first))


def chain(course: Course, span: int) -> tuple[int, ...]:
    """A span, the one whose end let it start, and so on."""
    spans = []
    while span >= 0:
        spans.append(span)
        span = course["cause"][span]
    return tuple(spans)


def legs(course: Course, spans: Sequence[int]) -> list[Leg]:
    """A chain with what follows on one device as one; transfers are listed one by one."""
    numbered = enumerate(spans)
    merged = []
    for _, several in groupby(numbered, key=lambda pair: _alike(course, *pair)):
        leg_spans = [span for _, span in several][::-1]
        first = leg_spans[0]
        queued = 0.0
        if course["kind"][first] == TRANSFER:
            queued = max(0.0, course["start_s"][first] - course["ready_s"][first])
        merged.append(Leg(course["start_s"][first], course["end_s"][leg_spans[-1]], tuple(leg_spans), queued))
    return merged


def _alike(course: Course, place: int, span: int) -> tuple[str, int]:
    if course["kind"][span] == TRANSFER:
        return "transfer", place
    return "compute", course["device"][span]


def wait_view(course: Course, wait: Wait, words: SpanWords) -> WaitView:
    """A wait for the panel."""
    name = words.devices[wait.device]
    steps = legs(course, wait.chain)
    after = "after its last work" if wait.before == LAST else f"before {words.state(wait.before, wait.device)}"
    idle = text.seconds(wait.end_s - wait.start_s)
    first = course["device"][wait.chain[-1]]
    return {
        "device": wait.device,
        "title": f"{name} idle {idle}",
        "when": f"{text.seconds(wait.start_s)} to {text.seconds(wait.end_s)}, {after}",
        "sentence": f"{name} idle {idle} {after}: {_sentence(course, wait, steps, words)}",
        "steps": [_step(course, leg, words) for leg in steps],
        "started": f"Started by {words.devices[first]}, {words.state(wait.chain[-1], first)}, at 0 s.",
    }


def chain_columns(course: Course, wait: Wait) -> ChainColumns:
    """The chain in time order, as `explorer.view.timeline.path.path_view` has the columns of the critical path: spans
    of one resource that follow on each other are one."""
    columns: ChainColumns = {"device": [], "resource": [], "start_s": [], "end_s": []}
    for leg in reversed(legs(course, wait.chain)):
        first = leg.spans[0]
        moves = course["kind"][first] == TRANSFER
        columns["device"].append(course["device"][first])
        columns["resource"].append(course["resources"][course["resource"][first]] if moves else "")
        columns["start_s"].append(leg.start_s)
        columns["end_s"].append(leg.end_s)
    return columns


def _sentence(course: Course, wait: Wait, steps: Sequence[Leg], words: SpanWords) -> str:
    """ "waits for gradients of micro-batch 0 from GPU 3, which waits for ...", in a few legs."""
    parts = []
    for leg in steps[:SPOKEN]:
        first, last = leg.spans[0], leg.spans[-1]
        if course["kind"][first] == TRANSFER:
            parts.append(f"{words.cargo(first)} from {words.devices[course['device'][first]]}")
        else:
            parts.append(f"{words.action(last)} on {words.devices[course['device'][first]]}")
    begin = "the schedule ends with " if wait.before == LAST else "waits for "
    rest = len(steps) - len(parts)
    more = f"; {text.plural(rest, 'step')} before that" if rest else ""
    return begin + ", which waits for ".join(parts) + more


def _step(course: Course, leg: Leg, words: SpanWords) -> WaitStep:
    first, last = leg.spans[0], leg.spans[-1]
    device, seconds = course["device"][first], leg.end_s - leg.start_s
    note = ""
    if course["kind"][first] == TRANSFER:
        what = f"{words.cargo(first)}, {words.route(first)}"
        size = text.nbytes(course["nbytes"][first])
        if leg.queued_s > LEAST_QUEUED * max(seconds, 1e-12):
            note = f"queued {text.seconds(leg.queued_s)} for {words.link(first)}"
        kind = "sync" if course["of"][first] == SYNC else "transfer"
        note = f"{size}; {note}" if note else size
    else:
        many = len(leg.spans)
        what = f"{words.devices[device]}: {words.action(first)}"
        if many > 1:
            what += f" to {words.action(last)}"
            note = f"{many:,} one after the other"
        kind = "compute"
    return {"kind": kind, "device": device, "words": what, "note": note, "start_s": leg.start_s, "seconds": seconds}
