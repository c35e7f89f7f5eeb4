"""What must run: every job, once for each slice of the mini-batch, in the order that a plan states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.plan import ACTION_KINDS, Action, Plan
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.problem import Execution, Objective, Problem
from solvers.verify.arrays.ragged import flat, ints, ranges, starts, sums
from solvers.verify.work.recomputation import seconds_at

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

    def of_operators(self, count: int) -> list[tuple[int, ...]]:
        """The jobs that run each of ``count`` operators."""
        jobs_of: list[list[int]] = [[] for _ in range(count)]
        for job, operator in zip(self.member_of.tolist(), self.members.tolist(), strict=True):
            jobs_of[operator].append(job)
        return list(map(tuple, jobs_of))


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


@dataclass(frozen=True, eq=False)
class _Actions:
    """The actions of a plan that are to run, device by device in order: columns."""

    device: Ints
    stage: Ints
    kind: Ints
    micro_batch: Ints


@dataclass(frozen=True, eq=False)
class _Listed:
    """Jobs by stage and kind: columns as those of `Jobs`."""

    stage: Ints
    kind: Ints
    operator: Ints
    again: Bools
    member_of: Ints
    members: Ints


def jobs_of(problem: Problem, plan: Plan) -> tuple[Jobs | None, list[str]]:
    """The jobs of one unsplit pass (MAKESPAN, in which only actions of micro-batch 0 count) or of one iteration;
    none, and why, if the plan's order is not that of its stages' actions, each once."""
    single = problem.objective is Objective.MAKESPAN
    actions = _actions(plan, single)
    wrong = (actions.stage < 0) | (actions.stage >= len(plan.stages))
    if wrong.any():
        return None, [f"the order has an action of stage {actions.stage[wrong][0]}, which is not there"]
    listed, findings = _listed(problem, plan, actions, single)
    if findings:
        return None, findings
    return _jobs(problem, plan, actions, listed, single)


def _actions(plan: Plan, single: bool) -> _Actions:
    rows = [
        (device, action.stage, ACTION_KINDS.find(action.kind), action.micro_batch)
        for device, order in enumerate(plan.order)
        for action in order
        if not single or action.micro_batch == 0
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return _Actions(*columns)


def _listed(problem: Problem, plan: Plan, actions: _Actions, single: bool) -> tuple[_Listed, list[str]]:
    """Every stage's jobs; and which operators no job, or more than one of a stage, runs."""
    stages = len(plan.stages)
    has = np.zeros((stages, len(ACTION_KINDS)), bool)
    has[actions.stage, actions.kind] = True
    of, operators = flat([stage.operators for stage in plan.stages])
    phase = phases(problem.graph)[operators]
    runs = RUNS[:, phase] & has[of].T  # [kinds, members]
    times = runs.sum(axis=0)
    findings = [
        f"stage {of[at]}: {times[at]} actions in the order run operator"
        f" {problem.graph.operators[operators[at]].name!r}, expected one"
        for at in np.flatnonzero(times != 1)[:10]
    ]
    on_cpu = np.array([problem.cluster.devices[stage.devices[0]].is_cpu for stage in plan.stages])
    one_by_one = single & (on_cpu | (problem.execution is Execution.OPERATOR))
    stage, kind = np.nonzero(has)
    block = np.zeros((stages, len(ACTION_KINDS)), np.int64)
    block[stage, kind] = np.arange(len(stage))
    member_kind, member = np.nonzero(runs)
    at = block[of[member], member_kind]
    order = np.lexsort((member, at))
    at, members = at[order], operators[member[order]]
    sizes = np.bincount(at, minlength=len(stage))
    width = np.where(one_by_one[stage], sizes, 1)
    begin = starts(width)[:-1]
    alone = one_by_one[stage]
    forward = np.bincount(of[phase == PHASES.index(Phase.FORWARD)], minlength=stages) > 0
    recompute = np.array([s.recompute for s in plan.stages], bool) & forward
    first = (kind == BACKWARD) | (kind == INPUTS) | ((kind == WEIGHTS) & ~has[stage, INPUTS])
    again = np.zeros(int(width.sum()), bool)
    again[begin[(width > 0) & first & recompute[stage]]] = True
    operator = np.full(len(again), -1, np.int64)
    member_of = begin[at] + np.where(alone[at], ranges(sizes), 0)
    operator[member_of[alone[at]]] = members[alone[at]]
    return _Listed(np.repeat(stage, width), np.repeat(kind, width), operator, again, member_of, members), findings


def _jobs(
    problem: Problem, plan: Plan, actions: _Actions, listed: _Listed, single: bool
) -> tuple[Jobs | None, list[str]]:
    stage, kind = listed.stage, listed.kind
    sizes = ints(problem.mini_batch if single else s.micro_batch_size for s in plan.stages)[stage]
    sizes[kind == UPDATE] = problem.mini_batch  # parameters change once for all samples
    counts = ints(len(s.devices) for s in plan.stages)
    replicas = counts[stage]
    slices = problem.mini_batch // sizes * replicas
    first = starts(slices)
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    pairs = zip(stage.tolist(), sizes.tolist(), strict=True)
    place = ints(numbers.setdefault((plan.stages[s].devices, size), len(numbers)) for s, size in pairs)
    job, k = np.repeat(np.arange(len(stage)), slices), ranges(slices)
    of_stage, devices = flat([s.devices for s in plan.stages])
    replica = np.full((len(plan.stages), len(problem.cluster)), -1, np.int64)
    replica[of_stage, devices] = ranges(counts)
    turns, on, findings = _turns(actions, stage, kind, slices, replicas, first, replica[actions.stage, actions.device])
    if findings:
        return None, findings
    position, before = np.zeros(len(job), np.int64), np.full(len(job), -1, np.int64)
    position[turns] = ranges(np.bincount(on, minlength=len(problem.cluster)))
    before[turns[1:]] = np.where(on[1:] == on[:-1], turns[:-1], -1)
    calls = problem.execution is Execution.CALL and single
    several = [device.concurrency is None or (calls and device.is_cpu) for device in problem.cluster.devices]
    return (
        Jobs(
            stage=stage,
            kind=kind,
            operator=listed.operator,
            call=(listed.operator < 0) & single,
            slices=slices,
            replicas=replicas,
            samples=problem.mini_batch / slices,
            place=place,
            places=tuple(numbers),
            member_of=listed.member_of,
            members=listed.members,
            again=listed.again,
            first=first,
            job=job,
            device=devices[starts(counts)[stage[job]] + k % replicas[job]],
            micro_batch=k // replicas[job],
            position=position,
            before=before,
            several_at_once=np.array(several, bool),
        ),
        [],
    )


def _turns(
    actions: _Actions, stage: Ints, kind: Ints, slices: Ints, replicas: Ints, first: Ints, replica: Ints
) -> tuple[Ints, Ints, list[str]]:
    """The turns of all actions in order and their devices; and the actions that are too many or too few."""
    blocks = stage * len(ACTION_KINDS) + kind  # ascending: jobs are listed by stage and kind
    wanted = actions.stage * len(ACTION_KINDS) + actions.kind
    low, high = np.searchsorted(blocks, wanted), np.searchsorted(blocks, wanted, "right")
    runs = high > low  # an action may have nothing to do: then it has no turn
    there = low[runs]
    fits = np.zeros(len(wanted), bool)
    inside = actions.micro_batch[runs] < slices[there] // replicas[there]
    fits[runs] = inside
    wrong = (runs & ~fits) | (replica < 0) | (actions.micro_batch < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        text = Action(int(actions.stage[at]), ACTION_KINDS[actions.kind[at]], int(actions.micro_batch[at]))
        return low, low, [f"device {actions.device[at]}: action {text} does not belong there"]
    width = (high - low)[runs]
    base = first[there] + actions.micro_batch[runs] * replicas[there] + replica[runs]
    # of single operators, which have one micro-batch, each has as many turns as replicas
    turns = np.repeat(base, width) + np.repeat(replicas[there], width) * ranges(width)
    times = np.bincount(turns, minlength=int(first[-1]))
    if (times != 1).any():
        turn = int(np.argmax(times != 1))
        job = int(np.searchsorted(first, turn, "right")) - 1
        text = Action(int(stage[job]), ACTION_KINDS[kind[job]], (turn - int(first[job])) // int(replicas[job]))
        return turns, turns, [f"action {text} is in the order {times[turn]} times, expected once on every replica"]
    return turns, np.repeat(actions.device[runs], width), []
