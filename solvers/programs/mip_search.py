"""Solve an integer program for a planner: in the background, stoppable at once, with live answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from solvers.programs.background import Background
from solvers.programs.integer_program import Model
from solvers.programs.optional import lacking
from solvers.programs.scaled_model import TOLERANCE
from solvers.search.monitor import Monitor

LOOK_EVERY_S = 0.02
"""How often the child is listened to, and the monitor asked whether to stop."""

CBC_NOTICE_S, CBC_NOTICE_SHARE = 1.0, 0.2
"""CBC answers only at its end, and ends late: it is ended so many seconds, or at least this share
of the time, before the time is up."""

Solver = Literal["highs", "cbc"]
SOLVERS: tuple[str, ...] = get_args(Solver)


def no_solver(solver: str) -> str | None:
    """Why an integer program cannot be solved with a solver of this name, or None."""
    if missing := lacking("pulp"):
        return missing
    return None if solver in SOLVERS else f"there is no solver {solver!r}; there are: {', '.join(SOLVERS)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a search ended, in the model's units.

    optimal: the best values reported are optimal, up to TOLERANCE. infeasible: no values exist.
    bound: no values have a smaller objective (already lowered by TOLERANCE); -inf if nothing is known.
    """

    optimal: bool
    infeasible: bool
    bound: float


def ignore_bound(_: float) -> None:
    return None


def solve_model(
    model: Model,
    monitor: Monitor,
    on_incumbent: Callable[[Sequence[float]], None],
    on_bound: Callable[[float], None] = ignore_bound,
    *,
    solver: Solver = "highs",
    limit_s: float = math.inf,
    nodes: int | None = None,
    better: Callable[[], Sequence[float] | None] = lambda: None,
) -> Outcome:
    """Minimise ``model``, giving every improving solution and every better bound as it is found.

    on_incumbent gets values of all variables (integers nearly so); on_bound a lower bound, lowered by
    TOLERANCE. Both may raise Stop. solver: "highs", or "cbc", which reports nothing before its end.
    limit_s: seconds after which the search ends as it is, as it also
    does once the monitor's bound settles the question. nodes: of the tree, after which HiGHS ends.
    better: asked often for values found
    elsewhere to hand to the solver (HiGHS only), or None.
    Raises Stop, through ``monitor.check``; the child is killed then. If the child fails, that is
    noted and nothing is concluded.
    """
    ends_s = monitor.elapsed_s + limit_s
    left_s = min(monitor.remaining_s, limit_s)
    ends_at = time.time() + min(left_s - CBC_NOTICE_S, left_s * (1 - CBC_NOTICE_SHARE))
    payload = {"model": model.to_message(), "solver": solver, "seed": monitor.seed, "nodes": nodes, "ends_at": ends_at}
    status, bound = "stopped", -math.inf
    with Background("mip", payload) as child:
        while not child.done:
            for message in child.poll():
                if "values" in message:
                    on_incumbent(message["values"])
                elif "bound" in message:
                    safe = message["bound"] - TOLERANCE * abs(message["bound"])
                    if safe > bound:
                        bound = safe
                        on_bound(bound)
                elif "note" in message:
                    monitor.note(message["note"])
                else:
                    status = message["status"]
            monitor.check()
            if monitor.elapsed_s > ends_s or monitor.is_proved():
                return Outcome(False, False, bound)
            if (values := better()) is not None:
                child.send({"solution": values})
            time.sleep(LOOK_EVERY_S)
        if child.error is not None:
            monitor.note(f"the integer program ended early: {child.error}")
            status = "stopped"
    return Outcome(status == "optimal", status == "infeasible", math.inf if status == "infeasible" else bound)
