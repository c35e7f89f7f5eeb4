"""Which drafts are allowed, and a first look at what they take, without any simulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.pipelines.descent.facts import (
    AGAIN,
    BLOCK,
    BYTES,
    HOST,
    MAKER,
    MESSAGE,
    REPLICAS,
    SECONDS,
    SIZE,
    SLACK,
    Facts,
    Rules,
    Stages,
)
from solvers.pipelines.descent.stages_kernel import Works, mean_s, row_of, tidy, works_of
from solvers.pipelines.seating import free_kinds
from solvers.pipelines.timing.stages_kernel import in_flight, quotient, topological
from solvers.plan.drafts import WHOLE


class Look(NamedTuple):
    """What a draft takes, roughly."""

    over_bytes: float
    """excess over the memory caps, summed over stages"""
    rough_s: float
    """seconds of an iteration"""


@njit(cache=True)
def after_of(facts: Facts, stages: Stages) -> Bools:
    """Which stage is read by which other, [stages, stages]."""
    return quotient(stages.of, len(stages.table), facts.graph.edges)


@njit(cache=True)
def with_guests(table: Ints, values: Floats) -> Floats:
    """Values of stages with those of their guests added to them, [stages]."""
    whole = values.copy()
    for s in range(len(table)):
        if table[s, HOST] != s:
            whole[table[s, HOST]] += values[s]
    return whole


@njit(cache=True)
def hosted_s(table: Ints, works: Works) -> float:
    """Seconds of an iteration that guests take at most on the devices of a stage."""
    hosted = np.zeros(len(table))
    for s in range(len(table)):
        if table[s, HOST] != s:
            hosted[table[s, HOST]] += works.busy_s[s]
    return float(np.max(hosted))


@njit(cache=True)
def _keeps_pins(rules: Rules, stages: Stages) -> bool:
    """Whether stages on one device can have all that is pinned to it, and nothing that is pinned elsewhere."""
    count = len(stages.table)
    device = np.full(count, -1, np.int64)
    for v in range(len(stages.of)):
        home, pinned = stages.table[stages.of[v], HOST], rules.pinned[v]
        if pinned < 0 or device[home] == pinned:
            continue
        if device[home] >= 0 or stages.table[home, REPLICAS] > 1 or (device == pinned).any():
            return False
        device[home] = pinned
    return True


@njit(cache=True)
def allowed(facts: Facts, stages: Stages, works: Works, after: Bools) -> bool:
    """Whether the stages, which are a partition, are a draft of the question: they neither wait for each other, nor
    take too many devices. after: see `after_of`."""
    costs, rules, table = facts.costs, facts.rules, stages.table
    used, guests = 0, False
    for s in range(len(table)):
        host = table[s, HOST]
        if table[host, HOST] != host or row_of(costs, table[s, SIZE], table[host, REPLICAS]) < 0:
            return False
        guests |= host != s
        used += table[s, REPLICAS] if host == s else 0
    if used > rules.devices or len(topological(after)) < len(table) or not _keeps_pins(rules, stages):
        return False
    if not guests or rules.by_stage:
        return True
    if hosted_s(table, works) > rules.glue_share * mean_s(table, works):
        return False
    homes = table[:, HOST].copy()[stages.of]
    return len(topological(quotient(homes, len(table), facts.graph.edges))) == len(table)


@njit(cache=True)
def flights_of(rules: Rules, table: Ints, after: Bools) -> Ints:
    """Micro-batches in flight of every stage."""
    size = table[:, SIZE].copy()
    if not rules.backward:
        return np.ones(len(table), np.int64)
    if rules.all_in_flight:
        return rules.mini_batch // size
    hosted = table[:, HOST] != np.arange(len(table))
    return in_flight(after, size, table[:, BLOCK].copy(), table[:, SLACK].copy(), rules.mini_batch, hosted)


@njit(cache=True)
def levelled(facts: Facts, stages: Stages, after: Bools) -> Stages:
    """The stages with slack added where one would keep fewer samples in flight than a stage that follows it: that one
    would wait for ever for what it is to forward before its first backward."""
    if not stages.table[:, SLACK].any():
        return stages
    table, size = stages.table.copy(), stages.table[:, SIZE]
    samples = flights_of(facts.rules, table, after) * size
    order = topological(after)
    for rank in range(len(order) - 1, -1, -1):
        s, most = order[rank], 0
        for y in range(len(table)):
            if after[s, y]:
                most = max(most, samples[y])
        if most > samples[s]:
            more = (most - samples[s] + size[s] - 1) // size[s]
            samples[s] += more * size[s]
            table[s, SLACK] += more
    return Stages(stages.of, table)


@njit(cache=True)
def slower_of(rules: Rules, table: Ints, busy_s: Floats) -> Floats:
    """How many times as long as on the fastest kind each stage takes where `Seating` puts it, pins aside. busy_s: on
    the fastest kind, guests with their hosts, [stages]."""
    own = np.flatnonzero(table[:, HOST] == np.arange(len(table)))
    kind = free_kinds(rules.kinds, busy_s[own], table[:, REPLICAS].copy()[own], np.full(len(own), -1, np.int64))
    at = np.zeros(len(table), np.int64)
    if (kind >= 0).all():
        at[own] = kind
    return rules.slower[at[table[:, HOST]]]


@njit(cache=True)
def least_s(facts: Facts, stages: Stages, works: Works) -> float:
    """Seconds of the busiest device, which no schedule beats."""
    busy = with_guests(stages.table, works.busy_s)
    if len(facts.rules.kinds) > 1:
        busy = busy * slower_of(facts.rules, stages.table, busy)
    return float(np.max(busy))


@njit(cache=True)
def _transfers(facts: Facts, stages: Stages) -> tuple[Floats, Floats]:
    """Seconds that a micro-batch takes from one stage to another, and its bytes for one replica of the other, [stages,
    stages] both."""
    costs, table = facts.costs, stages.table
    count = len(table)
    seconds, nbytes = np.zeros((count, count)), np.zeros((count, count))
    row, last = np.empty(count, np.int64), np.full(count, -1, np.int64)
    for s in range(count):
        row[s] = row_of(costs, table[s, SIZE], table[s, REPLICAS])
    for e in range(len(costs.sent)):
        a, m = stages.of[costs.sent[e, MAKER]], costs.sent[e, MESSAGE]
        for i in range(costs.reader_start[m], costs.reader_start[m + 1]):
            b = stages.of[costs.reader[i]]
            if b != a and last[b] != e:  # once to every stage
                last[b] = e
                seconds[a, b] += costs.messages[row[a], SECONDS, m]
                nbytes[a, b] += costs.messages[row[a], BYTES, m] * table[a, REPLICAS] / table[b, REPLICAS]
    return seconds, nbytes


@njit(cache=True)
def _over_bytes(rules: Rules, table: Ints, works: Works, flights: Ints, received: Floats) -> float:
    """Bytes above the caps: saved and received ones of every micro-batch in flight."""
    saved = works.saved_bytes * np.where(table[:, AGAIN] == WHOLE, 1, flights)
    held = with_guests(table, works.static_bytes + saved + works.workspace_bytes + received * flights)
    own = np.flatnonzero(table[:, HOST] == np.arange(len(table)))
    over, first = 0.0, 0
    if rules.caps[0] == rules.caps[-1]:
        for s in own:
            over += max(0.0, held[s] - rules.caps[0])
        return over
    for s in own[np.argsort(-held[own])]:  # the fullest on the largest
        for cap in rules.caps[first : first + table[s, REPLICAS]]:
            over += max(0.0, held[s] - cap)
        first += table[s, REPLICAS]
    return over


@njit(cache=True)
def look(facts: Facts, stages: Stages, works: Works, after: Bools) -> Look:
    """A first look at an allowed draft."""
    rules, table, count = facts.rules, stages.table, len(stages.table)
    busy = with_guests(table, works.busy_s)
    forward, backward = works.forward_s, works.backward_s
    if len(rules.kinds) > 1:
        slower = slower_of(rules, table, busy)
        busy, forward, backward = busy * slower, forward * slower, backward * slower
    flights = flights_of(rules, table, after)
    there_s, nbytes = _transfers(facts, stages)
    received = np.zeros(count)
    order = topological(after)
    # Longest round trips before and after every stage; gradients come back, so what is sent counts twice.
    starts, ends = np.zeros(count), np.zeros(count)
    for rank in range(len(order) - 1, -1, -1):
        a = order[rank]
        for b in range(count):
            if after[a, b]:
                received[b] += nbytes[a, b]
                ends[a] = max(ends[a], ends[b] + forward[b] + backward[b] + 2 * there_s[a, b])
    rough_s = 0.0
    for a in order:
        for b in range(count):
            if after[a, b]:
                starts[b] = max(starts[b], starts[a] + forward[a] + backward[a] + 2 * there_s[a, b])
        more, waits = flights[a] - 1, ends[a]
        if more and not rules.all_in_flight:  # what is in flight fills the round trip
            waits = max(0.0, waits - more * forward[a]) + max(0.0, waits - more * backward[a])
        rough_s = max(rough_s, starts[a] + busy[a] + waits + works.sync_s[a])
    return Look(_over_bytes(rules, table, works, flights, received), rough_s)


class FirstLook(NamedTuple):
    """What is known of a draft before any estimate. level: see `levelled`. glue_share: of the average work of a device,
    that guests take on the devices of a stage."""

    allowed: bool
    look: Look
    least_s: float
    glue_share: float
    level: Stages


@until_worth_it
@njit(cache=True)
def first_look(facts: Facts, stages: Stages) -> FirstLook:
    """A draft looked at by itself, which need not be allowed."""
    after, works, table = after_of(facts, stages), works_of(facts, stages), stages.table
    mean = mean_s(table, works)
    return FirstLook(
        allowed(facts, stages, works, after),
        look(facts, stages, works, after),
        least_s(facts, stages, works),
        hosted_s(table, works) / mean if mean > 0 else 0.0,
        levelled(facts, stages, after),
    )


tidied = until_worth_it(tidy)
