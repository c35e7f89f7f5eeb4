"""What a stage holds while gradients of its parameters wait for W, counted anew."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.graph import BACKWARD_PHASES, OpGraph
from solvers.problem.problem import Problem
from solvers.verify.work import again
from solvers.verify.work.again import regions_of
from solvers.verify.work.jobs import FORWARD, INPUTS, WEIGHTS, Jobs


def held_for_next_part(problem: Problem, plan: Plan, jobs: Jobs) -> tuple[Floats, Ints]:
    """[jobs] B that a turn holds from its start until the next part of its slice has ended: a forward, of what it
    saves, what no gradient that waits needs; an I, the gradients that are read where W runs. [turns] the turn of that
    part, -1 where there is none."""
    graph, saved = problem.graph, again.saved(problem)
    inside = set() if problem.plain is None else set(regions_of(problem.plain.graph).name)
    held, following = np.zeros(len(jobs.stage)), np.full(len(jobs.job), -1)
    for number, stage in enumerate(plan.stages):
        parts = [np.flatnonzero((jobs.stage == number) & (jobs.kind == k)) for k in (FORWARD, INPUTS, WEIGHTS)]
        if any(len(rows) != 1 for rows in parts) or (jobs.operator[np.concatenate(parts)] >= 0).any():
            continue
        if stage.recompute or inside & set(stage.operators):  # its backward is done at once
            continue
        one, two, three = (int(rows[0]) for rows in parts)
        forwards, inputs, weights = (set(jobs.members[jobs.member_of == j].tolist()) for j in (one, two, three))
        leads = _leading_away(graph, inputs, forwards | inputs | weights)
        late = weights | (inputs - leads)
        waits = _waiting(graph, forwards, inputs | weights, late)
        share = float(jobs.samples[one])
        held[one] = sum(saved[o].at(share) for o in forwards - waits)
        left = {
            (t if graph.tensors[t].sum_group is None else -1, graph.tensors[t].sum_group): graph.tensors[t].nbytes
            for o in leads for t in graph.outputs[o] if late.intersection(graph.tensors[t].consumers)
        }  # fmt: skip
        held[two] = sum(amount.at(share) for amount in left.values())
        for job, then in ((one, two), (two, three)):
            following[jobs.first[job] : jobs.first[job + 1]] = np.arange(jobs.first[then], jobs.first[then + 1])
    return held, following


def _leading_away(graph: OpGraph, inputs: set[int], own: set[int]) -> set[int]:
    """Of the operators of I those whose gradients become, in the end, what another stage reads."""
    found: set[int] = set()
    for o in reversed(graph.topological_order):
        read = {c for t in graph.outputs[o] if graph.tensors[t].nbytes.at(1) > 0 for c in graph.tensors[t].consumers}
        outside = any(graph.operators[c].phase in BACKWARD_PHASES for c in read - own)
        if o in inputs and (outside or read & found):
            found.add(o)
    return found


def _waiting(graph: OpGraph, forwards: set[int], backwards: set[int], late: set[int]) -> set[int]:
    """Of the forward operators those whose graph of the backward is there until W: some of their backward is in
    ``late``, or that of an operator that they lead to; or they join with one of which all is."""
    mirrors: dict[int | None, set[int]] = {}
    for o in backwards:
        mirrors.setdefault(graph.operators[o].forward_of, set()).add(o)
    whole = {o for o in forwards & mirrors.keys() if mirrors[o] <= late}
    found: set[int] = set()
    for o in reversed(graph.topological_order):
        mine = mirrors.get(o, set()) & late
        if o in forwards and (mine or found & {*graph.successors[o]} or whole & {*graph.predecessors[o]}):
            found.add(o)
    return found
