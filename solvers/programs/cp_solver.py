"""A CP-SAT solver whose proofs can be trusted."""

from __future__ import annotations

from typing import Any


def cp_solver(workers: int, seed: int) -> Any:
    """A ``CpSolver`` with that many threads and seed; imports ortools, so only for a process of its own.

    In 9.15 the presolve of at-most-ones that share literals with sums may cut the optimum off
    (https://github.com/google/or-tools/issues/5293); at a limit of 0 it is left out.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver
