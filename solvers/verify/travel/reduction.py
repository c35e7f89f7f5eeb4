"""The all-reduce of the gradients of a stage's replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.schedule import SPAN_KINDS
from solvers.problem.graph import Phase
from solvers.problem.problem import Precision, Problem, Transfers
from solvers.verify.arrays.ragged import ints
from solvers.verify.travel.gathers import gathers_in_turns
from solvers.verify.travel.wires import Wires
from solvers.verify.work.jobs import BACKWARDS, FORWARD, Jobs


def all_reduces(
    problem: Problem, jobs: Jobs, wires: Wires, rings: Sequence[tuple[int, ...]]
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Floats, Floats, Floats]:
    """The columns of `Expected`: round a ring of r replicas every link moves 2(r-1)/r of the bytes in 2(r-1) steps,
    whatever the transfer model. It goes before what else waits for a link, but for what the first turn of a
    device reads. rings: the devices of every stage, of which ``jobs`` have the first or all."""
    rows: list[tuple[int, int, int]] = []
    amounts: list[tuple[float, float]] = []
    if problem.training:
        for stage in np.flatnonzero(np.array([len(ring) for ring in rings]) > 1).tolist():
            mine = jobs.stage == stage
            if not np.isin(jobs.kind[mine], BACKWARDS).any():
                continue
            ring, here = rings[stage], int(jobs.replicas[mine].max())
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
    return which[:, 0], kind, zeros, which[:, 1], which[:, 2], resource, nbytes, taken, np.zeros(len(rows))


def _exchanged_bytes(problem: Problem, jobs: Jobs, stage: int) -> float:
    """B of which every replica sends all but its own share: gradients and their sums, or with ZeRO gradients and
    parameters, as often as each goes round in a mini-batch; parameters that turns wait for are told there."""
    operators = problem.graph.operators
    owns = (jobs.stage == stage) & (jobs.kind == FORWARD)
    mine = jobs.members[owns[jobs.member_of]].tolist()
    owners = [operators[o] for o in mine if operators[o].phase is Phase.FORWARD]
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
