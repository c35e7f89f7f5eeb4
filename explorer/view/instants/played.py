"""A course as a browser plays it: what each device does and holds from one instant to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from explorer.view.instants.span_words import SpanWords
from explorer.view.plan_types import Course, Held, PlanView
from explorer.words.actions import BACKWARD, TRANSFER

Flight = tuple[int, float, float]
"""A micro-batch on a device: its number, when its first forward there begins, when its last backward ends."""


class Stretches(TypedDict):
    """Columns, by their begin."""

    start_s: list[float]
    end_s: list[float]


class Occupied(Stretches):
    """What a device does: label, positions in the labels of the course; see `played`."""

    name: str
    label: list[int]
    flights: list[Flight]
    memory: Held
    cap_bytes: float | None


class Played(TypedDict):
    """See `played`."""

    span_s: float
    labels: list[str]
    devices: list[Occupied]
    moves: Stretches


def played(course: Course, plan: PlanView, operators: Sequence[str] = ()) -> Played:
    """JSON. span_s; labels: what devices do, in words; devices: per device name, label and start_s and end_s of what
    occupies it (columns, by start), flights (see `flights`), memory (times_s, nbytes) and cap_bytes; moves: start_s and
    end_s of transfers. operators: names by position, where spans are single operators."""
    names = [device["name"] for device in plan["devices"]]
    words = SpanWords(course, names, operators)
    labels: dict[str, int] = {}
    told: list[Occupied] = [
        {"name": name, "label": [], "start_s": [], "end_s": [], "flights": list(flown), "memory": memory,
         "cap_bytes": device["memory_bytes"]}
        for name, flown, memory, device in zip(names, flights(course, len(names)), course["memory"], plan["devices"],
                                               strict=True)
    ]  # fmt: skip
    moves: Stretches = {"start_s": [], "end_s": []}
    for i, on in enumerate(course["on"]):
        start, end = course["start_s"][i], course["end_s"][i]
        if course["kind"][i] == TRANSFER:
            moves["start_s"].append(start)
            moves["end_s"].append(end)
        if on >= 0:
            told[on]["label"].append(labels.setdefault(words.state(i, on), len(labels)))
            told[on]["start_s"].append(start)
            told[on]["end_s"].append(end)
    return {"span_s": course["span_s"], "labels": list(labels), "devices": told, "moves": moves}


def flights(course: Course, devices: int) -> list[list[Flight]]:
    """The micro-batches of every device, by their begin: from its first forward there to its last backward (or, where
    there is none, its last forward). None where all samples pass in one piece."""
    found: list[dict[int, list[float]]] = [{} for _ in range(devices)]
    several = set()
    for i, kind in enumerate(course["kind"]):
        if kind not in ("F", *BACKWARD):
            continue
        micro, start, end = course["micro_batch"][i], course["start_s"][i], course["end_s"][i]
        several.add(micro)
        span = found[course["device"][i]].setdefault(micro, [start, end])
        span[0], span[1] = min(span[0], start), max(span[1], end)
    if len(several) < 2:
        return [[] for _ in range(devices)]
    return [sorted(((m, a, b) for m, (a, b) in told.items()), key=lambda f: (f[1], f[0])) for told in found]
