"""The course of a search: at which step what changed, and which planner found it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from explorer.view.plan_types import Step
from explorer.words import text


class Change(TypedDict):
    """A step of a search at which something changed; by: "" where one planner works alone."""

    elapsed_s: float
    by: str
    objective: str
    bound: str
    note: str


@dataclass
class _Member:
    by: str
    plans: int = 0
    best_s: float | None = None
    at_s: float | None = None
    bound_s: float | None = None


def course(steps: Sequence[Step]) -> list[Change]:
    """The steps at which the best objective or the bound changed by what people see, or something was said."""
    changes: list[Change] = []
    plans = text.seconds_alike([step[1] for step in steps], 4)
    bounds = text.seconds_alike([step[2] or None for step in steps], 4)
    for (elapsed_s, _, _, note, by), objective, bound in zip(steps, plans, bounds, strict=True):
        same = bool(changes) and (changes[-1]["objective"], changes[-1]["bound"]) == (objective, bound)
        if not same or note:
            changes.append({"elapsed_s": elapsed_s, "by": by, "objective": objective, "bound": bound, "note": note})
    return changes


def members(steps: Sequence[Step]) -> list[dict[str, str]]:
    """A row for every planner that improved something, the one that found the last plan first: by, plans (how often it
    improved on all before), best (its last), at (when) and bounds (the highest it proved), as text."""
    rows: dict[str, _Member] = {}
    best_s: float | None = None
    bound_s = 0.0
    for elapsed_s, objective, bound, _, by in steps:
        better = objective is not None and (best_s is None or objective < best_s)
        higher = (bound or 0.0) > bound_s
        if not better and not higher:
            continue
        row = rows.setdefault(by, _Member(by))
        if better:
            best_s = objective
            row.plans, row.best_s, row.at_s = row.plans + 1, objective, elapsed_s
        if bound is not None and higher:
            bound_s = row.bound_s = bound
    order = sorted(rows.values(), key=lambda row: (row.best_s is None, row.best_s or 0.0, row.by))
    best = text.seconds_alike([row.best_s for row in order], 4)
    proved = text.seconds_alike([row.bound_s for row in order], 4)
    return [
        {"by": row.by, "plans": text.count(row.plans) if row.plans else text.NOTHING, "best": shown,
         "at": text.seconds(row.at_s), "bounds": bound}
        for row, shown, bound in zip(order, best, proved, strict=True)
    ]  # fmt: skip
