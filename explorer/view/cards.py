"""The key figures of a plan, and how each differs from that of the plan before.

Green and red are for a figure in which better is plain to see: throughput, always, and a time where the same samples
take it. More memory or a longer bubble may be the price of it, so that their changes have no colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.words import text

NAMES = {"iteration": "Iteration time", "makespan": "Makespan", "max-load": "Max-load"}
SAME = 0.0005
"""Relative difference below which a figure did not change to people."""
SAME_POINTS = 0.0005
"""The same of a share."""


@dataclass(frozen=True, slots=True)
class Card:
    """One figure as text. change: against the plan before, "" where there is none or nothing changed; tone: "good" or
    "bad" where that is plain, of the change; note_tone: of the note."""

    name: str
    value: str
    note: str = ""
    change: str = ""
    tone: str = ""
    note_tone: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of a plan's view. per_s: samples per second; idle: share of the devices' time, the bubble."""

    objective: str
    objective_s: float
    mini_batch: int
    per_s: float | None
    idle: float | None
    peak_bytes: float
    bound_s: float


def figures(plan: Mapping[str, Any]) -> Figures:
    """Of a plan's view."""
    single = plan["objective"] == "makespan"
    span, metrics = plan["span_s"], plan["metrics"]
    return Figures(
        plan["objective"],
        plan["objective_s"] or 0.0,
        plan["mini_batch"],
        (plan["mini_batch"] / span if span else None) if single else metrics["throughput_per_s"],
        _idle(plan) if single else metrics["bubble"],
        max((curve["peak_bytes"] for curve in plan["memory"]), default=0.0),
        plan["bound_s"],
    )


def cards(plan: Mapping[str, Any], before: Figures | None, measured_s: float | None = None) -> list[Card]:
    """before: of the plan of the same model that was shown before, to tell the changes; measured_s: what a run of
    this one took, where that is told instead."""
    now = figures(plan)
    single = plan["objective"] == "makespan"
    alike = before is not None and (before.objective, before.mini_batch) == (now.objective, now.mini_batch)
    then = before if measured_s is None else None
    faster, tone = _relative(now.per_s, then.per_s if then else None, more_is="good")
    timed = then if alike or (then is not None and then.objective == now.objective) else None
    slower, slow_tone = _relative(now.objective_s, timed.objective_s if timed else None, more_is="bad")
    grown, _ = _relative(now.peak_bytes, then.peak_bytes if then else None)
    raised, _ = _relative(now.bound_s or None, timed.bound_s if timed else None)
    return [
        Card("Throughput", text.rate(now.per_s), _samples(plan, before), faster, tone),
        Card(
            NAMES[plan["objective"]],
            text.seconds(plan["objective_s"]),
            _each(plan) if measured_s is None else f"run: {text.seconds(measured_s)}",
            slower,
            slow_tone if alike else "",
        ),
        Card(
            "Idle" if single else "Bubble",
            text.percent(now.idle),
            f"of {text.plural(_used(plan), 'device')}" if single else f"micro-batches {micro_batches(plan)}",
            _points(now.idle, then.idle if then else None),
        ),
        Card("Peak memory", text.nbytes(now.peak_bytes), _of_cap(plan), grown),
        _bound(plan, raised),
    ]


def micro_batches(plan: Mapping[str, Any]) -> str:
    """ "8", or "4–8" where stages differ."""
    sizes = {stage["micro_batch_size"] for stage in plan["stages"]}
    counts = sorted(plan["mini_batch"] // size for size in sizes)
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def _samples(plan: Mapping[str, Any], before: Figures | None) -> str:
    if plan["objective"] == "makespan":
        return f"{plan['mini_batch']:,} in one pass"
    was = f", was {before.mini_batch:,}" if before is not None and before.mini_batch != plan["mini_batch"] else ""
    return f"mini-batch {plan['mini_batch']:,}{was}"


def _bound(plan: Mapping[str, Any], change: str) -> Card:
    if plan["status"] == "OPTIMAL":
        return Card("Lower bound", _seconds(plan["bound_s"]), "proved optimal", change, note_tone="good")
    objective = plan["objective_s"]
    gap = 1 - plan["bound_s"] / objective if objective else 0.0
    note = f"gap {text.percent(gap)}" if plan["bound_s"] else "none proved"
    return Card("Lower bound", _seconds(plan["bound_s"]), note, change)


def _seconds(value: float) -> str:
    return text.seconds(value) if value else text.NOTHING


def _of_cap(plan: Mapping[str, Any]) -> str:
    shares = [
        curve["peak_bytes"] / device["memory_bytes"]
        for curve, device in zip(plan["memory"], plan["devices"], strict=True)
        if device["memory_bytes"]
    ]
    return f"{text.percent(max(shares))} of cap" if shares else "no cap"


def _each(plan: Mapping[str, Any]) -> str:
    """The time of one sample, where the objective is of a mini-batch of several."""
    if not plan["objective_s"] or plan["objective"] == "max-load" or plan["mini_batch"] == 1:
        return ""
    return f"{text.seconds(plan['objective_s'] / plan['mini_batch'])} a sample"


def _used(plan: Mapping[str, Any]) -> int:
    return sum(d.get("count", 1) for d, busy in zip(plan["devices"], plan["busy_s"], strict=True) if busy > 0)


def _idle(plan: Mapping[str, Any]) -> float | None:
    """Of the devices that do anything in one pass."""
    span, used = plan["span_s"], [busy for busy in plan["busy_s"] if busy > 0]
    return max(0.0, 1 - sum(used) / (span * len(used))) if span and used else 0.0


def _relative(now: float | None, then: float | None, more_is: str = "") -> tuple[str, str]:
    """("+12 %", tone). more_is: "good", "bad" or neither."""
    if not now or not then or abs(now / then - 1) < SAME:
        return "", ""
    change = now / then - 1
    tone = "" if not more_is else "good" if (change > 0) == (more_is == "good") else "bad"
    return f"{'+' if change > 0 else '−'}{text.percent(abs(change))}", tone


def _points(now: float | None, then: float | None) -> str:
    """A change of a share: "+3.1 pt"."""
    if now is None or then is None or abs(now - then) < SAME_POINTS:
        return ""
    return f"{'+' if now > then else '−'}{text.percent(abs(now - then)).removesuffix(' %')} pt"
