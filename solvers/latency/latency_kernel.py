"""The latency of one sample, exactly and quickly, on plain arrays.

Apart from `solvers.evaluation`, whose kernels take over 20 times as long for the same calls: docs/benchmarks.md, "One
simulator".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.heap_kernel import pop, push
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


class Calls(NamedTuple):
    """Operators and messages as `solvers.latency.model` prepares them.

    seconds: [accelerators + 1, operators], the last row for CPUs. order: operators in topological
    order. before: CSR of every operator's distinct predecessors. sent: CSR of every operator's
    messages. readers: CSR of every message's readers. message_s: [messages] seconds between any two
    devices, paid by the accelerators at both ends.
    """

    seconds: Floats
    order: Ints
    before_start: Ints
    before: Ints
    sent_start: Ints
    sent: Ints
    reader_start: Ints
    reader: Ints
    message_s: Floats


class Scratch(NamedTuple):
    """Room for `latency`, reused between calls. Entities are the calls and then the operators (those on CPUs run one by
    one)."""

    waiting: Ints
    """[entities] inputs that are still to be made"""
    ready_s: Floats
    """[entities] s when the last input so far was made"""
    duration_s: Floats
    """[entities] s of compute and of what a call fetches and sends"""
    end_s: Floats
    """[entities] s"""
    position: Ints
    """[entities] when a call was taken, as a count; -1 if never"""
    seen: Ints
    """[calls] the last message that each was found to fetch: it pays for each once"""
    member_start: Ints
    """[calls + 2] into member; while it is filled in, one place behind"""
    member: Ints
    """operators of every call"""
    stack: Ints
    """[operators] ready operators on CPUs"""
    keys: Floats
    """[calls] s when ready calls became so, as a heap"""
    heap: Ints
    """[calls] and their numbers"""
    free_s: Floats
    """[accelerators] s"""
    level: Ints
    """[operators, accelerators] pieces of the accelerator on a path to the operator at most"""


@njit(cache=True)
def scratch_for(operators: int, accelerators: int, pieces: int) -> Scratch:
    """Scratch for at most ``pieces`` pieces per accelerator."""
    calls = accelerators * pieces
    entities = calls + operators
    return Scratch(
        np.zeros(entities, np.int64),
        np.zeros(entities),
        np.zeros(entities),
        np.zeros(entities),
        np.full(entities, -1, np.int64),
        np.zeros(max(calls, 1), np.int64),
        np.zeros(calls + 2, np.int64),
        np.zeros(max(operators, 1), np.int64),
        np.zeros(max(operators, 1), np.int64),
        np.zeros(max(calls, 1)),
        np.zeros(max(calls, 1), np.int64),
        np.zeros(max(accelerators, 1)),
        np.zeros((max(operators, 1), max(accelerators, 1)), np.int64),
    )


@njit(cache=True)
def cut_into_pieces(at: Calls, place: Ints, pieces: int, call: Ints, work: Scratch) -> bool:
    """Number the calls of a placement: call[v] = place * pieces + piece, -1 for an operator on a CPU.

    A piece of an accelerator ends where a path has left the accelerator and comes back, so pieces are
    convex and as few as possible. False (and an incomplete ``call``) if one needs more than ``pieces``.
    """
    accelerators = len(at.seconds) - 1
    level = work.level
    if pieces == 1:
        for v in range(len(place)):
            call[v] = place[v] if place[v] < accelerators else -1
        return True
    for i in range(len(place)):
        v = at.order[i]
        here = place[v]
        for d in range(accelerators):
            level[v, d] = 0
        own_level = 1
        for e in range(at.before_start[v], at.before_start[v + 1]):
            u = at.before[e]
            left = place[u] != here
            for d in range(accelerators):
                if level[u, d] > level[v, d]:
                    level[v, d] = level[u, d]
            if here < accelerators and level[u, here] > 0:
                own_level = max(own_level, level[u, here] + left)
        if here < accelerators:
            if own_level > pieces:
                return False
            level[v, here] = own_level
            call[v] = here * pieces + own_level - 1
        else:
            call[v] = -1
    return True


@njit(cache=True)
def latency(at: Calls, call: Ints, pieces: int, work: Scratch) -> float:
    """Seconds from the start until everything is done; inf if calls wait for each other.

    call: [operators] accelerator * pieces + piece, or -1 on a CPU. A message that leaves a call lengthens
    it, once, and each other call that fetches it, on whichever device: it goes through the host. Of the calls that are
    ready an accelerator takes the one that became so first (then the lowest number); the order taken
    is left in ``work.position``, ends in ``work.end_s``.
    """
    operators = len(call)
    accelerators = len(at.seconds) - 1
    calls = accelerators * pieces
    waiting, ready_s, duration_s, end_s, position, seen, start, member, stack, keys, heap, free_s, _ = work
    for entity in range(calls + operators):
        waiting[entity] = 0
        ready_s[entity] = 0.0
        duration_s[entity] = 0.0
        position[entity] = -1
    for c in range(calls):
        seen[c] = -1
    start[: calls + 2] = 0
    free_s[:] = 0.0
    for u in range(operators):
        task = call[u]
        on_acc = task >= 0
        here = task // pieces if on_acc else accelerators
        if on_acc:
            duration_s[task] += at.seconds[here, u]
            start[task + 2] += 1
        else:
            task = calls + u
            duration_s[task] = at.seconds[here, u]
        for e in range(at.sent_start[u], at.sent_start[u + 1]):
            message = at.sent[e]
            seconds = at.message_s[message]
            leaves = False
            for r in range(at.reader_start[message], at.reader_start[message + 1]):
                v = at.reader[r]
                target = call[v]
                if target >= 0:
                    if target == task:
                        continue
                    waiting[target] += 1
                    leaves = True
                    if seen[target] != message:
                        seen[target] = message
                        duration_s[target] += seconds
                else:
                    waiting[calls + v] += 1
                    leaves = leaves or on_acc
            if leaves and on_acc:
                duration_s[task] += seconds
    for c in range(calls):
        start[c + 2] += start[c + 1]
    for v in range(operators):
        if call[v] >= 0:
            member[start[call[v] + 1]] = v
            start[call[v] + 1] += 1
    ready_cpu, ready_calls, done, taken = 0, ZERO, 0, 0
    for c in range(calls):
        if start[c + 1] > start[c] and waiting[c] == 0:
            push(keys, heap, ZERO, ready_calls, ready_s[c], c, None)
            ready_calls += 1
    for v in range(operators):
        if call[v] < 0 and waiting[calls + v] == 0:
            stack[ready_cpu] = v
            ready_cpu += 1
    last_s = 0.0
    while ready_cpu > 0 or ready_calls > 0:
        if ready_cpu > 0:
            ready_cpu -= 1
            v = stack[ready_cpu]
            entity = calls + v
            end = ready_s[entity] + duration_s[entity]
            first, stop = 0, 1
        else:
            entity = pop(keys, heap, ZERO, ready_calls, None)
            ready_calls -= 1
            device = entity // pieces
            end = max(ready_s[entity], free_s[device]) + duration_s[entity]
            free_s[device] = end
            position[entity] = taken
            taken += 1
            v = -1
            first, stop = start[entity], start[entity + 1]
        end_s[entity] = end
        last_s = max(last_s, end)
        done += stop - first
        for i in range(first, stop):
            u = member[i] if v < 0 else v
            for e in range(at.sent_start[u], at.sent_start[u + 1]):
                message = at.sent[e]
                for r in range(at.reader_start[message], at.reader_start[message + 1]):
                    reader = at.reader[r]
                    target = call[reader]
                    if target >= 0 and target == entity:
                        continue
                    into = target if target >= 0 else calls + reader
                    ready_s[into] = max(ready_s[into], end)
                    waiting[into] -= 1
                    if waiting[into] == 0:
                        if target >= 0:
                            push(keys, heap, ZERO, ready_calls, ready_s[target], target, None)
                            ready_calls += 1
                        else:
                            stack[ready_cpu] = reader
                            ready_cpu += 1
    return last_s if done == operators else np.inf
