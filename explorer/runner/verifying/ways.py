"""Whether a run is compared with the model in one piece, or in the plan's segments where it has no room for that."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from explorer.runner.bundles.outcome import Way
from explorer.runner.engine.machine import Machine
from explorer.runner.measuring.free_memory import free_bytes
from explorer.runner.model.program import Program
from explorer.runner.scripts.executable import optimizer_of
from explorer.runner.scripts.script import Script
from explorer.runner.verifying.in_turn import Part
from solvers.problem.problem import Optimizer, Problem
from solvers.problem.training import STATES


def way_of(asked: Way | None, machine: Machine, problem: Problem, optimizer: str | None) -> Way:
    """The one asked for, or in one piece if rank 0 has room for it: the stronger one, since there the model is not cut.
    Every rank calls it and gets the same."""
    if asked is not None:
        return asked
    share = min(segment.share for segment in machine.script.segments)
    needs = whole_bytes(machine.program, problem, share, optimizer)
    cap = problem.cluster.devices[machine.script.devices[0]].memory_bytes
    fits = torch.tensor([needs <= min(cap, free_bytes(machine.device))], dtype=torch.int64, device=machine.device)
    dist.broadcast(fits, 0)
    return Way.WHOLE if fits.item() else Way.STAGES


def whole_bytes(program: Program, problem: Problem, share: int, optimizer: str | None) -> float:
    """What the model in one piece holds on a rank: parameters, and in training a gradient, a copy of the first one and
    the optimizer's states, with what the forward of ``share`` samples saves."""
    captured, _ = program.sized[share]
    parameters = sum(captured.values[value].nbytes for value in captured.parameters)
    if not problem.training:
        return float(parameters)
    states = STATES[Optimizer(optimizer_of(problem, optimizer))]
    saved = sum(operator.saved_bytes.at(share) for operator in problem.graph.operators)
    return float(parameters) * (3 + states) + saved


def parts_of(way: Way, script: Script, program: Program) -> Sequence[Part]:
    """In one piece on rank 0; or each segment on the first of the ranks that have it."""
    if way is Way.WHOLE:
        return [Part(tuple(range(len(program.folded.groups))), 0)]
    return [Part(at.operators, script.devices.index(at.devices[0])) for at in script.segments]
