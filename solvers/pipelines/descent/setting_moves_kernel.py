"""Moves that leave the stages' operators alone: shared devices, slack, recomputation, micro-batches."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ONE, ZERO
from solvers.pipelines.descent.facts import (
    AFTER,
    AGAIN,
    BEFORE,
    BLOCK,
    HOST,
    NOBODY,
    REPLICAS,
    SIZE,
    SLACK,
    Change,
    Facts,
    Graph,
    Stages,
)
from solvers.pipelines.descent.operator_moves_kernel import Near
from solvers.pipelines.descent.stages_kernel import (
    allowed_size,
    divided,
    hosts_others,
    lead_on,
    lead_to,
    members_of,
    on_host,
    resized,
    row_of,
    single_s,
    with_entry,
)

MOST_SLACK = 4
MOST_BLOCK = 4
MOST_ENDS = 8


@njit(cache=True)
def _ends(graph: Graph, of: Ints, stage: int) -> Ints:
    """Members of a stage that nothing in it precedes, or follows: at most MOST_ENDS, from both ends."""
    members = members_of(of, stage)
    ends, n = np.empty(len(members), np.int64), 0
    for v in members:
        first, last = True, True
        for e in range(graph.start[BEFORE, v], graph.start[BEFORE, v + 1]):
            first &= of[graph.near[BEFORE, e]] != stage
        for e in range(graph.start[AFTER, v], graph.start[AFTER, v + 1]):
            last &= of[graph.near[AFTER, e]] != stage
        if first or last:
            ends[n] = v
            n += 1
    if n > MOST_ENDS:
        ends[MOST_ENDS // 2 : MOST_ENDS] = ends[n - MOST_ENDS // 2 : n].copy()
    return ends[: min(n, MOST_ENDS)]


@njit(cache=True)
def add_glue(
    changes: list[Change], facts: Facts, stages: Stages, stage: int, near: Near, busy: Floats, tiny_s: float
) -> None:
    """A stage or a single super-operator that takes next to no time goes on the devices of a neighbour as a stage of
    its own, or a stage that shares devices changes them or gets its own. busy: s of stages. tiny_s: next to no time."""
    table = stages.table
    own, size, replicas = table[stage, HOST] == stage, table[stage, SIZE], table[stage, REPLICAS]
    hosts = [s for s in near.stage if table[s, HOST] == s and row_of(facts.costs, size, table[s, REPLICAS]) >= 0]
    if not own:
        for host in hosts:
            if host != table[stage, HOST]:
                lead_to(changes, on_host(stages, stage, host))
        alone = with_entry(stages, stage, HOST, stage)
        lead_to(changes, with_entry(alone, stage, REPLICAS, ONE))
    elif busy[stage] <= tiny_s and not hosts_others(table, stage):
        for host in hosts:
            lead_on(changes, on_host(stages, stage, host), NOBODY)
    if len(members_of(stages.of, stage)) < 2:
        return
    homes = [stage for _ in range(1) if own] + hosts
    each, number = single_s(facts, table[stage]), np.arange(len(stages.of))
    for v in _ends(facts.graph, stages.of, stage):
        if each[v] / replicas <= tiny_s:
            split = with_entry(divided(stages, stage, number == v), len(table), SLACK, ZERO)
            split = with_entry(split, len(table), AGAIN, ZERO)
            for host in homes:
                lead_to(changes, on_host(split, len(table), host))


@njit(cache=True)
def add_settings(changes: list[Change], facts: Facts, stages: Stages, stage: int, after: Bools) -> None:
    """One stage runs more or less again, keeps more or fewer in flight, runs more or fewer in a row, or has larger or
    smaller micro-batches."""
    table, rules = stages.table, facts.rules
    for place in range(len(rules.again)):
        if rules.again[place] == table[stage, AGAIN]:
            for near in (place - 1, place + 1):
                if 0 <= near < len(rules.again):
                    lead_to(changes, with_entry(stages, stage, AGAIN, rules.again[near]))
    if rules.runs_ahead:
        now = table[stage, SLACK]
        for slack in (now - 1, now + 1, now + 2):
            if 0 <= slack <= MOST_SLACK:
                lead_to(changes, with_entry(stages, stage, SLACK, slack))
        if after[:, stage].any():
            changed = Stages(stages.of, table.copy())
            changed.table[:, SLACK] = np.minimum(MOST_SLACK, table[:, SLACK] + after[:, stage])
            lead_to(changes, changed)
        for block in (table[stage, BLOCK] // 2, table[stage, BLOCK] * 2):
            if 1 <= block <= MOST_BLOCK:
                lead_to(changes, with_entry(stages, stage, BLOCK, block))
    if rules.mixed:
        for size in (table[stage, SIZE] // 2, table[stage, SIZE] * 2):
            if allowed_size(facts, size):
                sizes = table[:, SIZE].copy()
                sizes[stage] = size
                lead_on(changes, resized(facts, stages, sizes), NOBODY)


@njit(cache=True)
def _for_all(stages: Stages, column: int, value: int) -> Stages:
    """The draft with one column of its table the same for all."""
    table = stages.table.copy()
    table[:, column] = value
    return Stages(stages.of, table)


@njit(cache=True)
def add_settings_of_all(changes: list[Change], facts: Facts, stages: Stages, sizes_only: bool) -> None:
    """The same for all stages at once."""
    rules, now = facts.rules, stages.table[:, SIZE]
    for sizes in (now // 2, now * 2):
        every = True
        for size in sizes:
            every &= allowed_size(facts, size)
        if every:
            lead_on(changes, resized(facts, stages, sizes), NOBODY)
    if sizes_only:
        return
    lead_on(changes, stages, NOBODY)
    if len(rules.again) > 1:
        for again in rules.again:
            lead_to(changes, _for_all(stages, AGAIN, again))
    if rules.runs_ahead:
        for slack in range(MOST_SLACK):
            lead_to(changes, _for_all(stages, SLACK, slack))
        for block in (1, 2, MOST_BLOCK):
            lead_to(changes, _for_all(stages, BLOCK, block))
