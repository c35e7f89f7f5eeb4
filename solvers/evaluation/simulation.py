"""Simulate a plan: when every task starts and ends, and what memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import graph_columns, plan_columns
from solvers.evaluation.holds_kernel import curves_of, peaks_of
from solvers.evaluation.lower import Lowered, held_by, lower
from solvers.evaluation.run_kernel import run_tasks
from solvers.evaluation.tasks import Holds
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.plan.alike import alike
from solvers.plan.plan import Plan
from solvers.plan.regions import with_regions
from solvers.plan.schedule import SPAN_KINDS, MemoryCurve, Schedule, SpanColumns
from solvers.problem.problem import Objective, Problem

_run_tasks, _curves_of, _peaks_of = until_worth_it(run_tasks), until_worth_it(curves_of), until_worth_it(peaks_of)


@dataclass(frozen=True, eq=False)
class Simulation:
    """A plan as it runs: its tasks, when each starts and ends, and which other let it start.

    plan, lowered: of the first of the groups of devices that do the same; of all where there is but one. What is said
    of devices is said of all. start_s, end_s: [tasks] s. cause: [tasks] the task whose end let
    each start, -1 for none. first, last: [tasks] the number of the instant at which each starts and ends. groups:
    [groups, devices] those that do the same in a column.
    """

    problem: Problem
    plan: Plan
    lowered: Lowered
    start_s: Floats
    end_s: Floats
    cause: Ints
    first: Ints
    last: Ints
    groups: Ints

    @property
    def makespan_s(self) -> float:
        return float(self.end_s.max(initial=0.0))

    @cached_property
    def static_bytes(self) -> Floats:
        """What each device holds all the time, [devices] B."""
        times = len(self.groups) * self.problem.repeats.times
        held = held_by_stage(self.problem, self.plan, times).sum(axis=0)
        return self._everywhere(on_devices(self.problem, self.plan, held))

    def _everywhere(self, values: Floats) -> Floats:
        """What is said of devices of the first group, [devices], said of all."""
        values[self.groups] = values[self.groups[0]]
        return values

    @cached_property
    def _curves(self) -> tuple[Floats, Ints, Floats, Floats]:
        static = self.static_bytes
        if self.problem.stated_bytes is not None:  # what a workload states is held throughout, and nothing else
            ones = np.arange(len(static) + 1)
            return static, ones, np.zeros(len(static)), static
        return _curves_of(self._holds, self.first, self.last, self.end_s, static)

    @cached_property
    def _holds(self) -> Holds:
        return held_by(self.problem, self.plan, self.lowered)

    def peak_bytes(self) -> Floats:
        """Largest memory held per device, [devices] B."""
        if self.problem.stated_bytes is not None:
            return self.static_bytes
        return self._everywhere(_peaks_of(self._holds, self.first, self.last, self.static_bytes))

    def busy_per_device_s(self) -> Floats:
        """Seconds each device computes, [devices]."""
        rows = len(self.lowered.rows.unit)
        took = self.end_s[:rows] - self.start_s[:rows]
        busy = np.bincount(self.lowered.rows.device, took, len(self.problem.cluster)).astype(np.float64)
        return self._everywhere(busy)

    @cached_property
    def by_time(self) -> Ints:
        """The tasks in the order of the schedule's spans: by start, end, number."""
        return np.lexsort((self.end_s, self.start_s))

    def schedule(self) -> Schedule:
        """The spans, memory curves and critical path."""
        tasks, lowered, order = self.lowered.tasks, self.lowered, self.by_time
        used, resource = np.unique(tasks.resource[order], return_inverse=True)
        operator = np.full(len(order), -1, np.int64)
        computes = tasks.unit >= 0
        operator[computes] = lowered.units.operator[tasks.unit[computes]]
        columns = SpanColumns(
            start_s=self.start_s[order],
            end_s=self.end_s[order],
            stage=tasks.stage[order],
            kind=tasks.kind[order],
            micro_batch=tasks.micro_batch[order],
            operator=operator[order],
            device=tasks.device[order],
            to_device=tasks.to_device[order],
            resource=resource,
            nbytes=tasks.nbytes[order],
            sender=self._senders(operator)[order],
            reader=self._readers(operator)[order],
        )
        place = np.full(len(order) + 1, -1, np.int64)  # the last is that of no task
        place[order] = np.arange(len(order))
        names = tuple(lowered.resource_name(r) for r in used.tolist())
        shared = frozenset(f"device {d}" for d in np.flatnonzero(lowered.shared))
        critical = tuple(int(place[task]) for task in self._critical())
        alike = tuple(map(tuple, self.groups.T.tolist())) if len(self.groups) > 1 else ()
        return Schedule(
            columns, names, self._memory(), critical, shared, place[self.cause[order]], self._ready_s()[order], alike
        )  # fmt: skip

    def _memory(self) -> tuple[MemoryCurve, ...]:
        """The curve of every device; devices that do the same have one."""
        _, start, times, held = self._curves
        stands = np.arange(len(self.static_bytes))
        stands[self.groups] = self.groups[0]
        static, cuts = self.static_bytes.tolist(), start.tolist()
        curve = {
            device: MemoryCurve(
                tuple(times[cuts[device] : cuts[device + 1]].tolist()),
                tuple(held[cuts[device] : cuts[device + 1]].tolist()),
                static[device],
            )
            for device in np.unique(stands).tolist()
        }
        return tuple(curve[device] for device in stands.tolist())

    def _senders(self, operator: Ints) -> Ints:
        """Per task the operator that made what it sends, or that it is; -1 if that is no single one."""
        maker = self.lowered.tasks.maker
        return np.where(maker >= 0, operator[maker], operator)

    def _readers(self, operator: Ints) -> Ints:
        """Per task the first operator to run that reads what it brings, or that it is; -1 if that is no single one."""
        tasks = self.lowered.tasks
        of = np.repeat(np.arange(len(operator)), np.diff(tasks.reader_start))
        last_first = np.lexsort((tasks.reader, self.start_s[tasks.reader]))[::-1]
        first = operator.copy()
        first[of[last_first]] = operator[tasks.reader[last_first]]
        return first

    def _ready_s(self) -> Floats:
        """Per task when the last of those that it waits for had ended; a turn on a link is none of them."""
        tasks = self.lowered.tasks
        count = len(self.end_s)
        before = np.repeat(np.arange(count), np.diff(tasks.after_start))
        pairs = [turn[:-1] * count + turn[1:] for turn in self.lowered.turns]
        needs = ~np.isin(before * count + tasks.after, np.concatenate([np.zeros(0, np.int64), *pairs]))
        ready_s = np.zeros(count)
        np.maximum.at(ready_s, tasks.after[needs], self.end_s[before[needs]])
        return ready_s

    def _critical(self) -> list[int]:
        """The chain of tasks, each released by the one before, that ends last."""
        if not len(self.end_s):
            return []
        task = int(np.argmax(self.end_s))
        chain = []
        while task >= 0:
            chain.append(task)
            task = int(self.cause[task])
        return chain[::-1]


def run(problem: Problem, plan: Plan, objective: Objective | None = None, *, fold: bool = True) -> Simulation:
    """One iteration (ITERATION, MAX_LOAD) or one unsplit pass (MAKESPAN) of a plan.

    Devices follow the plan's order; each task starts as soon as its inputs are there and its device or link is
    free; links serve the messages in the order that the plan states, else the transfer whose reader comes first.
    objective defaults to the problem's. fold: whether of many devices that do the same the first stand for all
    (`plan.alike`). Raises InvalidPlan if the order deadlocks (the message shows where each device, and each link with
    a stated order, is stuck), misses an action or a message or needs a link that is not there.
    """
    problem = with_regions(problem, plan)
    objective, same = objective or problem.objective, alike(problem, plan) if fold else None
    lowered = lower(problem, plan, objective, same)
    if same is not None:
        plan = same.plan
    groups = np.zeros((1, 0), np.int64) if same is None else same.groups
    start, end, cause, done, first, last = _run_tasks(lowered.tasks, lowered.shared)
    if done < len(lowered.tasks.seconds):
        raise InvalidPlan(_deadlock(lowered, start))
    return Simulation(problem, plan, lowered, start, end, cause, first, last, groups)


def simulate(problem: Problem, plan: Plan, objective: Objective | None = None, *, fold: bool = True) -> Schedule:
    """The schedule that `run` gives: its arguments, and what it raises."""
    return run(problem, plan, objective, fold=fold).schedule()


def static_bytes_per_device(problem: Problem, plan: Plan) -> Floats:
    """Parameters, gradients and optimizer states (or the stated sizes) per device, [devices] B."""
    return on_devices(problem, plan, held_by_stage(problem, plan).sum(axis=0))


def on_devices(problem: Problem, plan: Plan, amount: Floats) -> Floats:
    """What each device of a stage holds, [stages], added up by device, [devices]."""
    columns = plan_columns(plan)
    each = np.repeat(amount, np.diff(columns.device_start))
    return np.asarray(np.bincount(columns.device, each, minlength=len(problem.cluster)), np.float64)


def held_by_stage(problem: Problem, plan: Plan, times: int = 1) -> Floats:
    """What each device of a stage holds all the time, apart as in `ByKind`, then, with ZeRO-3, the largest of the
    operators whose parameters it gathers, [6, stages] B. Stated sizes all count as the first. times: how many times as
    many replicas hold it as the plan has."""
    columns, stages = plan_columns(plan), len(plan.stages)
    held = np.zeros((6, stages))
    if problem.stated_bytes is not None:
        held[0] = np.bincount(columns.stage, problem.static_bytes()[columns.operator], minlength=stages)
        return held
    graph, operators = graph_columns(problem.graph), columns.operator
    trained, frozen = graph.trained_bytes[operators], graph.frozen_bytes[operators]
    replicas = times * np.diff(columns.device_start)[columns.stage].astype(np.float64)
    others = graph.factorable_bytes[operators], graph.buffer_bytes[operators], graph.gradient_sum_bytes[operators]
    kinds = problem.copies.by_kind(trained, frozen, *others, replicas)
    for row, nbytes in enumerate(kinds):
        held[row] = np.bincount(columns.stage, nbytes, minlength=stages)
    np.maximum.at(held[5], columns.stage, problem.copies.gathered(trained + frozen, replicas))
    return held


def task_name(lowered: Lowered, task: int) -> str:
    """What a task is, as `schedule.Span` says."""
    tasks = lowered.tasks
    kind = SPAN_KINDS[tasks.kind[task]]
    text = f"{tasks.stage[task]}{kind}" + ("" if kind in "US" else f"{tasks.micro_batch[task]}")
    if tasks.to_device[task] < 0:
        return text
    return f"{text}>" + ("" if tasks.to_device[task] == tasks.device[task] else f"{tasks.to_device[task]}")


def _deadlock(lowered: Lowered, start_s: Floats) -> str:
    """Where each device waits, and each link with a stated order, and for what: the first that it could not start."""
    tasks = lowered.tasks
    blocked = ~np.isfinite(start_s)
    source = np.repeat(np.arange(len(start_s)), np.diff(tasks.after_start))

    def waiting(task: int) -> str:
        causes = source[(tasks.after == task) & blocked[source]].tolist()
        names = ", ".join([task_name(lowered, cause) for cause in causes][:3])
        return f"{task_name(lowered, task)} (waits for {names})"

    stuck: dict[int, str] = {}
    for task in np.flatnonzero(blocked & (tasks.unit >= 0)).tolist():
        device = int(tasks.device[task])
        if device not in stuck:
            stuck[device] = f"device {device} at {waiting(task)}"
    heads = [int(turn[np.argmax(blocked[turn])]) for turn in lowered.turns if blocked[turn].any()]
    links = [f"link {lowered.resource_name(int(tasks.resource[task]))} at {waiting(task)}" for task in heads]
    return "the order deadlocks: " + "; ".join([*stuck.values(), *links])
