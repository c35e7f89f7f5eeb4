"""A constraint program at work in a child process, seen from the planner."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from solvers.programs.background import Background
from solvers.search.monitor import Monitor

LOOK_EVERY_S = 0.03
"""How often a planner looks at what the solver has sent."""


def cp_search(
    task: str,
    payload: dict[str, Any],
    monitor: Monitor,
    offer: Callable[[dict[str, Any]], None],
    *,
    most_s: float,
    unit_s: float = 1.0,
    claims: bool = True,
    settled: Callable[[], bool] | None = None,
) -> str:
    """Run CP-SAT in a process of its own until it ends or the question is settled; its status: "optimal",
    "infeasible" or "stopped".

    task, payload: as `Background` takes them. offer: takes a message with a solution. most_s: seconds of the best plan
    known, which bounds do not exceed. unit_s: seconds in the unit of the program's bounds. claims: whether these are
    bounds of the problem. settled: by default whether the monitor's best plan is proved best.
    Raises Stop, through ``monitor.check``.
    """
    settled = monitor.is_proved if settled is None else settled
    status = "stopped"
    with Background(task, payload) as child:
        while not child.done and not settled():
            monitor.check()
            time.sleep(LOOK_EVERY_S)
            for message in child.poll():
                if "status" in message:
                    status = message["status"]
                elif "bound" not in message:
                    offer(message)
                elif claims:
                    monitor.raise_bound(min(message["bound"] * unit_s, most_s))
        if child.error is not None:
            monitor.note(f"the constraint program ended early: {child.error}")
    return status
