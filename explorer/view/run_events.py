"""What a worker reports about a run, as plain data: events in the order in which they happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from explorer.view.events import Prepared, Ran, Replanned, ReplannedView, Running
from explorer.view.plan_types import RunView


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that is kept. bundle: the name of its folder; when: as people read it; predicted_s and measured_s:
    of its objective, None where that is not known; ok: whether it came to its end; word: how it ended."""

    bundle: str
    when: str
    target: str
    planner: str
    predicted_s: float | None
    measured_s: float | None
    ok: bool
    word: str


def prepared(
    held: str,
    target: str,
    model: str,
    text: bytes,
    ranks: int,
    refused: Sequence[str],
    warnings: Sequence[str],
    elsewhere: str = "",
) -> Prepared:
    """A plan was looked at before it runs. model: its reference; refused: why it cannot be run; warnings: what to
    know before it is; elsewhere: that its costs are of other hardware than the target's, or ""."""
    return {
        "kind": "prepared",
        "held": held,
        "target": target,
        "model": model,
        "text": text,
        "ranks": ranks,
        "refused": list(refused),
        "warnings": list(warnings),
        "elsewhere": elsewhere,
    }


def running(phase: str, done: int, of: int, lines: Sequence[str]) -> Running:
    """How far a run is: ``done`` of ``of`` in a phase, 0 of 0 where that is not known. lines: of its log, since
    the last event."""
    return {"kind": "running", "phase": phase, "done": done, "of": of, "lines": list(lines)}


def ran(run: RunView) -> Ran:
    """A run has ended, whichever way. run: see `explorer.jobs.run_kinds.run_view`."""
    return {"kind": "ran", "run": run}


def replanned(view: ReplannedView) -> Replanned:
    """A plan was made again with measured costs. view: see `explorer.jobs.replan.replan_job`."""
    return {"kind": "replanned", **view}


def local_time(created: str) -> str:
    """ "2026-11-21T16:07:42Z" on this machine's clock, as people read it: "21 Nov 16:07"; "" if it is no time."""
    try:
        moment = datetime.fromisoformat(created).astimezone()
    except ValueError:
        return ""
    return f"{moment.day} {moment:%b %H:%M}"
