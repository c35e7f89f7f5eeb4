"""What stages of a draft take and hold by themselves, and drafts with some of their stages changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO, ONE, YES
from solvers.pipelines.descent.facts import (
    AGAIN,
    BACKWARD_S,
    FIXED,
    FORWARD_S,
    HOST,
    NOBODY,
    PARAMS,
    PER_BYTE,
    REPLICAS,
    SAVED,
    SIZE,
    STATIC,
    WORKSPACE,
    Change,
    Costs,
    Facts,
    Stages,
)
from solvers.plan.drafts import FIRST_LEVEL, WHOLE


class Works(NamedTuple):
    """What one replica of every stage does with a micro-batch, and holds, [stages]."""

    forward_s: Floats
    backward_s: Floats
    sync_s: Floats
    """adding up the gradients of all replicas, once"""
    static_bytes: Floats
    saved_bytes: Floats
    """per micro-batch in flight"""
    workspace_bytes: Floats
    busy_s: Floats
    """compute of all micro-batches"""


@njit(cache=True)
def lead_to(changes: list[Change], stages: Stages) -> None:
    """Add what a move leads to."""
    changes.append(Change(stages, NO, NOBODY))


@njit(cache=True)
def lead_on(changes: list[Change], stages: Stages, but: int) -> None:
    """Add what a move leads to once free devices are given out."""
    changes.append(Change(stages, YES, but))


@njit(cache=True)
def row_of(costs: Costs, size: int, replicas: int) -> int:
    """The row of costs; -1 where so many devices cannot share micro-batches. size: one that is known."""
    k = 0
    while costs.sizes[k] != size:
        k += 1
    return int(costs.row[k, replicas]) if replicas < costs.row.shape[1] else -1


@njit(cache=True)
def at_most(costs: Costs, size: int, devices: int) -> int:
    """The largest number of at most so many devices that can share micro-batches; 0 if there is none."""
    for replicas in range(min(devices, costs.row.shape[1] - 1), 0, -1):
        if row_of(costs, size, replicas) >= 0:
            return replicas
    return 0


@njit(cache=True)
def amounts_of(costs: Costs, row: int, again: int) -> Floats:
    """What super-operators take where a stage runs this again, [6, super-operators]; a whole forward is not counted."""
    amounts: Floats = costs.amounts[row + max(0, again - FIRST_LEVEL + 1) * len(costs.sync_s)]
    return amounts


@njit(cache=True)
def works_of(facts: Facts, stages: Stages) -> Works:
    """What every stage takes and holds."""
    costs, table = facts.costs, stages.table
    count = len(table)
    forward, backward, static, saved = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    workspace, params, sync, row = np.zeros(count), np.zeros(count), np.zeros(count), np.empty(count, np.int64)
    for s in range(count):
        row[s] = row_of(costs, table[s, SIZE], table[s, REPLICAS])
    for v in range(len(stages.of)):
        s = stages.of[v]
        amounts = amounts_of(costs, row[s], table[s, AGAIN])
        forward[s] += amounts[FORWARD_S, v]
        backward[s] += amounts[BACKWARD_S, v]
        static[s] += amounts[STATIC, v]
        saved[s] += amounts[SAVED, v]
        params[s] += amounts[PARAMS, v]
        workspace[s] = max(workspace[s], amounts[WORKSPACE, v])
    for s in range(count):
        if table[s, AGAIN] == WHOLE:
            backward[s] += forward[s]
        if params[s]:
            sync[s] = costs.sync_s[row[s], FIXED] + params[s] * costs.sync_s[row[s], PER_BYTE]
    busy = (forward + backward) * (facts.rules.mini_batch / table[:, SIZE])
    return Works(forward, backward, sync, static, saved, workspace, busy)


@njit(cache=True)
def busy_on(facts: Facts, stages: Stages, stage: int, replicas: int) -> float:
    """Seconds in an iteration that a device of a stage computes, and adds up gradients, were it on so many devices; on
    one there are none to add up."""
    return seconds_on(facts, stages.of, stage, stages.table[stage], replicas)


@njit(cache=True)
def seconds_on(facts: Facts, label: Ints, chosen: int, like: Ints, replicas: int) -> float:
    """The same of the super-operators with a label, in a stage like another. like: its row in a table of stages."""
    costs = facts.costs
    row = row_of(costs, like[SIZE], replicas)
    forward, backward, params, amounts = 0.0, 0.0, 0.0, amounts_of(costs, row, like[AGAIN])
    for v in range(len(label)):
        if label[v] == chosen:
            forward += amounts[FORWARD_S, v]
            backward += amounts[BACKWARD_S, v]
            params += amounts[PARAMS, v]
    if like[AGAIN] == WHOLE:
        backward += forward
    sync = costs.sync_s[row, FIXED] + params * costs.sync_s[row, PER_BYTE] if params else 0.0
    return float((forward + backward) * (facts.rules.mini_batch / like[SIZE]) + sync)


@njit(cache=True)
def single_s(facts: Facts, like: Ints) -> Floats:
    """Seconds in an iteration of every super-operator by itself on one device, [super-operators]."""
    amounts = amounts_of(facts.costs, row_of(facts.costs, like[SIZE], ONE), like[AGAIN])
    forward, backward = amounts[FORWARD_S], amounts[BACKWARD_S]
    both = forward + (backward + forward) if like[AGAIN] == WHOLE else forward + backward
    each_s: Floats = both * (facts.rules.mini_batch / like[SIZE])
    return each_s


@njit(cache=True)
def members_of(label: Ints, chosen: int) -> Ints:
    """The super-operators with a label, ascending."""
    return np.flatnonzero(label == chosen)


@njit(cache=True)
def hosts_others(table: Ints, stage: int) -> bool:
    """Whether other stages run on the devices of a stage."""
    return bool(np.count_nonzero(table[:, HOST] == stage) > (table[stage, HOST] == stage))


@njit(cache=True)
def used_devices(table: Ints) -> int:
    """How many devices the stages take."""
    used = 0
    for s in range(len(table)):
        if table[s, HOST] == s:
            used += table[s, REPLICAS]
    return used


@njit(cache=True)
def mean_s(table: Ints, works: Works) -> float:
    """Seconds of an iteration that a device in use computes on average, guests left out."""
    total = 0.0
    for s in range(len(table)):
        if table[s, HOST] == s:
            total += works.busy_s[s] * table[s, REPLICAS]
    return total / used_devices(table)


@njit(cache=True)
def with_entry(stages: Stages, stage: int, column: int, value: int) -> Stages:
    """The draft with one entry of its table changed."""
    table = stages.table.copy()
    table[stage, column] = value
    return Stages(stages.of, table)


@njit(cache=True)
def on_devices(stages: Stages, stage: int, replicas: int) -> Stages:
    """The draft with a stage on so many devices."""
    return with_entry(stages, stage, REPLICAS, replicas)


@njit(cache=True)
def on_host(stages: Stages, stage: int, host: int) -> Stages:
    """The draft with a stage on the devices of another."""
    changed = with_entry(stages, stage, HOST, host)
    changed.table[stage, REPLICAS] = stages.table[host, REPLICAS]
    return changed


@njit(cache=True)
def divided(stages: Stages, stage: int, upper: Bools) -> Stages:
    """The draft with some super-operators of a stage in a last stage of their own, which is as that one. upper:
    [super-operators] which; others than those of the stage are left."""
    of, count = stages.of.copy(), len(stages.table)
    for v in range(len(of)):
        if of[v] == stage and upper[v]:
            of[v] = count
    table = np.empty((count + 1, stages.table.shape[1]), np.int64)
    table[:count] = stages.table
    table[count] = stages.table[stage]
    if table[count, HOST] == stage:
        table[count, HOST] = count
    return Stages(of, table)


@njit(cache=True)
def moved(stages: Stages, source: int, target: int, members: Ints) -> Stages:
    """The draft after some super-operators went from one stage to another; if none is left the stage goes, and stages
    that share its devices share those of the target."""
    of = stages.of.copy()
    of[members] = target
    changed = Stages(of, stages.table)
    if (of == source).any():
        return changed
    return without(changed, source, target)


@njit(cache=True)
def without(stages: Stages, gone: int, heir: int) -> Stages:
    """The draft without a stage, whose super-operators are the heir's; those that share its devices share those of the
    heir (or its host's) instead."""
    table, of = stages.table, stages.of.copy()
    home = table[heir, HOST]
    if home == gone:
        home = heir
    left = np.empty((len(table) - 1, table.shape[1]), np.int64)
    for s in range(len(table)):
        if s == gone:
            continue
        host = table[s, HOST]
        if host == gone:
            host = home
        at = s - (s > gone)
        left[at] = table[s]
        left[at, HOST] = host - (host > gone)
    for v in range(len(of)):
        if of[v] == gone:
            of[v] = heir
        of[v] -= of[v] > gone
    return Stages(of, left)


@njit(cache=True)
def tidy(stages: Stages) -> Stages:
    """The same stages by their first super-operator, so that equal drafts are equal arrays; a stage that shares the
    devices of another has its number of replicas. None is empty."""
    of, old = stages.of, stages.table
    rank, seen = np.full(len(old), -1, np.int64), 0
    for v in range(len(of)):
        if rank[of[v]] < 0:
            rank[of[v]] = seen
            seen += 1
    table = np.empty_like(old)
    for s in range(len(old)):
        table[rank[s]] = old[s]
        table[rank[s], HOST] = rank[old[s, HOST]]
        table[rank[s], REPLICAS] = old[old[s, HOST], REPLICAS]
    return Stages(rank[of], table)


@njit(cache=True)
def hash_of(stages: Stages) -> np.uint64:
    """A number that distinguishes drafts (FNV-1a on 64 bits)."""
    digest, factor = np.uint64(14695981039346656037), np.uint64(1099511628211)
    for v in range(len(stages.of)):
        digest = (digest ^ np.uint64(stages.of[v])) * factor
    for value in stages.table.flat:
        digest = (digest ^ np.uint64(value)) * factor
    return digest


@njit(cache=True)
def holds_pinned(facts: Facts, stages: Stages) -> Bools:
    """Whether each stage has operators that are pinned, so that it has one device, [stages]."""
    pinned = np.zeros(len(stages.table), np.bool_)
    for v in range(len(stages.of)):
        if facts.rules.pinned[v] >= 0:
            pinned[stages.of[v]] = True
    return pinned


@njit(cache=True)
def spread(facts: Facts, stages: Stages, but: int) -> Stages:
    """The draft with the free devices given, again and again, to the busiest stage that can use some of them and gets
    faster; ``but`` gets none."""
    costs, table = facts.costs, stages.table.copy()
    free = facts.rules.devices - used_devices(table)
    changed = Stages(stages.of, table)
    if free <= 0:
        return changed
    works = works_of(facts, stages)
    busy = works.busy_s + works.sync_s
    single = holds_pinned(facts, stages)
    for s in range(len(table)):
        if table[s, HOST] != s or s == but or single[s]:
            busy[s] = -np.inf  # gets none
    while free > 0:
        s = int(np.argmax(busy))
        if busy[s] == -np.inf:
            break
        size, replicas = table[s, SIZE], table[s, REPLICAS]
        more = replicas + 1
        while more - replicas <= free and row_of(costs, size, more) < 0:
            more += 1
        takes = np.inf
        if more - replicas <= free:
            takes = busy_on(facts, changed, s, more)
        if takes < busy[s]:
            free -= more - replicas
            table[s, REPLICAS], busy[s] = more, takes
        else:
            busy[s] = -np.inf
    return changed


@njit(cache=True)
def squeeze(facts: Facts, stages: Stages, spared: int) -> Stages:
    """The draft with devices taken, again and again, from the stage that is least busy without them, until there are
    enough (or none can give any: the draft then takes too many); ``spared`` gives none."""
    table = stages.table.copy()
    changed = Stages(stages.of, table)
    while used_devices(table) > facts.rules.devices:
        giver, least, least_s = NOBODY, 0, np.inf
        for s in range(len(table)):
            if table[s, HOST] != s or s == spared:
                continue
            less = at_most(facts.costs, table[s, SIZE], table[s, REPLICAS] - 1)
            if less > 0:
                busy = busy_on(facts, changed, s, less)
                if giver == NOBODY or busy < least_s:
                    giver, least, least_s = s, less, busy
        if giver == NOBODY:
            break
        table[giver, REPLICAS] = least
    return changed


@njit(cache=True)
def resized(facts: Facts, stages: Stages, sizes: Ints) -> Stages:
    """The draft with other micro-batches, its stages on as many devices as these allow."""
    table = stages.table.copy()
    table[:, SIZE] = sizes
    for s in range(len(table)):
        table[s, REPLICAS] = max(1, at_most(facts.costs, sizes[s], table[s, REPLICAS]))
    return Stages(stages.of, table)


@njit(cache=True)
def allowed_size(facts: Facts, size: int) -> bool:
    """Whether micro-batches may be of so many samples."""
    return bool((facts.rules.sizes == size).any())
