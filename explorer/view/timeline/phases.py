"""Warm-up, steady state and drain of a pipeline, row by row.

A row (a device, or a stage) warms up until its first backward begins, and drains from the end of its
last forward, or from its first backward where that is later; in between it alternates (Narayanan et al.,
SC 2021, section 2.2: "warm-up", "steady state", and the backwards of what is left in flight). So GPipe,
all forwards and then all backwards, has no steady state. A row without backwards warms up until its
first action begins, and drains from the end of its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from explorer.view.plan_types import PlanView, RowPhases
from explorer.words import text
from explorer.words.actions import BACKWARD, TRANSFER, action_parts
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule

NAMES = ("warm-up", "steady", "drain")


def row_phases(actions: Sequence[tuple[str, float, float]], span_s: float) -> RowPhases:
    """Phases of one row. actions: (kind, start_s, end_s) of its compute; span_s: the end of the schedule."""
    warm, drain = _limits(actions, span_s)
    busy = [0.0, 0.0, 0.0]
    for _, start, end in actions:
        busy[0] += max(0.0, min(end, warm) - start)
        busy[1] += max(0.0, min(end, drain) - max(start, warm))
        busy[2] += max(0.0, end - max(start, drain))
    return [warm, drain, *busy]


def _limits(actions: Sequence[tuple[str, float, float]], span_s: float) -> tuple[float, float]:
    if not actions:
        return span_s, span_s
    backwards = [start for kind, start, _ in actions if kind in BACKWARD]
    if not backwards:
        return min(start for _, start, _ in actions), max(end for _, _, end in actions)
    warm = min(backwards)
    last_forward = max((end for kind, _, end in actions if kind == "F"), default=warm)
    return warm, max(warm, last_forward)


def plan_phases(plan: Plan, schedule: Schedule) -> dict[str, list[RowPhases | None]]:
    """``devices`` and ``stages``: the phases of each, None for a device without work. The replicas of a
    stage do the same: the first one stands for all."""
    span_s = schedule.makespan_s
    of_device: list[list[tuple[str, float, float]]] = [[] for _ in schedule.memory]
    of_stage: list[list[tuple[str, float, float]]] = [[] for _ in plan.stages]
    first = [stage.devices[0] for stage in plan.stages]
    for span in schedule.spans:
        stage, kind, _ = action_parts(span)
        if kind == TRANSFER:
            continue
        action = (kind, span.start_s, span.end_s)
        of_device[span.device].append(action)
        if 0 <= stage < len(first) and first[stage] == span.device:
            of_stage[stage].append(action)
    return {
        "devices": [row_phases(actions, span_s) if actions else None for actions in of_device],
        "stages": [row_phases(actions, span_s) if actions else None for actions in of_stage],
    }


def is_pipelined(plan: PlanView) -> bool:
    """Whether there is anything to tell: a plan's view with several micro-batches on several devices."""
    several = any(plan["mini_batch"] > s["micro_batch_size"] for s in plan["stages"])
    used = {d for s in plan["stages"] for d in s["devices"]}
    return plan["pipeline"] != "none" and plan["objective"] != "makespan" and several and len(used) > 1


class PhaseShare(TypedDict):
    """A phase: its share of the device time, and that of the device time that is idle in it."""

    name: str
    share: float
    idle: float
    text: str
    idle_text: str


def summary(plan: PlanView) -> list[PhaseShare]:
    """The three phases of a plan's view over its devices; their idle shares add up to the bubble. [] without a
    pipeline."""
    rows = [row for row in plan["phases"]["devices"] if row is not None]
    span_s = plan["span_s"]
    if not rows or not span_s or not is_pipelined(plan):
        return []
    shares: list[PhaseShare] = []
    for i, name in enumerate(NAMES):
        lengths = [(warm, drain - warm, span_s - drain)[i] for warm, drain, *_ in rows]
        idle = [max(0.0, length - row[2 + i]) for length, row in zip(lengths, rows, strict=True)]
        whole = span_s * len(rows)
        share, lost = sum(lengths) / whole, sum(idle) / whole
        shares.append(
            {"name": name, "share": share, "idle": lost, "text": text.percent(share), "idle_text": text.percent(lost)}
        )
    return shares
