"""What must go to hosts and come back, of stages that offload what they save, by the turns of their devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Problem
from solvers.verify.amounts import saved_bytes
from solvers.verify.arrays.ragged import ints
from solvers.verify.work.jobs import BACKWARD, FORWARD, Jobs


class Copies(NamedTuple):
    """What is copied to hosts and back: columns."""

    saves: Ints
    """[copies] the turn of the forward"""
    needs: Ints
    """[copies] the turn of its backward"""
    lets: Ints
    """[copies] the last turn but one before that, whose end lets the copy back begin"""
    seconds: Floats
    """[copies] each way"""
    nbytes: Floats
    """[copies]"""


def copies_of(problem: Problem, plan: Plan, jobs: Jobs) -> Copies:
    """The copies of an iteration: of every slice whose backward comes at least three turns after its forward."""
    rows: list[tuple[int, int, int]] = []
    sent = {(number, operator) for number, stage in enumerate(plan.stages) for operator in stage.offload}
    pairs = zip(jobs.stage[jobs.member_of].tolist(), jobs.members.tolist(), strict=True)
    held = saved_bytes(problem, jobs, np.array([pair in sent for pair in pairs], bool))
    for number, stage in enumerate(plan.stages):
        if not stage.offload or problem.objective is Objective.MAKESPAN:
            continue
        of_stage = [
            np.flatnonzero((jobs.stage == number) & (jobs.kind == kind)).tolist() for kind in (FORWARD, BACKWARD)
        ]
        for saving, needing in zip(*of_stage, strict=True):
            for slice_ in range(int(jobs.slices[saving]) if held[saving] > 0 else 0):
                first, then = int(jobs.first[saving]) + slice_, int(jobs.first[needing]) + slice_
                between = [then]
                while between[-1] != first:
                    between.append(int(jobs.before[between[-1]]))
                if len(between) >= 4:
                    rows.append((first, then, between[2]))
    saves, needs, lets = (ints(column) for column in zip(*rows, strict=True)) if rows else (ints(()),) * 3
    speed = [problem.host_links.get(device.kind, np.nan) for device in problem.cluster.devices]
    nbytes = held[jobs.job[saves]]
    return Copies(saves, needs, lets, nbytes / np.array(speed)[jobs.device[saves]], nbytes)
