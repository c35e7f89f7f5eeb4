"""A CP-SAT solver whose proofs can be trusted; only for a process of its own, as it imports ortools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


def cp_solver(workers: int, seed: int) -> Any:
    """A ``CpSolver`` with that many threads and seed.

    In 9.15 the presolve of at-most-ones that share literals with sums may cut the optimum off
    (https://github.com/google/or-tools/issues/5293); at a limit of 0 it is left out.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver


def minimise(
    solver: Any,
    model: Any,
    send: Callable[[Message], None],
    solution: Callable[[Any], Message | None],
    bound: Callable[[float], float],
) -> str:
    """Search, and send each solution and each bound on the objective as it is found.

    solution: the message for one, from the solver's callback, or None to send nothing. bound: from the solver's units
    to those of the message. Returns "optimal", "infeasible" or "stopped".
    """
    from ortools.sat.python import cp_model

    class Solutions(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            message = solution(self)
            if message is not None:
                send(message)

    def on_bound(value: float) -> None:
        send({"bound": bound(value)})

    solver.best_bound_callback = on_bound
    status = solver.solve(model, Solutions())
    if status == cp_model.OPTIMAL:
        on_bound(solver.best_objective_bound)
    return {cp_model.OPTIMAL: "optimal", cp_model.INFEASIBLE: "infeasible"}.get(status, "stopped")
