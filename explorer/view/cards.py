"""The key figures of a plan, and how each differs from that of the plan before.

Green and red are for a figure in which better is plain to see: throughput, always, and a time where the same samples
take it. More memory or a longer bubble may be the price of it, so that their changes have no colour.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.view.figures import NO_FIGURES, Figures, figures, gap
from explorer.view.plan_types import PlanView, used_devices
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


def cards(plan: PlanView, before: Figures | None, measured_s: float | None = None) -> list[Card]:
    """before: of the plan of the same model that was shown before, to tell the changes; measured_s: what a run of
    this one took, where that is shown instead."""
    now = figures(plan)
    single = plan["objective"] == "makespan"
    alike = before is not None and (before.objective, before.mini_batch) == (now.objective, now.mini_batch)
    then = NO_FIGURES if before is None or measured_s is not None else before
    timed = then if then.objective == now.objective else NO_FIGURES
    faster, tone = _relative(then.per_s, now.per_s, more_is="good")
    slower, slow_tone = _relative(timed.objective_s, now.objective_s, more_is="bad")
    grown, _ = _relative(then.peak_bytes, now.peak_bytes)
    raised, _ = _relative(timed.bound_s, now.bound_s)
    return [
        Card("Throughput", text.rate(now.per_s), _samples(plan, before), faster, tone),
        Card(
            NAMES[plan["objective"]],
            text.seconds(plan["objective_s"]),
            (now.within or _each(now)) if measured_s is None else f"run: {text.seconds(measured_s)}",
            slower,
            slow_tone if alike else "",
        ),
        Card(
            "Idle" if single else "Bubble",
            text.percent(now.idle),
            f"of {text.plural(used_devices(plan), 'device')}" if single else f"micro-batches {micro_batches(plan)}",
            text.points(then.idle, now.idle, SAME_POINTS, "").replace("points", "pt"),
        ),
        Card("Peak memory", text.nbytes(now.peak_bytes), _of_cap(plan), grown),
        _bound(now, plan["status"] == "OPTIMAL", raised),
    ]


def micro_batches(plan: PlanView) -> str:
    """ "8", or "4–8" where stages differ."""
    sizes = {stage["micro_batch_size"] for stage in plan["stages"]}
    counts = sorted(plan["mini_batch"] // size for size in sizes)
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def _samples(plan: PlanView, before: Figures | None) -> str:
    if plan["objective"] == "makespan":
        return f"{plan['mini_batch']:,} in one pass"
    was = f", was {before.mini_batch:,}" if before is not None and before.mini_batch != plan["mini_batch"] else ""
    return f"mini-batch {plan['mini_batch']:,}{was}"


def _bound(now: Figures, proved: bool, change: str) -> Card:
    note = f"gap {text.percent(gap(now.objective_s, now.bound_s))}" if now.bound_s else "none proved"
    if proved:
        note = "proved optimal"
    return Card("Lower bound", text.seconds(now.bound_s or None), note, change, note_tone="good" if proved else "")


def _of_cap(plan: PlanView) -> str:
    shares = [
        curve["peak_bytes"] / device["memory_bytes"]
        for curve, device in zip(plan["memory"], plan["devices"], strict=True)
        if device["memory_bytes"]
    ]
    return f"{text.percent(max(shares))} of cap" if shares else "no cap"


def _each(now: Figures) -> str:
    """The time of one sample, where the objective is of a mini-batch of several."""
    return f"{text.seconds(now.sample_s)} a sample" if now.sample_s and now.sample_s != now.objective_s else ""


def _relative(then: float | None, now: float | None, more_is: str = "") -> tuple[str, str]:
    """("+12 %", tone). more_is: "good", "bad" or neither."""
    change = text.change(then or None, now or None, SAME, "")
    if not change or not more_is:
        return change, ""
    return change, "good" if change.startswith("+") == (more_is == "good") else "bad"
