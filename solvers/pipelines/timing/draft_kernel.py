"""From a draft over super-operators to its seconds and peak bytes, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.pipelines.timing.bundles_kernel import Messages, bundles_of
from solvers.pipelines.timing.orders_kernel import orders_of
from solvers.pipelines.timing.run_kernel import Keeps, folds, run_orders
from solvers.pipelines.timing.stages_kernel import (
    KINDS,
    F,
    Operators,
    U,
    gathers_of,
    in_flight,
    quotient,
    topological,
    unit_costs,
    unit_numbers,
    wait_for_gathers,
    waits_of,
)
from solvers.pipelines.timing.transfers_kernel import Places, Units, Wires

SIZE, REPLICAS, ROW, AGAIN, BLOCK, SLACK, HOST = range(7)
"""Columns of the table of stages."""
ONE_F_ONE_B, GPIPE, GIVEN, IN_PARTS = range(4)
"""Which orders devices follow: GIVEN are given; IN_PARTS has I and W in place of B."""


class Facts(NamedTuple):
    """What is asked of every draft: see `Operators`, `Messages` and `Wires`; edges: see `quotient`; reads: see
    `waits_of`."""

    operators: Operators
    messages: Messages
    wires: Wires
    edges: Ints
    reads: Ints


class Options(NamedTuple):
    """mini_batch: samples. backward: whether the graph has one. stated, counted, synchronise: see `run_orders`."""

    mini_batch: int
    backward: bool
    stated: bool
    counted: bool
    synchronise: bool


class Orders(NamedTuple):
    """Orders that are given, by device in the numbers of `Places`; see `orders_of`. split: whether they have I and
    W in place of B."""

    start: Ints
    unit: Ints
    micro: Ints
    split: bool


@njit(cache=True)
def places_of(table: Ints, device: Ints) -> Places:
    """The devices of every stage: device has those of the stages that have their own, in turn."""
    stages = len(table)
    group = np.empty(KINDS * stages, np.int64)
    replicas = np.empty(stages, np.int64)
    own = np.empty(stages, np.int64)
    groups = 0
    for s in range(stages):
        if table[s, HOST] == s:
            own[s] = groups
            replicas[groups] = table[s, REPLICAS]
            groups += 1
    for s in range(stages):
        group[KINDS * s : KINDS * (s + 1)] = own[table[s, HOST]]
    replicas = replicas[:groups].copy()
    return Places(group, replicas, np.cumsum(replicas) - replicas, replicas, device)


@njit(cache=True)
def _wait_for_gathers(facts: Facts, places: Places, stage_of: Ints, exists: Bools, seconds: Floats) -> bool:
    """Add to ``seconds`` of units what they wait for parameters; False where a link is missing. Orders are made
    before: they do not look at it."""
    stages = len(places.group) // KINDS
    if not facts.operators.params.any():
        return True
    gathers = gathers_of(facts.operators, stage_of, stages)
    for s in range(stages):
        g = places.group[KINDS * s]
        replicas = places.replicas[g]
        if replicas == 1 or gathers[2, s] == 0:
            continue
        latency_s, bandwidth = 0.0, np.inf
        for p in range(replicas if len(facts.wires.wire) > 1 else 1):
            src, dst = 0, 0
            if len(facts.wires.wire) > 1:
                first = places.first[g]
                src, dst = places.device[first + p], places.device[first + (p + 1) % replicas]
            latency_s = max(latency_s, facts.wires.latency_s[src, dst])
            bandwidth = min(bandwidth, facts.wires.bandwidth[src, dst])
        if bandwidth <= 0:
            return False
        wait_for_gathers(gathers, replicas, s, latency_s, 1.0 / bandwidth, exists, seconds)
    return True


@until_worth_it
@njit(cache=True)
def run_draft(
    facts: Facts,
    options: Options,
    pipeline: int,
    given: Orders,
    stage_of: Ints,
    table: Ints,
    device: Ints,
    working: Floats,
    kept: Floats,
) -> tuple[float, Floats, Floats, Floats]:
    """(seconds, peak bytes of one device of every stage, compute seconds of every stage, peak bytes of devices).

    pipeline: ONE_F_ONE_B, GPIPE, GIVEN or IN_PARTS. stage_of: of every super-operator. table: a row for every stage,
    whose host is itself where it has none, and whose replicas are its host's. device: see `places_of`; none where
    all are alike. working: workspace of forwards, where not that of their operators (else
    empty), [stages]. kept: what stages that recompute read on their own devices, [stages].
    """
    stages = len(table)
    nothing = np.zeros(stages)
    size = table[:, SIZE].copy()
    counts = options.mini_batch // size
    after = quotient(stage_of, stages, facts.edges)
    waits = waits_of(stage_of, stages, facts.reads)
    if len(topological(after)) < stages:
        return np.inf, nothing, nothing, nothing
    for kind in range(3):
        if len(topological(waits[kind, kind])) < stages:
            return np.inf, nothing, nothing, nothing
    again = table[:, AGAIN] == 1
    unit_of = unit_numbers(stages, given.split or pipeline == IN_PARTS)
    exists, seconds, workspace, saved, static, gradient = unit_costs(
        facts.operators, stage_of, unit_of, table[:, ROW].copy(), again
    )
    places = places_of(table, device)
    unit_size = np.empty(KINDS * stages, np.int64)
    for s in range(stages):
        unit_size[KINDS * s : KINDS * (s + 1)] = size[s]
        unit_size[KINDS * s + U] = options.mini_batch
        if len(working):
            workspace[KINDS * s + F] = working[s]
    units = Units(exists, seconds, workspace, unit_size, options.mini_batch // unit_size)
    if pipeline == GIVEN:
        order_start, order_unit, order_micro = given.start, given.unit, given.micro
    else:
        keeps = np.ones(stages, np.int64)
        if options.backward and pipeline == GPIPE:
            keeps = counts
        elif options.backward:
            hosted = table[:, HOST] != np.arange(stages)
            block, slack = table[:, BLOCK].copy(), table[:, SLACK].copy()
            keeps = in_flight(after, size, block, slack, options.mini_batch, hosted)
        runs, order_start, order_unit, order_micro = orders_of(
            exists,
            seconds,
            waits,
            counts,
            size,
            keeps,
            table[:, BLOCK].copy(),
            places.group[::KINDS].copy(),
            len(places.replicas),
            pipeline == GPIPE,
        )
        if not runs:
            return np.inf, nothing, nothing, nothing
    if not _wait_for_gathers(facts, places, stage_of, exists, seconds):
        return np.inf, nothing, nothing, nothing
    place = places.group.copy()
    if len(device):
        for u in range(len(place)):
            place[u] = device[places.first[place[u]]]
    where = place * (options.mini_batch + 1) + unit_size
    bundles = bundles_of(facts.messages, stage_of, unit_of, places.group, where, places.replicas > 1)
    if not len(device):
        groups = np.arange(len(places.replicas))
        if folds(bundles, units, places):
            places = Places(places.group, places.replicas, groups, np.ones_like(groups), groups)
        else:
            everyone = np.arange(places.replicas.sum())
            places = Places(places.group, places.replicas, places.first, places.width, everyone)
    total, peak = run_orders(
        units,
        Keeps(saved, kept, again, static, gradient),
        bundles,
        places,
        facts.wires,
        order_start,
        order_unit,
        order_micro,
        options.stated,
        options.counted,
        options.synchronise,
    )
    fullest, busy = np.zeros(stages), np.zeros(stages)
    for s in range(stages):
        g = places.group[KINDS * s]
        for p in range(places.first[g], places.first[g] + places.width[g]):
            fullest[s] = max(fullest[s], peak[places.device[p]])
        for unit in range(KINDS * s, KINDS * (s + 1)):
            if exists[unit]:
                busy[s] += seconds[unit] * units.micro_batches[unit]
    return total, fullest, busy, peak
