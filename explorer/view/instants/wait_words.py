"""What a device waits for, in words, and as a line through the schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.instants.span_words import SYNC, SpanWords
from explorer.view.instants.waits import LAST, Leg, Wait, legs
from explorer.view.plan_types import Course
from explorer.words import text
from explorer.words.actions import TRANSFER

LEAST_QUEUED = 1e-3
"""Share of a transfer's time below which nobody needs to hear that it queued."""
SPOKEN = 2
"""Legs of the chain that the sentence tells."""

Told = dict[str, Any]
"""JSON. title, when, sentence; steps: [{kind, device (that computes or sends), words, note, start_s, seconds}],
backwards in time; started: what the chain begins with."""


def wait_told(course: Course, wait: Wait, words: SpanWords) -> Told:
    """A wait for the panel."""
    name = words.devices[wait.device]
    found = legs(course, wait.chain)
    after = "after its last work" if wait.before == LAST else f"before {words.state(wait.before, wait.device)}"
    idle = text.seconds(wait.end_s - wait.start_s)
    first = course["device"][wait.chain[-1]]
    return {
        "device": wait.device,
        "title": f"{name} idle {idle}",
        "when": f"{text.seconds(wait.start_s)} to {text.seconds(wait.end_s)}, {after}",
        "sentence": f"{name} idle {idle} {after}: {_sentence(course, wait, found, words)}",
        "steps": [_step(course, leg, words) for leg in found],
        "started": f"Started by {words.devices[first]}, {words.state(wait.chain[-1], first)}, at 0 s.",
    }


def chain_columns(course: Course, wait: Wait) -> dict[str, list[Any]]:
    """The chain in time order, as `explorer.view.timeline.path.path_view` has the columns of the critical path: spans
    of one resource that follow on each other are one. resource: its name, "" for compute."""
    columns: dict[str, list[Any]] = {"device": [], "resource": [], "start_s": [], "end_s": []}
    for leg in reversed(legs(course, wait.chain)):
        first = leg.spans[0]
        moves = course["kind"][first] == TRANSFER
        columns["device"].append(course["device"][first])
        columns["resource"].append(course["resources"][course["resource"][first]] if moves else "")
        columns["start_s"].append(leg.start_s)
        columns["end_s"].append(leg.end_s)
    return columns


def _sentence(course: Course, wait: Wait, found: Sequence[Leg], words: SpanWords) -> str:
    """ "waits for gradients of micro-batch 0 from GPU 3, which waits for ...", in a few legs."""
    told = []
    for leg in found[:SPOKEN]:
        first, last = leg.spans[0], leg.spans[-1]
        if course["kind"][first] == TRANSFER:
            told.append(f"{words.cargo(first)} from {words.devices[course['device'][first]]}")
        else:
            told.append(f"{words.action(last)} on {words.devices[course['device'][first]]}")
    begin = "the schedule ends with " if wait.before == LAST else "waits for "
    rest = len(found) - len(told)
    more = f"; {text.plural(rest, 'step')} before that" if rest else ""
    return begin + ", which waits for ".join(told) + more


def _step(course: Course, leg: Leg, words: SpanWords) -> Mapping[str, Any]:
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
