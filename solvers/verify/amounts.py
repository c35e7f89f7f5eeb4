"""Bytes that jobs keep, work with and hand on, also while gradients of parameters wait for W."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.graph import BACKWARD_PHASES, Amount, OpGraph, Phase, per_graph
from solvers.problem.problem import Optimizer, Precision, Problem
from solvers.verify.arrays.ragged import flat, ints, sums
from solvers.verify.work import recomputation
from solvers.verify.work.jobs import FORWARD, INPUTS, WEIGHTS, Jobs
from solvers.verify.work.recomputation import Regions, regions_of


class Bytes(NamedTuple):
    """A column of amounts."""

    fixed: Floats
    per_sample: Floats

    def at(self, rows: Ints, samples: Floats) -> Floats:
        """B of ``rows`` for ``samples``."""
        amount: Floats = self.fixed[rows] + self.per_sample[rows] * samples
        return amount


class Sizes(NamedTuple):
    """The sizes of a graph as columns."""

    tensor: Bytes
    """[tensors]"""
    producer: Ints
    """[tensors]"""
    read: Ints
    """[readings] tensor ..."""
    reader: Ints
    """[readings] ... and operator"""
    counts: Bools
    """[tensors] False for all but the first of a sum that one operator makes: it is added to that"""
    updates: Bools
    """[operators]"""


MOMENTS = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 1, Optimizer.ADAM: 2, Optimizer.ADAMW: 2}
"""States of every entry of a parameter. Adafactor's are of rows and columns where there are any."""


def held_throughout(problem: Problem, replicas: int) -> Floats:
    """[operators] B on each of so many replicas: what a workload states, or parameters, and in training what is kept
    beside those not frozen; and buffers and gradients added up apart, of which every replica has its own. With ZeRO
    replicas keep a part of the states each, then of gradients, then of parameters.
    """
    if problem.stated_bytes is not None:
        return np.array(problem.stated_bytes, np.float64)
    weights = np.array([o.param_bytes for o in problem.graph.operators])
    buffers = np.array([o.buffer_bytes + o.gradient_sum_bytes for o in problem.graph.operators])
    if not problem.training:
        return np.asarray(weights + buffers)
    states_of, gradients_of, weights_of = (replicas if problem.zero > kind else 1 for kind in range(3))
    if problem.optimizer is Optimizer.NONE:
        return np.asarray(buffers + weights / weights_of)
    trained = weights - np.array([o.frozen_bytes for o in problem.graph.operators])
    if problem.optimizer is Optimizer.ADAFACTOR:
        states = trained - np.array([o.factorable_bytes for o in problem.graph.operators])
    else:
        states = MOMENTS[problem.optimizer] * trained
    if problem.state_links:  # in the host's memory, and so are masters
        states = 0.0 * states
    if problem.precision is Precision.PURE:
        return np.asarray(buffers + weights / weights_of + trained / gradients_of + states / states_of)
    master, fp32_states = (0.0 if problem.state_links else 2.0) * trained, 2 * states  # four bytes an entry for two
    gradients = 2 * trained if problem.precision is Precision.MIXED_FP32_GRADIENTS else trained
    return np.asarray(buffers + weights / weights_of + gradients / gradients_of + (master + fp32_states) / states_of)


def borrowed_bytes(problem: Problem, operators: Sequence[int], replicas: int) -> float:
    """B of parameters that a replica lacks of the largest of ``operators``, all of which it has while it uses them."""
    if problem.zero < 3 or not problem.training or problem.stated_bytes is not None:
        return 0.0
    largest = max((problem.graph.operators[o].param_bytes for o in operators), default=0.0)
    return largest - largest / replicas


def _columns(amounts: Sequence[Amount]) -> Bytes:
    return Bytes(np.array([a.fixed for a in amounts]), np.array([a.per_sample for a in amounts]))


@per_graph
def sizes(graph: OpGraph) -> Sizes:
    sums_seen: set[tuple[int, int]] = set()
    counts = []
    for tensor in graph.tensors:
        key = (tensor.producer, -1 if tensor.sum_group is None else tensor.sum_group)
        counts.append(tensor.sum_group is None or key not in sums_seen)
        sums_seen.add(key)
    read, reader = flat([tensor.consumers for tensor in graph.tensors])
    return Sizes(
        _columns([t.nbytes for t in graph.tensors]),
        ints(t.producer for t in graph.tensors),
        read,
        reader,
        np.array(counts, bool),
        np.array([o.phase is Phase.UPDATE for o in graph.operators], bool),
    )


def saved_bytes(problem: Problem, jobs: Jobs, only: Bools | None = None) -> Floats:
    """[jobs] B that a turn of a forward job keeps for the backward, where there is one. only: [members] those of which
    that is asked, all by default."""
    size, count = _columns(recomputation.saved(problem)), len(jobs.stage)
    counts = np.ones(len(jobs.members)) if only is None else only.astype(np.float64)
    saved = sums(jobs.member_of, size.fixed[jobs.members] * counts, count)
    saved += sums(jobs.member_of, size.per_sample[jobs.members] * counts, count) * jobs.samples
    return np.where((jobs.kind == FORWARD) & problem.has_backward(), saved, 0.0)


def workspace_bytes(problem: Problem, jobs: Jobs) -> Floats:
    """[jobs] B that a turn needs while it runs: in training those of its hungriest operator (what lives between
    operators is saved), in inference the tensors that its later operators read are there as well."""
    samples = jobs.samples[jobs.member_of]
    own = _columns(recomputation.workspace(problem)).at(jobs.members, samples)
    most = np.zeros(len(jobs.stage))
    if problem.has_backward():
        np.maximum.at(most, jobs.member_of, own)
        return most
    live, made = _living(problem, jobs)
    np.maximum.at(most, jobs.member_of, np.maximum(live, live + own - made))
    return most


def _living(problem: Problem, jobs: Jobs) -> tuple[Floats, Floats]:
    """[members] B of tensors made in the job that are there while a member runs; and of those that it makes."""
    size, members = sizes(problem.graph), len(jobs.members)
    live, made = np.zeros(members + 1), np.zeros(members)
    outputs, graph = problem.graph.outputs, problem.graph
    owners, operators = jobs.member_of.tolist(), jobs.members.tolist()
    place = {pair: at for at, pair in enumerate(zip(owners, operators, strict=True))}
    for at, (job, operator) in enumerate(zip(owners, operators, strict=True)):
        for tensor in outputs[operator]:
            last = max((place.get((job, reader), at) for reader in graph.tensors[tensor].consumers), default=at)
            nbytes = size.tensor.fixed[tensor] + size.tensor.per_sample[tensor] * jobs.samples[job]
            made[at] += nbytes
            live[at] += nbytes
            live[max(last, at) + 1] -= nbytes
    return np.cumsum(live[:-1]), made


def received_here_bytes(problem: Problem, plan: Plan, jobs: Jobs) -> Floats:
    """[jobs] B of what a forward job that runs again reads of other stages of its own devices; and of what a job with
    a part of a region reads there, or of its own stage, that no operator of the stage keeps."""
    graph, received = problem.graph, np.zeros(len(jobs.stage))
    regions = None if problem.plain is None else regions_of(problem.plain.graph)
    for index, stage in enumerate(plan.stages):
        if not stage.recompute and regions is None:
            continue
        members = set(stage.operators)
        here = {o for other in plan.stages if other.devices == stage.devices for o in other.operators}
        for job in np.flatnonzero((jobs.stage == index) & (jobs.kind == FORWARD)).tolist():
            read = [(o, t) for o in jobs.members[jobs.member_of == job].tolist() for t in graph.inputs[o]]
            read = [(o, t) for o, t in read if graph.tensors[t].producer in here]
            if stage.recompute or regions is None:
                chosen = {t for _, t in read if graph.tensors[t].producer not in members}
            else:
                chosen = {t for o, t in read if _lacks(graph, regions, members, o, t)}
            received[job] = sum(graph.tensors[t].nbytes.at(float(jobs.samples[job])) for t in chosen)
    return received


def _lacks(graph: OpGraph, regions: Regions, members: set[int], reader: int, tensor: int) -> bool:
    """Whether nobody of a stage has what one of its operators in a region needs of its own devices to run again."""
    producer = graph.tensors[tensor].producer
    saver = graph.tensors[tensor].saver
    keeper = regions.keeper.get(tensor, -1 if saver in regions.name else saver)
    if reader not in regions.name or keeper == producer:
        return False
    if regions.name.get(producer) == regions.name[reader]:
        return producer not in members
    return keeper not in members


def held_for_next_part(problem: Problem, plan: Plan, jobs: Jobs) -> tuple[Floats, Ints]:
    """[jobs] B that a turn holds from its start until the next part of its slice has ended: a forward, of what it
    saves, what no gradient that waits needs; an I, the gradients that are read where W runs. [turns] the turn of that
    part, -1 where there is none."""
    graph, saved = problem.graph, recomputation.saved(problem)
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
    leads: set[int] = set()
    for o in reversed(graph.topological_order):
        read = {c for t in graph.outputs[o] if graph.tensors[t].nbytes.at(1) > 0 for c in graph.tensors[t].consumers}
        outside = any(graph.operators[c].phase in BACKWARD_PHASES for c in read - own)
        if o in inputs and (outside or read & leads):
            leads.add(o)
    return leads


def _waiting(graph: OpGraph, forwards: set[int], backwards: set[int], late: set[int]) -> set[int]:
    """Of the forward operators those whose graph of the backward is there until W: some of their backward is in
    ``late``, or that of an operator that they lead to; or they join with one of which all is."""
    mirrors: dict[int | None, set[int]] = {}
    for o in backwards:
        mirrors.setdefault(graph.operators[o].forward_of, set()).add(o)
    whole = {o for o in forwards & mirrors.keys() if mirrors[o] <= late}
    held: set[int] = set()
    for o in reversed(graph.topological_order):
        late_mirrors = mirrors.get(o, set()) & late
        if o in forwards and (late_mirrors or held & {*graph.successors[o]} or whole & {*graph.predecessors[o]}):
            held.add(o)
    return held
