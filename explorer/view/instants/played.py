"""How a schedule goes, span by span: as plain columns, and as a browser plays them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TypedDict

from explorer.view.plan_types import Course, Held, PlanView
from explorer.view.timeline.lanes import lane_label
from explorer.words import text
from explorer.words.actions import BACKWARD, KIND_WORDS, TRANSFER
from solvers.plan.schedule import SPAN_KINDS, Schedule

Flight = tuple[int, float, float]
"""A micro-batch on a device: its number, when its first forward there begins, when its last backward ends."""
MOST_SPANS = 40_000
"""Of a larger schedule there is no course: nobody plays hundreds of thousands of spans."""
MOST_POINTS = 100_000
"""Of all memory curves together."""

_DEVICE = re.compile(r"^device (\d+)$")
NAME = 48
CARRIED = {"F": "activations", "U": "updated parameters"} | dict.fromkeys(BACKWARD, "gradients")
SYNC = "S"


def course(schedule: Schedule) -> Course | None:
    """The course of a simulated schedule; None if it is too large, or its causes are not known."""
    columns = schedule.columns
    points = sum(len(curve.times_s) for curve in schedule.memory)
    if not 0 < len(schedule) <= MOST_SPANS or points > MOST_POINTS or len(schedule.cause) != len(schedule):
        return None
    of = [SPAN_KINDS[number] for number in columns.kind.tolist()]
    to_device = columns.to_device.tolist()
    resource = columns.resource.tolist()
    devices = [_device(name) for name in schedule.resources]
    return {
        "span_s": schedule.makespan_s,
        "start_s": columns.start_s.tolist(),
        "end_s": columns.end_s.tolist(),
        "kind": [TRANSFER if to >= 0 else kind for kind, to in zip(of, to_device, strict=True)],
        "of": of,
        "stage": columns.stage.tolist(),
        "micro_batch": columns.micro_batch.tolist(),
        "device": columns.device.tolist(),
        "to_device": to_device,
        "on": [devices[r] for r in resource],
        "resource": resource,
        "resources": list(schedule.resources),
        "nbytes": columns.nbytes.tolist(),
        "operator": columns.sender.tolist(),
        "cause": schedule.cause.tolist(),
        "ready_s": schedule.ready_s.tolist(),
        "memory": [
            {"times_s": list(curve.times_s) or [0.0], "nbytes": list(curve.nbytes) or [curve.static_bytes]}
            for curve in schedule.memory
        ],
    }


def _device(resource: str) -> int:
    match = _DEVICE.match(resource)
    return int(match[1]) if match else -1


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
    devices: list[Occupied] = [
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
            devices[on]["label"].append(labels.setdefault(words.state(i, on), len(labels)))
            devices[on]["start_s"].append(start)
            devices[on]["end_s"].append(end)
    return {"span_s": course["span_s"], "labels": list(labels), "devices": devices, "moves": moves}


def flights(course: Course, devices: int) -> list[list[Flight]]:
    """The micro-batches of every device, by their begin: from its first forward there to its last backward (or, where
    there is none, its last forward). None where all samples pass in one piece."""
    spans_of: list[dict[int, list[float]]] = [{} for _ in range(devices)]
    several = set()
    for i, kind in enumerate(course["kind"]):
        if kind not in ("F", *BACKWARD):
            continue
        micro, start, end = course["micro_batch"][i], course["start_s"][i], course["end_s"][i]
        several.add(micro)
        span = spans_of[course["device"][i]].setdefault(micro, [start, end])
        span[0], span[1] = min(span[0], start), max(span[1], end)
    if len(several) < 2:
        return [[] for _ in range(devices)]
    return [sorted(((m, a, b) for m, (a, b) in spans.items()), key=lambda f: (f[1], f[0])) for spans in spans_of]


class SpanWords:
    """devices: names by position. operators: names by position, empty where spans are of stages."""

    def __init__(self, course: Course, devices: Sequence[str], operators: Sequence[str] = ()) -> None:
        self.course, self.devices, self.operators = course, devices, operators
        work = [i for i, kind in enumerate(course["kind"]) if kind != TRANSFER]
        stages: dict[int, set[int]] = {}
        for i in work:
            stages.setdefault(course["device"][i], set()).add(course["stage"][i])
        self.several = {device for device, stages_here in stages.items() if len(stages_here) > 1}
        self.pieces = len({course["micro_batch"][i] for i in work if course["kind"][i] != "U"}) > 1

    def action(self, i: int) -> str:
        """Of compute, without its device: "forward 3", "backward 3 of stage 2", "update", "forward of layers.0.mlp"."""
        course = self.course
        kind, operator = course["kind"][i], course["operator"][i]
        words = KIND_WORDS[kind]
        if self.operators and operator >= 0:
            return f"{words} of {text.short(self.operators[operator], NAME)}"
        if kind != "U" and self.pieces:
            words += f" {course['micro_batch'][i]}"
        return words + (f" of stage {course['stage'][i]}" if course["device"][i] in self.several else "")

    def cargo(self, i: int) -> str:
        """Of a transfer: "activations of micro-batch 3", "all-reduce of the gradients of stage 2"."""
        course = self.course
        of, operator = course["of"][i], course["operator"][i]
        if of == SYNC:
            return f"all-reduce of the gradients of stage {course['stage'][i]}"
        if self.operators and operator >= 0:
            return f"output of {text.short(self.operators[operator], NAME)}"
        which = f" of micro-batch {course['micro_batch'][i]}" if self.pieces and of != "U" else ""
        return CARRIED.get(of, "output") + which

    def route(self, i: int) -> str:
        """Of a transfer: "GPU 2 → 1"."""
        course = self.course
        device, to = course["device"][i], course["to_device"][i]
        return self.devices[device] if to == device else lane_label(f"{device}->{to}", self.devices)

    def link(self, i: int) -> str:
        """The resource that a transfer occupies."""
        return lane_label(self.course["resources"][self.course["resource"][i]], self.devices)

    def state(self, i: int, device: int) -> str:
        """What a device does while the span occupies it."""
        course = self.course
        if course["kind"][i] != TRANSFER:
            return self.action(i)
        return f"{'sends' if course['device'][i] == device else 'receives'} {self.cargo(i)}"


def ranges(numbers: Collection[int]) -> str:
    """ "0–3, 7": micro-batches in few words."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
