"""Simulate a plan: when every operator and transfer starts and ends, and what memory holds."""

from __future__ import annotations

import itertools

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.list_schedule_kernel import list_schedule
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule, Span
from solvers.problem.problem import Objective, Problem
from tests.oracle.lowering import TaskGraph, lower
from tests.oracle.memory import memory_curves
from tests.oracle.schedules import schedule_of_spans


def simulate(problem: Problem, plan: Plan, objective: Objective | None = None) -> Schedule:
    """The schedule of one iteration (ITERATION, MAX_LOAD) or one unsplit pass (MAKESPAN).

    Devices follow the plan's order; each task starts as soon as its inputs are there and its
    device or link is free; links serve the transfer whose reader comes first. objective defaults
    to the problem's. Raises InvalidPlan if the order deadlocks (the message shows where each
    device is stuck), misses an action or needs a link that is not there.
    """
    lowered = lower(problem, plan, objective or problem.objective)
    start, end, cause, done, *_ = list_schedule(*arrays_of(lowered))
    if done < len(lowered.tasks):
        raise InvalidPlan(_deadlock(lowered, start))
    starts, ends = start.tolist(), end.tolist()
    curves = memory_curves(problem, plan, lowered, starts, ends)
    by_time = sorted(range(len(starts)), key=lambda i: (starts[i], ends[i], i))
    spans = tuple(
        Span(task.label, task.resource, task.device, starts[i], ends[i], task.nbytes, task.operator, task.to_device)
        for i in by_time
        for task in (lowered.tasks[i],)
    )
    position = {task: place for place, task in enumerate(by_time)}
    critical = tuple(position[i] for i in _critical(ends, cause.tolist()))
    return schedule_of_spans(spans, curves, critical, lowered.shared)


def arrays_of(lowered: TaskGraph) -> tuple[Floats, Ints, int, Ints, Ints, Ints, Floats]:
    """The arguments of `solvers.evaluation.list_schedule_kernel.list_schedule` for a task graph."""
    count = len(lowered.tasks)
    names: dict[str, int] = {}
    resource = np.empty(count, np.int64)
    for i, task in enumerate(lowered.tasks):
        resource[i] = -1 if task.resource in lowered.shared else names.setdefault(task.resource, len(names))
    successor_start = np.zeros(count + 1, np.int64)
    np.cumsum([len(after) for after in lowered.after], out=successor_start[1:])
    successor = np.fromiter(itertools.chain.from_iterable(lowered.after), np.int64, int(successor_start[-1]))
    predecessors = np.bincount(successor, minlength=count).astype(np.int64)
    duration = np.array([task.duration_s for task in lowered.tasks], np.float64)
    if not np.isfinite(duration).all():
        stuck = lowered.tasks[int(np.argmax(~np.isfinite(duration)))]
        raise InvalidPlan(f"{stuck.label} cannot run on device {stuck.device}")
    priority = np.array([task.priority for task in lowered.tasks], np.float64)
    return duration, resource, len(names), successor_start, successor, predecessors, priority


def _critical(ends: list[float], cause: list[int]) -> list[int]:
    """The chain of tasks, each released by the one before, that ends last."""
    if not ends:
        return []
    task = max(range(len(ends)), key=lambda i: (ends[i], -i))
    chain = []
    while task >= 0:
        chain.append(task)
        task = cause[task]
    return chain[::-1]


def _deadlock(lowered: TaskGraph, start: np.ndarray) -> str:
    """Where each device waits, and for what: the first action it could not start."""
    waits_for: dict[int, list[str]] = {}
    for i, after in enumerate(lowered.after):
        if not np.isfinite(start[i]):
            for b in after:
                waits_for.setdefault(b, []).append(lowered.tasks[i].label)
    stuck: dict[int, str] = {}
    for i, task in enumerate(lowered.tasks):
        if task.unit >= 0 and not np.isfinite(start[i]) and task.device not in stuck:
            causes = ", ".join(waits_for.get(i, [])[:3])
            stuck[task.device] = f"device {task.device} at {task.label} (waits for {causes})"
    return "the order deadlocks: " + "; ".join(stuck.values())
