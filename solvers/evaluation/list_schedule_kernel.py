"""Event simulation of tasks on exclusive resources, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.heap_kernel import pop, push
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


@njit(cache=True)
def list_schedule(
    duration_s: Floats,
    resource: Ints,
    resources: int,
    successor_start: Ints,
    successor: Ints,
    predecessors: Ints,
    priority: Floats,
) -> tuple[Floats, Floats, Ints, int, Ints, Ints]:
    """Run every task as soon as its predecessors are done and its resource is free.

    duration_s, resource, priority: [tasks]; resource -1 is unlimited. successor_start, successor:
    CSR of the dependencies. predecessors: number of them, [tasks]. Among ready tasks of one
    resource the least (priority, index) starts first; a resource never idles while a task is ready.
    Returns (start_s, end_s, cause, done, first, last): cause is the task whose end let this one start (-1 for
    none), done the number of tasks that ran; fewer than all means a deadlock. first, last: [tasks] the instant at
    which each starts and ends: instants are numbered in their order, 0 is the beginning.
    """
    tasks = len(duration_s)
    start = np.full(tasks, np.inf)
    end = np.full(tasks, np.inf)
    cause = np.full(tasks, -1, np.int64)
    first, last = np.full(tasks, -1, np.int64), np.full(tasks, -1, np.int64)
    instant = 0
    released_by = np.full(tasks, -1, np.int64)
    ready_s = np.zeros(tasks)
    waiting = predecessors.copy()

    base = np.zeros(resources + 1, np.int64)
    for task in range(tasks):
        if resource[task] >= 0:
            base[resource[task] + 1] += 1
    for r in range(resources):
        base[r + 1] += base[r]
    keys, heap = np.empty(max(tasks, 1)), np.zeros(max(tasks, 1), np.int64)
    size = np.zeros(resources, np.int64)
    running = np.full(resources, -1, np.int64)
    last_on = np.full(resources, -1, np.int64)

    until, events = np.empty(max(tasks, 1)), np.zeros(max(tasks, 1), np.int64)  # running tasks by end time
    event_count = ZERO
    touched = np.zeros(max(tasks, 1), np.int64)
    touched_count = 0
    for task in range(tasks):
        if waiting[task] == 0:
            touched[touched_count] = task
            touched_count += 1
    now = 0.0
    done = 0
    dirty = np.zeros(resources, np.int64)
    is_dirty = np.zeros(resources, np.bool_)
    dirty_count = 0
    while True:
        for i in range(touched_count):
            task = touched[i]
            ready_s[task] = now
            r = resource[task]
            if r < 0:
                start[task] = now
                end[task] = now + duration_s[task]
                first[task] = instant
                cause[task] = released_by[task]
                push(until, events, ZERO, event_count, end[task], task, None)
                event_count += 1
            else:
                if size[r] == 0:  # as ever on a device that takes its tasks in an order: spares the call
                    keys[base[r]], heap[base[r]] = priority[task], task
                else:
                    push(keys, heap, base[r], size[r], priority[task], task, None)
                size[r] += 1
                if not is_dirty[r]:
                    is_dirty[r] = True
                    dirty[dirty_count] = r
                    dirty_count += 1
        touched_count = 0
        for i in range(dirty_count):
            r = dirty[i]
            is_dirty[r] = False
            if running[r] < 0 and size[r] > 0:
                task = heap[base[r]]
                if size[r] > 1:
                    pop(keys, heap, base[r], size[r], None)
                size[r] -= 1
                running[r] = task
                start[task] = now
                end[task] = now + duration_s[task]
                first[task] = instant
                cause[task] = last_on[r] if ready_s[task] < now else released_by[task]
                push(until, events, ZERO, event_count, end[task], task, None)
                event_count += 1
        dirty_count = 0
        if event_count == 0:
            break
        if until[0] > now:
            instant += 1
        now = until[0]
        while event_count > 0 and until[0] == now:
            task = pop(until, events, ZERO, event_count, None)
            event_count -= 1
            last[task] = instant
            done += 1
            r = resource[task]
            if r >= 0:
                running[r] = -1
                last_on[r] = task
                if not is_dirty[r]:
                    is_dirty[r] = True
                    dirty[dirty_count] = r
                    dirty_count += 1
            for e in range(successor_start[task], successor_start[task + 1]):
                after = successor[e]
                waiting[after] -= 1
                if waiting[after] == 0:
                    released_by[after] = task
                    touched[touched_count] = after
                    touched_count += 1
    return start, end, cause, done, first, last
