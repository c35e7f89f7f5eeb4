"""What tasks hold while they run and leave behind: saved activations and workspace of units, in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from solvers.evaluation.columns import GraphColumns, graph_columns, plan_columns
from solvers.evaluation.holds_kernel import UnitBytes
from solvers.evaluation.parted_kernel import held_until_next
from solvers.evaluation.tasks import F, I, Units
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem
from solvers.problem.regions import readings, regions_of


def offloaded_bytes(problem: Problem, plan: Plan, units: Units) -> Floats:
    """[units] B that a forward saves of a micro-batch's share and its stage offloads."""
    columns, count = graph_columns(problem.graph), len(units.stage)
    share = units.samples / units.replicas[units.group]
    unit_of = np.repeat(np.arange(count), np.diff(units.member_start))
    amounts = columns.saved_bytes[units.member]
    held = (amounts[:, 0] + amounts[:, 1] * share[unit_of]) * _offloaded(plan, units, unit_of)
    return np.asarray(np.bincount(unit_of, held, minlength=count), np.float64)


def _offloaded(plan: Plan, units: Units, unit_of: Ints) -> Bools:
    """Of the members of units those that save for the host."""
    chosen = [set(stage.offload) for stage in plan.stages]
    of_stage = units.stage[unit_of]
    if not any(chosen):
        return np.zeros(len(unit_of), np.bool_)
    pairs = zip(of_stage.tolist(), units.member.tolist(), strict=True)
    sent: Bools = np.array([o in chosen[stage] for stage, o in pairs], np.bool_)
    sent &= units.kind[unit_of] == F
    return sent


def unit_bytes(problem: Problem, plan: Plan, units: Units) -> UnitBytes:
    """Bytes that a task of every unit holds, for its replica's share of a micro-batch; what goes to the host is none of
    them."""
    columns, count = graph_columns(problem.graph), len(units.stage)
    share = units.samples / units.replicas[units.group]
    unit_of = np.repeat(np.arange(count), np.diff(units.member_start))
    samples = share[unit_of]
    working = np.zeros(count)
    if problem.has_backward():
        amounts = columns.saved_bytes[units.member]
        forward = (units.kind[unit_of] == F) & ~_offloaded(plan, units, unit_of)
        held = (amounts[:, 0] + amounts[:, 1] * samples) * forward
        saved = np.asarray(np.bincount(unit_of, held, minlength=count), np.float64)
        amounts = columns.workspace_bytes[units.member]
        np.maximum.at(working, unit_of, amounts[:, 0] + amounts[:, 1] * samples)
    else:
        saved = np.zeros(count)
        working = _live_peaks(units.member_start, units.member, share, columns)
    rerun_inputs = np.zeros(count)
    for u in np.flatnonzero(units.kind == F):
        if plan.stages[units.stage[u]].recompute:
            members = units.member[units.member_start[u] : units.member_start[u + 1]]
            rerun_inputs[u] = _read_here(columns, plan, int(units.stage[u]), members, float(share[u]))
    if problem.plain is not None:
        rerun_inputs += _parts_of_regions_keep(problem, plan, units, share)
    until_next = _held_until_next(problem, plan, columns, units, share) if (units.kind == I).any() else np.zeros(count)
    return UnitBytes(np.where(units.kind == F, saved - until_next, saved), rerun_inputs, working, until_next)


def _held_until_next(problem: Problem, plan: Plan, columns: GraphColumns, units: Units, share: Floats) -> Floats:
    """See `parted_kernel.held_until_next`: a backward that runs its forward again is done at once, in I."""
    again = {} if problem.plain is None else regions_of(problem.plain.graph).of
    parted = [not stage.recompute and again.keys().isdisjoint(stage.operators) for stage in plan.stages]
    return held_until_next(columns, units, share, np.array(parted, np.bool_))


def _parts_of_regions_keep(problem: Problem, plan: Plan, units: Units, share: Floats) -> Floats:
    """[units] B that a forward task keeps until the backward of the same micro-batch, as part of a region runs again
    from it: what was made on its stage's devices, by no operator that runs again there, and is among what no operator
    of the stage saves. What comes from other devices is there as it was received. share: samples of a task, [units].
    """
    retained = np.zeros(len(units.stage))
    assert problem.plain is not None  # whoever calls has looked
    tensor, producer, reader, counted = _reading_columns(problem.plain.graph)
    if not len(tensor):
        return retained
    columns = plan_columns(plan)
    stage_of = np.full(len(problem.graph) + 1, -1, np.int64)  # the last is that of no operator
    stage_of[columns.operator] = columns.stage
    group_of_stage = np.zeros(len(plan.stages), np.int64)
    group_of_stage[units.stage] = units.group
    made_on = np.zeros((len(units.group_start) - 1, len(problem.graph)), np.bool_)
    made_on[group_of_stage[columns.stage], columns.operator] = True
    stage = stage_of[reader]
    again = np.array([s.recompute for s in plan.stages], np.bool_)
    wanted = made_on[group_of_stage[stage], producer] & ~again[stage] & (stage_of[counted] != stage)
    wanted &= (counted >= 0) | (stage_of[producer] != stage)
    unit = units.home[units.home_start[reader[wanted]]]
    pairs = np.unique(np.stack([unit, tensor[wanted]]), axis=1)
    amounts = graph_columns(problem.graph).tensor_bytes[pairs[1]]
    np.add.at(retained, pairs[0], amounts[:, 0] + amounts[:, 1] * share[pairs[0]])
    return retained


@per_graph
def _reading_columns(graph: OpGraph) -> tuple[Ints, Ints, Ints, Ints]:
    """tensor, producer, reader and the operator whose saved bytes the tensor is among, [readings]."""
    rows = [(r.tensor, r.producer, r.reader, r.counted) for r in readings(graph)]
    tensor, producer, reader, counted = np.array(rows, np.int64).reshape(-1, 4).T
    return tensor, producer, reader, counted


@until_worth_it
@njit(cache=True)
def _live_peaks(member_start: Ints, member: Ints, samples: Floats, graph: GraphColumns) -> Floats:
    """Most bytes that each set of operators holds at once while they run one after the other in inference: the
    tensors that later ones of the set still read, and workspace (which counts what its operator makes).

    member_start, member: the sets. samples: of each, [sets].
    """
    output_start, output, input_start, inputs = graph.output_start, graph.output, graph.input_start, graph.input
    consumer_start, consumer = graph.consumer_start, graph.consumer
    tensor_bytes, workspace_bytes = graph.tensor_bytes, graph.workspace_bytes
    sets = len(samples)
    peaks = np.zeros(sets)
    set_of, made_in = np.full(len(output_start), -1, np.int64), np.full(len(tensor_bytes), -1, np.int64)
    left = np.zeros(len(tensor_bytes), np.int64)  # readers of the same set that have yet to run
    for u in range(sets):
        members = member[member_start[u] : member_start[u + 1]]
        for o in members:
            set_of[o] = u
        live = 0.0
        for o in members:
            made = 0.0
            for e in range(output_start[o], output_start[o + 1]):
                t = output[e]
                made += tensor_bytes[t, 0] + tensor_bytes[t, 1] * samples[u]
                made_in[t], left[t] = u, 0
                for f in range(consumer_start[t], consumer_start[t + 1]):
                    left[t] += set_of[consumer[f]] == u
            live += made
            workspace = workspace_bytes[o, 0] + workspace_bytes[o, 1] * samples[u]
            peaks[u] = max(peaks[u], live, live + workspace - made)
            for e in range(input_start[o], input_start[o + 1]):
                t = inputs[e]
                if made_in[t] == u and left[t] > 0:
                    left[t] -= 1
                    if left[t] == 0:
                        live -= tensor_bytes[t, 0] + tensor_bytes[t, 1] * samples[u]
            for e in range(output_start[o], output_start[o + 1]):
                t = output[e]
                if left[t] == 0:
                    live -= tensor_bytes[t, 0] + tensor_bytes[t, 1] * samples[u]
    return peaks


def saved_bytes(problem: Problem, operators: Iterable[int], samples: float) -> float:
    """Activations that ``operators`` keep for their backward, in bytes."""
    return sum(problem.graph.operators[o].saved_bytes.at(samples) for o in operators)


def workspace_bytes(problem: Problem, operators: Sequence[int], samples: float) -> float:
    """Largest temporary memory while ``operators`` run one after the other, in bytes.

    In training the live activations are among the saved ones; in inference the tensors that later
    operators of the set still read are counted.
    """
    graph = problem.graph
    if problem.has_backward():
        return max((graph.operators[o].workspace_bytes.at(samples) for o in operators), default=0.0)
    start, member = np.array([0, len(operators)], np.int64), np.array(operators, np.int64)
    return float(_live_peaks(start, member, np.array([samples], np.float64), graph_columns(graph))[0])


def _read_here(columns: GraphColumns, plan: Plan, stage: int, members: Ints, samples: float) -> float:
    """Bytes of forward tensors that a stage reads of other stages on its own devices."""
    own, devices = set(plan.stages[stage].operators), plan.stages[stage].devices
    here = {o for other in plan.stages if other.devices == devices for o in other.operators} - own
    if not here:
        return 0.0
    maker = np.empty(len(columns.tensor_bytes), np.int64)
    maker[columns.output] = np.repeat(np.arange(len(columns.phase)), np.diff(columns.output_start))
    read = {
        t
        for o in members.tolist()
        for t in columns.input[columns.input_start[o] : columns.input_start[o + 1]].tolist()
        if int(maker[t]) in here
    }
    amounts = columns.tensor_bytes[sorted(read)]
    return float((amounts[:, 0] + amounts[:, 1] * samples).sum())
