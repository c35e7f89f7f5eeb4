"""Moves of devices from stage to stage, and those that make stages more or fewer or cut them again."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Bools, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import BELOW, ONE, ZERO
from solvers.pipelines.descent.facts import (
    HOST,
    NOBODY,
    REPLICAS,
    SIZE,
    SLACK,
    Change,
    Facts,
    Stages,
)
from solvers.pipelines.descent.operator_moves_kernel import Near, components_of
from solvers.pipelines.descent.stages_kernel import (
    at_most,
    divided,
    lead_on,
    lead_to,
    members_of,
    on_devices,
    row_of,
    seconds_on,
    single_s,
    squeeze,
    used_devices,
    without,
)

FEW = 6
"""Stages of so few super-operators are cut everywhere."""
CUTS = (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4)
"""Where larger stages are cut, as shares of their time."""
JOINED = 3
"""Pairs of stages that are joined to have devices for a new one."""
MOST_STAGES = 4
"""A stretch is cut into at most so many stages more than it had, or components beside each other."""
MOST_PAIRED = 6
"""Neighbours of which two are cut again together with a stage."""
INSIDE, ELSEWHERE = ZERO, BELOW


@njit(cache=True)
def add_devices(changes: list[Change], facts: Facts, stages: Stages, stage: int) -> None:
    """A stage gets another number of devices: free ones, those of one other stage, or a few of many."""
    table, costs = stages.table, facts.costs
    size, now = table[stage, SIZE], table[stage, REPLICAS]
    if table[stage, HOST] != stage:
        return
    for replicas in range(1, facts.rules.devices + 1):
        if replicas == now or row_of(costs, size, replicas) < 0:
            continue
        changed = on_devices(stages, stage, replicas)
        short = used_devices(changed.table) - facts.rules.devices
        if short <= 0:
            if replicas < now:
                lead_on(changes, changed, stage)
            else:
                lead_to(changes, changed)
            continue
        for giver in range(len(table)):
            if giver != stage and table[giver, HOST] == giver:
                less = at_most(costs, table[giver, SIZE], table[giver, REPLICAS] - short)
                if less > 0:
                    lead_to(changes, on_devices(changed, giver, less))
        lead_to(changes, squeeze(facts, changed, stage))


@njit(cache=True)
def add_merges(changes: list[Change], facts: Facts, stages: Stages, stage: int, near: Near) -> None:
    """Two stages become one, on the devices of both or of one, and the busiest get what is over."""
    table = stages.table
    for other in near.stage:
        into, gone = (stage, other) if table[stage, HOST] == stage else (other, stage)
        if table[into, HOST] == gone:
            continue
        merged = without(stages, gone, into)
        at = into - (gone < into)
        if merged.table[at, HOST] != at:
            lead_to(changes, merged)
            continue
        least = merged.table[at, REPLICAS]
        free = facts.rules.devices - used_devices(merged.table)
        most = at_most(facts.costs, merged.table[at, SIZE], least + free)
        for replicas in (min(least, most), max(least, most)):
            lead_on(changes, on_devices(merged, at, replicas), NOBODY)


@njit(cache=True)
def _cuts(facts: Facts, stages: Stages, stage: int) -> list[Bools]:
    """Sets that may be split off a stage: its components, and what follows a cut of its members in order."""
    members = members_of(stages.of, stage)
    component = components_of(facts.graph, stages.of, stage)
    count = np.max(component) + 1
    cuts = [component == one for one in range(count) if count > 1]
    number = np.arange(len(stages.of))
    if len(members) <= FEW:
        return cuts + [number >= v for v in members[1:]] + [number == v for v in members]
    passed = np.cumsum(single_s(facts, stages.table[stage])[members])
    last = -1
    for cut in CUTS:
        place = np.searchsorted(passed, cut * passed[-1]) + 1
        if last < place < len(members):
            cuts.append(number >= members[place])
        last = place
    return cuts


@njit(cache=True)
def _mergeable(facts: Facts, stages: Stages, but: int, after: Bools) -> list[tuple[float, int, int]]:
    """The pairs of neighbours that take least time together: seconds, and the two."""
    table = stages.table
    pairs = [(0.0, 0, 0) for _ in range(0)]
    for a in range(len(table)):
        for b in range(len(table)):
            if after[a, b] and but not in (a, b) and table[a, HOST] == a and table[b, HOST] == b:
                label = np.where(stages.of == b, a, stages.of)
                pairs.append((seconds_on(facts, label, a, table[a], ONE) / table[a, REPLICAS], a, b))
    pairs.sort()
    return pairs[:JOINED]


@njit(cache=True)
def add_splits(changes: list[Change], facts: Facts, stages: Stages, stage: int, after: Bools) -> None:
    """A stage becomes two: on its devices and the free ones, on some taken from others, or on those that merging two
    others sets free."""
    costs, whole, second = facts.costs, stages.table[stage], len(stages.table)
    free = facts.rules.devices - used_devices(stages.table)
    if len(members_of(stages.of, stage)) < 2:
        return
    pairs = _mergeable(facts, stages, stage, after)
    for upper in _cuts(facts, stages, stage):
        halves = divided(stages, stage, upper)
        if whole[HOST] != stage:
            lead_to(changes, halves)
            continue
        for replicas in range(1, whole[REPLICAS] + free):
            if row_of(costs, whole[SIZE], replicas) >= 0:
                rest = at_most(costs, whole[SIZE], whole[REPLICAS] + free - replicas)
                split = on_devices(on_devices(halves, stage, replicas), second, rest)
                lead_to(changes, split)
        if free == 0:
            lead_to(changes, squeeze(facts, halves, NOBODY))
            for _, a, b in pairs:
                given = min(stages.table[b, REPLICAS], whole[REPLICAS])
                joined = without(on_devices(halves, second, given), b, a)
                lead_on(changes, joined, NOBODY)


@njit(cache=True)
def cut_in_runs(facts: Facts, label: Ints, chosen: int, like: Ints, stages: int) -> tuple[Ints, int]:
    """(the run of every super-operator with a label, how many runs): in their order, at most so many of about the same
    time on one device."""
    each = single_s(facts, like)
    whole = 0.0
    for v in range(len(label)):
        whole += each[v] if label[v] == chosen else 0.0
    run, runs, last, end = np.full(len(label), -1, np.int64), 0, -1, 0.0
    for v in range(len(label)):
        if label[v] != chosen:
            continue
        end += each[v]
        at = int(stages * (end - each[v] / 2) / (whole if whole > 0 else 1.0))
        if at != last:
            runs, last = runs + 1, at
        run[v] = runs - 1
    return run, runs


@njit(cache=True)
def _grouped(facts: Facts, component: Ints, count: int, groups: int, like: Ints) -> Ints:
    """The group of every component: of about the same time, those that take most first."""
    takes, last = np.empty(count), np.empty(count, np.int64)
    for one in range(count):
        takes[one], last[one] = seconds_on(facts, component, one, like, ONE), np.flatnonzero(component == one)[-1]
    group_of, loads = np.empty(count, np.int64), np.full(groups, -1.0)  # less than nothing: empty
    by_last = np.argsort(last)
    for one in by_last[np.argsort(-takes[by_last], kind="mergesort")]:
        group_of[one] = np.argmin(loads)
        loads[group_of[one]] = max(loads[group_of[one]], 0.0) + takes[one]
    return group_of


@njit(cache=True)
def by_branch(facts: Facts, component: Ints, groups: int, like: Ints, stages: int, devices: int) -> Stages:
    """Components as so many groups of about the same time beside each other, which share the devices by work; each in
    as many runs as keep to ``stages`` on all the devices.

    component: of super-operators, ELSEWHERE for those that are none. like: the row of a stage that the new ones are as.
    """
    group_of = _grouped(facts, component, int(np.max(component)) + 1, groups, like)
    label = np.where(component >= 0, group_of[np.maximum(component, 0)], ELSEWHERE)
    takes, shares = np.empty(groups), np.ones(groups, np.int64)
    for g in range(groups):
        takes[g] = seconds_on(facts, label, g, like, ONE)
    for _ in range(devices - groups):
        shares[np.argmax(takes / shares)] += 1
    of, table, count = np.full(len(label), ELSEWHERE, np.int64), np.empty((devices, len(like)), np.int64), 0
    for g in range(groups):
        wanted = max(1, int(np.rint(stages * shares[g] / devices)))
        run, runs = cut_in_runs(facts, label, g, like, min(wanted, shares[g]))
        replicas = at_most(facts.costs, like[SIZE], shares[g] // runs)
        of = np.where(run >= 0, run + count, of)
        for s in range(count, count + runs):
            table[s] = like
            table[s, REPLICAS], table[s, HOST] = replicas, s
        count += runs
    return Stages(of, table[:count])


@njit(cache=True)
def _in_place_of(stages: Stages, chosen: Bools, new: Stages) -> Stages:
    """The draft with the stages ``chosen``, which neither have guests nor are any, exchanged for new ones."""
    old = np.flatnonzero(~chosen)
    at = np.full(len(stages.table), -1, np.int64)
    at[old] = np.arange(len(old))
    table = np.empty((len(old) + len(new.table), stages.table.shape[1]), np.int64)
    for s in old:
        table[at[s]] = stages.table[s]
        table[at[s], HOST] = at[stages.table[s, HOST]]
    table[len(old) :] = new.table
    table[len(old) :, HOST] += len(old)
    return Stages(np.where(new.of >= 0, new.of + len(old), at[stages.of]), table)


@njit(cache=True)
def _stretches(table: Ints, stage: int, near: Ints) -> list[Bools]:
    """The sets of a stage and one or two of its neighbours that may be cut again: none runs on the devices of others or
    has these run on its own, and micro-batches are equal."""
    sets = [np.zeros(0, np.bool_) for _ in range(0)]
    for i in range(len(near)):
        for j in range(i, len(near)):  # with itself: one neighbour
            chosen = np.zeros(len(table), np.bool_)
            chosen[stage] = chosen[near[i]] = chosen[near[j]] = True
            fit = i == j or j < MOST_PAIRED
            for s in range(len(table)):
                if chosen[s] or chosen[table[s, HOST]]:
                    fit &= table[s, HOST] == s and table[s, SIZE] == table[stage, SIZE]
            if fit:
                sets.append(chosen)
    return sets


@njit(cache=True)
def add_recuts(changes: list[Change], facts: Facts, stages: Stages, stage: int, near: Near) -> None:
    """A stage and one or two of its neighbours are cut again, on their devices and the free ones: into fewer and more
    stages, and by the components of what they hold. New stages are run as the first one."""
    table = stages.table
    for chosen in _stretches(table, stage, near.stage):
        like, count = table[stage].copy(), int(chosen.sum())
        like[SLACK], devices = np.min(table[chosen, SLACK]), int(table[chosen, REPLICAS].sum())
        inside = np.where(chosen[stages.of], INSIDE, ELSEWHERE)
        component = components_of(facts.graph, inside, INSIDE)
        for groups in range(1, min(int(np.max(component)) + 1, devices, MOST_STAGES) + 1):
            label = inside if groups == 1 else component
            numbers = np.arange(1, min(count + MOST_STAGES, devices) + 1)
            if groups > 1:
                numbers = np.unique(np.array([1, count, 2 * count, devices]))
            for number in numbers:
                new = by_branch(facts, label, groups, like, int(number), devices)
                lead_on(changes, _in_place_of(stages, chosen, new), NOBODY)
