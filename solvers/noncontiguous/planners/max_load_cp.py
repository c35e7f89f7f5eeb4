"""Least max-load without contiguity by constraint programming: for graphs that are nearly bin packing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.noncontiguous.max_load_program import renamed
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.set_search import Ground, grounds
from solvers.noncontiguous.planners.set_search import unsupported as no_sets
from solvers.noncontiguous.set_moves_kernel import LANE
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem, Transfers
from solvers.programs.cp_search import cp_search
from solvers.programs.optional import lacking
from solvers.programs.scaled_model import classes_of
from solvers.search.monitor import Monitor

START_ROUNDS = 3
"""Rounds without gain after which the annealing for a start ends."""
PROVED = 1e-6
"""Relative difference between objective and bound that rounding to integers explains."""


@dataclass(frozen=True)
class MaxLoadCP:
    """CP-SAT on co-location groups and merged messages, from the best plan known or a short annealing.

    Stronger than the integer program where messages are cheap beside compute. "Optimal" is up to
    1e-6, as times are rounded to integers. Where memory is counted from the schedule, the program
    knows only the static bytes; its answer is optimal if it fits. Nothing is claimed where the problem
    allows replication. workers: threads of the solver; work: most of its deterministic time (about seconds): with it
    and one worker, and without a time limit, the plan hangs on the seed alone.
    """

    name: ClassVar[str] = "max-load-cp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 5.2, as a constraint program"
    guarantee: ClassVar[str] = "exact"

    workers: int = 2
    work: float | None = None

    def unsupported(self, problem: Problem) -> str | None:
        if missing := lacking("ortools"):
            return missing
        if problem.objective is not Objective.MAX_LOAD:
            return f"it minimises max-load, and the objective is {problem.objective}; use auto"
        if problem.contiguity is not Contiguity.NONE:
            return f"its placements are not contiguous, and {problem.contiguity} is asked for; use auto"
        if problem.transfers is Transfers.DUPLEX:
            return "a net that is cut costs the same either way here, and transfers are duplex; use max-load-ip"
        if problem.pipeline is Pipeline.GPIPE:
            return "the load of each pass counts in GPipe; use max-load-ip or non-contiguous"
        if not problem.transfers_alike:
            return "links must all be equally fast, found several speeds; use annealing"
        if len(micro_batch_choices(problem)) > 1:
            return "the number of micro-batches must be given; use max-load-ip or non-contiguous"
        return no_sets(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if monitor.best is None:
            Annealing(patience=START_ROUNDS)(problem, monitor)
        (ground,) = grounds(problem, monitor)
        if not ground.sets.split:
            monitor.note("some messages have several makers, which max-load-cp does not know; use max-load-ip")
            return False
        if ground.where_of(monitor.best) is None or monitor.objective_s <= 0:
            return monitor.objective_s <= 0
        claims, most_s = problem.max_replicas == 1, monitor.objective_s

        def proved() -> bool:
            return claims and monitor.bound_s >= monitor.objective_s * (1 - PROVED)

        def offer(message: dict[str, Any]) -> None:
            ground.offer(np.array(message["where"], np.int64))

        payload = payload_of(problem, monitor, ground, self.workers, self.work)
        cp_search("max-load", payload, monitor, offer, most_s=most_s, claims=claims, settled=proved)
        return proved()


def payload_of(problem: Problem, monitor: Monitor, ground: Ground, workers: int, work: float | None) -> dict[str, Any]:
    """What `max_load_program.run` takes, from the best plan known, which must be of the ground."""
    sets, cluster = ground.sets, problem.cluster
    where = ground.where_of(monitor.best)
    assert where is not None
    compute = zip(sets.seconds.sum(axis=0).T.tolist(), sets.allowed.tolist(), strict=True)
    seconds = [[s if here else None for s, here in zip(*row, strict=True)] for row in compute]
    able = [sets.allowed[:, d].tobytes() for d in range(len(cluster))]
    alike = classes_of({d: (each.is_cpu, each.memory_bytes, able[d]) for d, each in enumerate(cluster.devices)})
    caps = [d.memory_bytes for d in cluster.devices]
    return {
        "seconds": seconds,
        "is_cpu": [d.is_cpu for d in cluster.devices],
        "nets": [
            (sets.on[sets.on_start[m] : sets.on_start[m + 1]], s)
            for m, s in enumerate(sets.message_s.tolist())
            if s > 0
        ],
        "lane": sets.model == LANE,
        "held": ground.contracted.static_bytes,
        "cap": [cap if math.isfinite(cap) else None for cap in caps],
        "alike": alike,
        "start": renamed(where.tolist(), alike, seconds),
        "least_s": monitor.bound_s if problem.max_replicas == 1 else 0.0,
        "most_s": monitor.objective_s,
        "workers": workers,
        "work": work,
        "seed": monitor.rng.randrange(2**31),
    }
