"""The event loop: tasks on exclusive resources, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.list_schedule_kernel import list_schedule
from solvers.evaluation.tasks import Tasks
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def run_tasks(tasks: Tasks, shared: Bools) -> tuple[Floats, Floats, Ints, int, Ints, Ints]:
    """Run every task as soon as those that it waits for are done and its resource is free.

    shared: devices that run any number of tasks at once. Returns what `list_schedule` does.
    """
    of, count = tasks.resource, len(tasks.resource)
    number = np.full(np.max(of) + 1 if count else 0, -1, np.int64)
    resource = np.empty(count, np.int64)
    used = 0
    for task in range(count):
        r = of[task]
        if r < len(shared) and shared[r]:
            resource[task] = -1
            continue
        if number[r] < 0:
            number[r] = used
            used += 1
        resource[task] = number[r]
    return list_schedule(tasks.seconds, resource, used, tasks.after_start, tasks.after, tasks.waits, tasks.priority)
