"""What a transfer carries: the operator that sends, and the one that waits for it."""

from __future__ import annotations

from solvers.kernels.list_schedule import list_schedule
from solvers.lowering import TaskGraph, lower
from solvers.plan import Plan
from solvers.problem import Problem
from solvers.schedule import Schedule
from solvers.simulate import arrays_of

Ends = tuple[int, int]
UNKNOWN: Ends = (-1, -1)


def endpoints(problem: Problem, plan: Plan, schedule: Schedule) -> list[Ends]:
    """Per span of the schedule that `simulate` gives for the problem's objective (sender, reader), as
    operators: of a transfer the one that made what is sent, and the first to run that reads it; of an
    operator, itself twice.

    -1 where a span is no single operator, or nobody reads what is sent (the sender's half of a transfer).
    """
    lowered = lower(problem, plan, problem.objective)
    start, end, _, _ = list_schedule(*arrays_of(lowered))
    starts, ends = start.tolist(), end.tolist()
    order = sorted(range(len(starts)), key=lambda i: (starts[i], ends[i], i))  # as simulate orders spans
    if len(order) != len(schedule.spans):
        return [UNKNOWN] * len(schedule.spans)
    return [_of_task(lowered, i, starts) for i in order]


def _of_task(lowered: TaskGraph, i: int, starts: list[float]) -> Ends:
    task = lowered.tasks[i]
    if task.to_device < 0:
        return task.operator, task.operator
    sender = lowered.tasks[task.holds_from[-1]].operator if task.holds_from else -1
    reader = min(task.feeds, key=lambda t: starts[t], default=-1)
    return sender, lowered.tasks[reader].operator if reader >= 0 else -1
