"""How a schedule goes, span by span, as plain columns: what is played on the page, and what waits are told from."""

from __future__ import annotations

import re

from explorer.view.plan_types import Course
from explorer.words.actions import TRANSFER
from solvers.plan.schedule import SPAN_KINDS, Schedule

MOST_SPANS = 40_000
"""Of a larger schedule there is no course: nobody plays hundreds of thousands of spans."""
MOST_POINTS = 100_000
"""Of all memory curves together."""

_DEVICE = re.compile(r"^device (\d+)$")


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
    found = _DEVICE.match(resource)
    return int(found[1]) if found else -1
