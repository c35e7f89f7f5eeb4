"""Progress of a run, printed by rank 0 on stdout in lines that a target reads; in words where a person started it."""

from __future__ import annotations

import json
import os

from explorer.runner.bundles import heartbeats

MARK = "@progress "
BY_HAND = "PLACEMENT_EXPLORER_BY_HAND"
"""The variable that run.sh sets: nobody but a person reads what ranks print."""


def by_hand() -> bool:
    return bool(os.environ.get(BY_HAND))


def report(phase: str, done: int = 0, of: int = 0, *, waits: bool = False) -> None:
    """One line, from rank 0 only; every rank notes what it is at, and whether it waits for others there."""
    heartbeats.at(phase, waits)
    if os.environ.get("RANK", "0") != "0":
        return
    if by_hand():
        print(f"{phase} {done} of {of}" if of else phase, flush=True)
    else:
        print(f"{MARK}{json.dumps({'phase': phase, 'done': done, 'of': of})}", flush=True)
