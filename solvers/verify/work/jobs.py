"""What must run: every job, once for each slice of the mini-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.plan import ACTION_KINDS
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.problem import Problem
from solvers.verify.arrays.ragged import ints, sums
from solvers.verify.work.again import seconds_at

FORWARD, BACKWARD, INPUTS, WEIGHTS, UPDATE = range(len(ACTION_KINDS))
BACKWARDS = (BACKWARD, INPUTS, WEIGHTS)
PHASES = list(Phase)
_RUN_BY = {
    Phase.FORWARD: (FORWARD,),
    Phase.BACKWARD_INPUT: (BACKWARD, INPUTS),
    Phase.BACKWARD_WEIGHT: (BACKWARD, WEIGHTS),
    Phase.UPDATE: (UPDATE,),
}
RUNS = np.array([[kind in _RUN_BY[phase] for phase in PHASES] for kind in range(len(ACTION_KINDS))])
"""Whether an action of a kind runs the operators of a phase, [kinds, phases]."""


@dataclass(frozen=True, eq=False)
class Jobs:
    """What runs as one, and its turns: the runs of a job, one for each slice of the mini-batch.

    A job is what an action of a stage runs or, where a single pass goes operator by operator, one operator.
    Turn ``first[job] + k`` is that of slice k, see `sharing`. A place is a list of devices and how they cut
    the mini-batch; jobs of one place take the same slices on the same devices.
    """

    stage: Ints
    """[jobs]"""
    kind: Ints
    """[jobs] position in ACTION_KINDS"""
    operator: Ints
    """[jobs] position of the operator where each runs by itself, else -1"""
    call: Bools
    """[jobs] CALL execution: transfers in and out may be part of it"""
    slices: Ints
    """[jobs] how many turns it has"""
    replicas: Ints
    """[jobs]"""
    samples: Floats
    """[jobs] of a slice"""
    place: Ints
    """[jobs] position in ``places``"""
    places: tuple[tuple[tuple[int, ...], int], ...]
    """(devices, samples of a micro-batch)"""
    member_of: Ints
    """[members] job ..."""
    members: Ints
    """[members] ... and an operator that it runs, in order"""
    again: Bools
    """[jobs] whether it first runs the forward of its stage a second time"""
    first: Ints
    """[jobs + 1]"""
    job: Ints
    """[turns]"""
    device: Ints
    """[turns]"""
    micro_batch: Ints
    """[turns]"""
    position: Ints
    """[turns] in the order of its device"""
    before: Ints
    """[turns] the turn before it in that order, -1 for the first"""
    several_at_once: Bools
    """[devices] whether a device runs any number of turns at a time"""

    def of_operators(self, count: int) -> list[list[int]]:
        """The jobs that run each of ``count`` operators."""
        found: list[list[int]] = [[] for _ in range(count)]
        for job, operator in zip(self.member_of.tolist(), self.members.tolist(), strict=True):
            found[operator].append(job)
        return found


@per_graph
def phases(graph: OpGraph) -> Ints:
    """Position in Phase of every operator."""
    numbers = {phase: number for number, phase in enumerate(PHASES)}
    return ints(numbers[operator.phase] for operator in graph.operators)


def compute_s(problem: Problem, jobs: Jobs) -> Floats:
    """Seconds of computing of every turn, [turns]."""
    kinds = sorted({device.kind for device in problem.cluster.devices})
    kind = ints(kinds.index(device.kind) for device in problem.cluster.devices)[jobs.device]
    owner, operators = _run(problem, jobs)
    seconds = np.zeros(len(jobs.job))
    samples, seconds_of = jobs.samples[jobs.job], seconds_at(problem)
    for number, name in enumerate(kinds):
        for share in np.unique(samples[kind == number]).tolist():
            rows = (kind == number) & (samples == share)
            seconds[rows] = sums(owner, seconds_of(name, share)[operators], len(jobs.stage))[jobs.job[rows]]
    return seconds


def _run(problem: Problem, jobs: Jobs) -> tuple[Ints, Ints]:
    """(job, operator that it runs), what it runs again included."""
    if not jobs.again.any():
        return jobs.member_of, jobs.members
    forward = phases(problem.graph)[jobs.members] == PHASES.index(Phase.FORWARD)
    stage_of = jobs.stage[jobs.member_of]
    owner, operators = [jobs.member_of], [jobs.members]
    for job in np.flatnonzero(jobs.again):
        repeated = jobs.members[forward & (stage_of == jobs.stage[job])]
        owner.append(np.full(len(repeated), job))
        operators.append(repeated)
    return np.concatenate(owner), np.concatenate(operators)
