"""What the replicas of a stage tell each other: gradients in an all-reduce and, with ZeRO-3, parameters in turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.schedule import SPAN_KINDS
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Precision, Problem, Transfers
from solvers.verify.arrays.ragged import ints
from solvers.verify.travel.wires import Wires
from solvers.verify.work.jobs import BACKWARD, BACKWARDS, FORWARD, INPUTS, WEIGHTS, Jobs


class Expected(NamedTuple):
    """Spans of transfers that must be there: columns, as in `SpanColumns`."""

    stage: Ints
    kind: Ints
    micro_batch: Ints
    device: Ints
    to_device: Ints
    resource: Ints
    """position in ``Moves.resources``"""
    nbytes: Floats
    seconds: Floats
    priority: Floats


def gathers_in_turns(problem: Problem) -> bool:
    """Whether parameters are gathered micro-batch by micro-batch, not counted in the exchange at the end: in pipelines,
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
    forward = problem.graph.operators[operator]
    return forward.param_bytes if forward.phase is Phase.FORWARD else 0.0


def all_reduces(problem: Problem, jobs: Jobs, wires: Wires, rings: Sequence[tuple[int, ...]]) -> Expected:
    """Round a ring of r replicas every link moves 2(r-1)/r of the bytes in 2(r-1) steps,
    whatever the transfer model. It goes before what else waits for a link, but for what the first turn of a
    device reads. rings: the devices of every stage, of which ``jobs`` have the first or all."""
    rows: list[tuple[int, int, int]] = []
    amounts: list[tuple[float, float]] = []
    if problem.training:
        for stage in np.flatnonzero(np.array([len(ring) for ring in rings]) > 1).tolist():
            of_stage = jobs.stage == stage
            if not np.isin(jobs.kind[of_stage], BACKWARDS).any():
                continue
            ring, here = rings[stage], int(jobs.replicas[of_stage].max())
            count = len(ring)
            exchanged = _exchanged_bytes(problem, jobs, stage)
            for src, dst in zip(ring[:here], (*ring[1:here], ring[here % count]), strict=True):
                link = problem.cluster.link(src, dst)
                if exchanged > 0:
                    steps = 2 * (count - 1)
                    moved = (count - 1) / count * exchanged
                    speed = (np.nan, np.nan) if link is None else (link.latency_s, link.bandwidth_bytes_per_s)
                    rows.append((stage, src, dst))
                    amounts.append((moved, steps * speed[0] + moved / speed[1]))
    which = np.array(rows, np.int64).reshape(-1, 3)
    nbytes, taken = np.array(amounts, np.float64).reshape(-1, 2).T
    kind = np.full(len(rows), SPAN_KINDS.index("S"), np.int64)
    zeros = np.zeros(len(rows), np.int64)
    resource = wires.of("out", which[:, 1], which[:, 2], Transfers.LINKS) if rows else ints(())
    return Expected(
        which[:, 0], kind, zeros, which[:, 1], which[:, 2], resource, nbytes, taken, np.zeros(len(rows))
    )  # fmt: skip


def _exchanged_bytes(problem: Problem, jobs: Jobs, stage: int) -> float:
    """B of which every replica sends all but its own share: gradients and their sums, or with ZeRO gradients and
    parameters, as often as each goes round in a mini-batch; parameters that turns wait for are counted there."""
    operators = problem.graph.operators
    owns = (jobs.stage == stage) & (jobs.kind == FORWARD)
    members = jobs.members[owns[jobs.member_of]].tolist()
    owners = [operators[o] for o in members if operators[o].phase is Phase.FORWARD]
    weights = math.fsum(owner.param_bytes for owner in owners)
    trained = weights - math.fsum(owner.frozen_bytes for owner in owners)
    gradients = 2 * trained if problem.precision is Precision.MIXED_FP32_GRADIENTS else trained
    mine_of = jobs.stage == stage
    rounds = int(jobs.slices[mine_of].max()) // int(jobs.replicas[mine_of].max())  # updates have one
    match problem.zero:
        case 0:
            return gradients + gradients
        case 1:
            return gradients + trained
        case 2:
            return rounds * gradients + trained
        case _ if gathers_in_turns(problem):
            return rounds * gradients
        case _:
            return rounds * (weights + weights + gradients)
