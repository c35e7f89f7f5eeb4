"""ZeRO-3: what turns wait for the parameters that replicas hold for each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem
from solvers.verify.work.jobs import BACKWARD, FORWARD, INPUTS, WEIGHTS, Jobs


def gathers_in_turns(problem: Problem) -> bool:
    """Whether parameters are gathered micro-batch by micro-batch, not told in the exchange at the end: in pipelines,
    not in an unsplit pass."""
    return problem.training and problem.zero == 3 and problem.objective is not Objective.MAKESPAN


def with_gathers(problem: Problem, jobs: Jobs, rings: Sequence[tuple[int, ...]], compute_s: Floats) -> Floats:
    """[turns] Seconds of turns that compute for ``compute_s``: gathering the parameters of the operator that is first
    in a forward, last in a backward, goes before; gathering the others goes beside, and takes (r-1)/r of their bytes
    on the slowest link of the ring. rings: the devices of every stage."""
    taken = compute_s.copy()
    if not gathers_in_turns(problem):
        return taken
    for stage, devices in enumerate(rings):
        if len(devices) == 1:
            continue
        of_stage = jobs.stage == stage
        kinds = set(jobs.kind[of_stage].tolist())
        begins = INPUTS if INPUTS in kinds else BACKWARD if BACKWARD in kinds else WEIGHTS
        forward = jobs.members[(of_stage & (jobs.kind == FORWARD))[jobs.member_of]].tolist()
        sizes = [size for operator in _in_turn(problem, forward) if (size := _parameters(problem, operator)) > 0]
        if not sizes:
            continue
        r = len(devices)
        links = [problem.cluster.link(devices[i - 1], devices[i]) for i in range(r)]
        slowest = min(np.nan if link is None else link.bandwidth_bytes_per_s for link in links)
        longest = max(np.nan if link is None else link.latency_s for link in links)
        for kind, before in ((FORWARD, sizes[0]), (begins, sizes[-1])):
            turns = of_stage[jobs.job] & (jobs.kind[jobs.job] == kind)
            head = (r - 1) * longest + before * (r - 1) / r / slowest
            beside = (sum(sizes) - before) * (r - 1) / r / slowest
            taken[turns] = head + np.maximum(taken[turns], beside)
    return taken


def _in_turn(problem: Problem, operators: list[int]) -> list[int]:
    chosen = set(operators)
    return [operator for operator in problem.graph.topological_order if operator in chosen]


def _parameters(problem: Problem, operator: int) -> float:
    found = problem.graph.operators[operator]
    return found.param_bytes if found.phase is Phase.FORWARD else 0.0
