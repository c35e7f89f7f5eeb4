"""What must run: every job, once for each slice of the mini-batch, in the order that the plan states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.graph import OpGraph, Phase, per_graph
from solvers.plan import ACTION_KINDS, Action, Plan
from solvers.problem import Execution, Objective, Problem
from solvers.verify.ragged import Flags, Floats, Ints, flat, ints, ranges, starts, sums

FORWARD, BACKWARD, INPUTS, WEIGHTS, UPDATE = range(len(ACTION_KINDS))
BACKWARDS = (BACKWARD, INPUTS, WEIGHTS)
RUN_BY = {
    Phase.FORWARD: (FORWARD,),
    Phase.BACKWARD_INPUT: (BACKWARD, INPUTS),
    Phase.BACKWARD_WEIGHT: (BACKWARD, WEIGHTS),
    Phase.UPDATE: (UPDATE,),
}
"""The kinds of actions that run the operators of a phase."""
_PHASES = list(Phase)
_RUNS = np.array([[kind in RUN_BY[phase] for phase in _PHASES] for kind in range(5)])
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
    call: Flags
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
    again: Flags
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
    several_at_once: Flags
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
    numbers = {phase: number for number, phase in enumerate(_PHASES)}
    return ints(numbers[operator.phase] for operator in graph.operators)


@dataclass(frozen=True, eq=False)
class _Actions:
    """The actions of a plan that are to run, device by device in order: columns."""

    device: Ints
    stage: Ints
    kind: Ints
    micro_batch: Ints


@dataclass(slots=True)
class _Drafts:
    """Jobs while they are listed."""

    stage: list[int]
    kind: list[int]
    operators: list[list[int]]
    single: list[bool]
    again: list[bool]


def jobs_of(problem: Problem, plan: Plan) -> tuple[Jobs | None, list[str]]:
    """The jobs of one unsplit pass (MAKESPAN, in which only actions of micro-batch 0 count) or of one iteration;
    none, and why, if the plan's order is not that of its stages' actions, each once."""
    single = problem.objective is Objective.MAKESPAN
    actions = _actions(plan, single)
    wrong = (actions.stage < 0) | (actions.stage >= len(plan.stages))
    if wrong.any():
        return None, [f"the order has an action of stage {actions.stage[wrong][0]}, which is not there"]
    drafts, found = _drafts(problem, plan, actions, single)
    if found:
        return None, found
    return _jobs(problem, plan, actions, drafts, single)


def _actions(plan: Plan, single: bool) -> _Actions:
    rows = [
        (device, action.stage, ACTION_KINDS.find(action.kind), action.micro_batch)
        for device, order in enumerate(plan.order)
        for action in order
        if not single or action.micro_batch == 0
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return _Actions(*columns)


def _drafts(problem: Problem, plan: Plan, actions: _Actions, single: bool) -> tuple[_Drafts, list[str]]:
    """Every stage's jobs, by kind; and which operators no job, or more than one of a stage, runs."""
    graph, drafts, found = problem.graph, _Drafts([], [], [], [], []), []
    has = np.zeros((len(plan.stages), len(ACTION_KINDS)), bool)
    has[actions.stage, actions.kind] = True
    phase_of = phases(graph)
    for index, stage in enumerate(plan.stages):
        operators = ints(stage.operators)
        phase = phase_of[operators]
        times = (_RUNS & has[index][:, None]).sum(axis=0)[phase]
        for operator, count in zip(operators[times != 1], times[times != 1], strict=True):
            what = "no action" if count == 0 else f"{count} actions"
            found.append(f"stage {index}: {what} in the order run operator {graph.operators[operator].name!r}")
        on_cpu = problem.cluster.devices[stage.devices[0]].is_cpu
        one_by_one = single and (on_cpu or problem.execution is Execution.OPERATOR)
        forward = bool((phase == _PHASES.index(Phase.FORWARD)).any())
        first_backward = (BACKWARD, INPUTS) if has[index, INPUTS] else (BACKWARD, WEIGHTS)
        for kind in np.flatnonzero(has[index]).tolist():
            mine = operators[_RUNS[kind][phase]].tolist()
            again = stage.recompute and forward and kind in first_backward
            for number, members in enumerate([o] for o in mine) if one_by_one else ((0, mine),):
                drafts.stage.append(index)
                drafts.kind.append(kind)
                drafts.operators.append(members)
                drafts.single.append(one_by_one)
                drafts.again.append(again and number == 0)
    return drafts, found


def _jobs(
    problem: Problem, plan: Plan, actions: _Actions, drafts: _Drafts, single: bool
) -> tuple[Jobs | None, list[str]]:
    stage, kind = ints(drafts.stage), ints(drafts.kind)
    sizes = ints(problem.mini_batch if single else s.micro_batch_size for s in plan.stages)[stage]
    sizes[kind == UPDATE] = problem.mini_batch  # parameters change once for all samples
    replicas = ints(len(s.devices) for s in plan.stages)[stage]
    slices = problem.mini_batch // sizes * replicas
    first = starts(slices)
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    pairs = zip(drafts.stage, sizes.tolist(), strict=True)
    place = ints(numbers.setdefault((plan.stages[s].devices, size), len(numbers)) for s, size in pairs)
    job = np.repeat(np.arange(len(stage)), slices)
    k = ranges(slices)
    of_stage, devices = flat([s.devices for s in plan.stages])
    where = np.full((len(plan.stages), len(problem.cluster)), -1, np.int64)  # which replica a device is
    where[of_stage, devices] = ranges(ints(len(s.devices) for s in plan.stages))
    begins = starts(ints(len(s.devices) for s in plan.stages))
    turns, on, found = _turns(actions, stage, kind, slices, replicas, first, where)
    if found:
        return None, found
    position, before = np.zeros(len(job), np.int64), np.full(len(job), -1, np.int64)
    position[turns] = ranges(np.bincount(on, minlength=len(problem.cluster)))
    before[turns[1:]] = np.where(on[1:] == on[:-1], turns[:-1], -1)
    member_of, members = flat(drafts.operators)
    alone = np.array(drafts.single, bool)
    calls = problem.execution is Execution.CALL and single
    cluster = problem.cluster.devices
    return (
        Jobs(
            stage, kind, np.array([o[0] if s else -1 for o, s in zip(drafts.operators, drafts.single, strict=True)]),
            ~alone & single, slices, replicas, problem.mini_batch / slices, place, tuple(numbers), member_of, members,
            np.array(drafts.again, bool), first, job, devices[begins[stage[job]] + k % replicas[job]],
            k // replicas[job], position, before,
            np.array([device.concurrency is None or (calls and device.is_cpu) for device in cluster], bool),
        ),
        [],
    )  # fmt: skip


def _turns(
    actions: _Actions, stage: Ints, kind: Ints, slices: Ints, replicas: Ints, first: Ints, where: Ints
) -> tuple[Ints, Ints, list[str]]:
    """The turns of all actions in order and their devices; and the actions that are too many or too few."""
    blocks = stage * len(ACTION_KINDS) + kind  # ascending: jobs are listed by stage and kind
    wanted = actions.stage * len(ACTION_KINDS) + actions.kind
    low, high = np.searchsorted(blocks, wanted), np.searchsorted(blocks, wanted, "right")
    replica = where[actions.stage, actions.device]
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


def compute_s(problem: Problem, jobs: Jobs) -> Floats:
    """Seconds of computing of every turn, [turns]."""
    kinds = sorted({device.kind for device in problem.cluster.devices})
    kind = ints(kinds.index(device.kind) for device in problem.cluster.devices)[jobs.device]
    owner, operators = _run(problem, jobs)
    seconds = np.zeros(len(jobs.job))
    samples = jobs.samples[jobs.job]
    for number, name in enumerate(kinds):
        for share in np.unique(samples[kind == number]).tolist():
            rows = (kind == number) & (samples == share)
            seconds[rows] = sums(owner, problem.compute.at(name, share)[operators], len(jobs.stage))[jobs.job[rows]]
    return seconds


def _run(problem: Problem, jobs: Jobs) -> tuple[Ints, Ints]:
    """(job, operator that it runs), what it runs again included."""
    if not jobs.again.any():
        return jobs.member_of, jobs.members
    forward = phases(problem.graph)[jobs.members] == _PHASES.index(Phase.FORWARD)
    stage_of = jobs.stage[jobs.member_of]
    owner, operators = [jobs.member_of], [jobs.members]
    for job in np.flatnonzero(jobs.again):
        repeated = jobs.members[forward & (stage_of == jobs.stage[job])]
        owner.append(np.full(len(repeated), job))
        operators.append(repeated)
    return np.concatenate(owner), np.concatenate(operators)
