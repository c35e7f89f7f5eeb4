"""From a draft over super-operators to its seconds and peak bytes, on plain arrays.

Stages become units, and these the tasks of `solvers.evaluation`, which are run and whose memory is counted as there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.holds_kernel import HandedOn, UnitBytes, holds_of, peaks_of
from solvers.evaluation.routes_kernel import routes_of
from solvers.evaluation.rows_kernel import pairs_inside_stages
from solvers.evaluation.run_kernel import run_tasks
from solvers.evaluation.tasks import Bundles, F, Messages, Rows, Sends, Tasks, Units
from solvers.evaluation.tasks_kernel import Rings, Wires, tasks_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.kernels.links_kernel import ALIKE, class_of
from solvers.kernels.plain import NO
from solvers.pipelines.timing.lowering_kernel import (
    Orders,
    Places,
    between_stages,
    folds,
    one_for_all,
    rows_of_draft,
    units_of_draft,
    with_homes,
)
from solvers.pipelines.timing.orders_kernel import orders_of
from solvers.pipelines.timing.stages_kernel import (
    KINDS,
    Operators,
    StageCosts,
    gathers_of,
    in_flight,
    quotient,
    stage_costs,
    topological,
    unit_numbers,
    wait_for_gathers,
    waits_of,
)
from solvers.plan.drafts import WHOLE

SIZE, REPLICAS, ROW, AGAIN, BLOCK, SLACK, HOST = range(7)
"""Columns of the table of stages."""
ONE_F_ONE_B, GPIPE, GIVEN, IN_PARTS = range(4)
"""Which orders devices follow: GIVEN are given; IN_PARTS has I and W in place of B."""


class Facts(NamedTuple):
    """What is asked of every draft."""

    operators: Operators
    messages: Messages
    wires: Wires
    """the links between accelerators"""
    edges: Ints
    """[edges, 2] see `stages_kernel.quotient`"""
    reads: Ints
    """[reads, 3] see `stages_kernel.waits_of`"""


class Options(NamedTuple):
    """What problems differ in."""

    mini_batch: int
    """samples"""
    backward: bool
    """whether the graph has one"""
    counted: bool
    """whether memory is counted, else it is what stages hold all the time"""
    synchronise: bool
    """whether replicas add up gradients"""
    times: int
    """this and what follows: as in `Rings`"""
    latency_s: float
    bandwidth: float
    by_node: bool
    by_receiver: bool


class Given(NamedTuple):
    """Orders that are given."""

    orders: Orders
    split: bool
    """whether they have I and W in place of B"""


@njit(cache=True)
def places_of(table: Ints, device: Ints) -> Places:
    """The devices of every stage: device has those of the stages that have their own, in turn; none where all are
    alike, then they are numbered in turn."""
    stages = len(table)
    replicas, own = np.empty(stages, np.int64), np.empty(stages, np.int64)
    groups = 0
    for s in range(stages):
        if table[s, HOST] == s:
            own[s] = groups
            replicas[groups] = table[s, REPLICAS]
            groups += 1
    start = np.zeros(groups + 1, np.int64)
    start[1:] = np.cumsum(replicas[:groups])
    return Places(own[table[:, HOST]], replicas[:groups].copy(), start, device if len(device) else np.arange(start[-1]))


@njit(cache=True)
def _wait_for_gathers(facts: Facts, places: Places, stage_of: Ints, exists: Bools, seconds: Floats) -> bool:
    """Add to ``seconds`` of units what they wait for parameters; False where a link is missing. Orders are made
    before: they do not look at it."""
    stages, wires = len(places.group), facts.wires
    if not facts.operators.params.any():
        return True
    gathers = gathers_of(facts.operators, stage_of, stages)
    for s in range(stages):
        g = places.group[s]
        replicas = places.replicas[g]
        if replicas == 1 or gathers[2, s] == 0:
            continue
        latency_s, bandwidth = 0.0, np.inf
        for p in range(1 if wires.alike else replicas):
            link = ALIKE
            if not wires.alike:
                src, dst = places.device[places.start[g] + p], places.device[places.start[g] + (p + 1) % replicas]
                link = class_of(wires.links, src, dst)
            latency_s = max(latency_s, wires.links.latency_s[link])
            bandwidth = min(bandwidth, wires.links.bandwidth[link])
        if bandwidth <= 0:
            return False
        wait_for_gathers(gathers, replicas, s, latency_s, 1.0 / bandwidth, exists, seconds)
    return True


@njit(cache=True)
def _orders(
    facts: Facts, options: Options, pipeline: int, stage_of: Ints, table: Ints, costs: StageCosts, places: Places
) -> tuple[bool, Orders]:
    """(whether there are any, the orders of devices); see `orders_kernel.orders_of`."""
    stages = len(table)
    size, block = table[:, SIZE].copy(), table[:, BLOCK].copy()
    counts = options.mini_batch // size
    after = quotient(stage_of, stages, facts.edges)
    waits = waits_of(stage_of, stages, facts.reads)
    runs = len(topological(after)) == stages
    for kind in range(3):
        runs &= len(topological(waits[kind, kind])) == stages
    none = np.zeros(0, np.int64)
    orders = Orders(none, none, none)
    if runs and pipeline != GIVEN:
        flights = np.ones(stages, np.int64)
        if options.backward and pipeline == GPIPE:
            flights = counts
        elif options.backward:
            hosted = table[:, HOST] != np.arange(stages)
            flights = in_flight(after, size, block, table[:, SLACK].copy(), options.mini_batch, hosted)
        runs, start, unit, micro_batch = orders_of(
            costs, waits, counts, size, flights, block, places.group, len(places.replicas), pipeline == GPIPE
        )
        orders = Orders(start, unit, micro_batch)
    return runs, orders


@njit(cache=True)
def _bundles(messages: Messages, units: Units, number: Ints, unit_of: Ints, stage_of: Ints) -> tuple[Bundles, Ints]:
    """What is sent, and which pairs of units wait on their devices: see `routes_kernel.routes_of`."""
    home = np.empty(4 * len(stage_of), np.int64)  # of every end one unit
    for end in range(len(home)):
        home[end] = number[unit_of[stage_of[end // 4], end % 4]]
    homes = with_homes(units, np.arange(len(home) + 1), home)
    return routes_of(homes, between_stages(messages, stage_of), NO, NO)


@njit(cache=True)
def _held(costs: StageCosts, read_here: Floats, units: Units) -> UnitBytes:
    """What a task of every unit holds. read_here: what stages that recompute read on their own devices, [stages]."""
    count = len(units.stage)
    saved, rerun_inputs, working = np.zeros(count), np.zeros(count), np.empty(count)
    for u in range(count):
        working[u] = costs.workspace[KINDS * units.stage[u] + units.kind[u]]
        if units.kind[u] == F:
            saved[u], rerun_inputs[u] = costs.saved[units.stage[u]], read_here[units.stage[u]]
    return UnitBytes(saved, rerun_inputs, working, np.zeros(count))


@njit(cache=True)
def _peaks(
    units: Units, rows: Rows, tasks: Tasks, sends: Sends, first: Ints, last: Ints, nbytes: UnitBytes, static: Floats,
    stages: int,
) -> Floats:  # fmt: skip
    """Peak bytes of devices. first, last: instants at which tasks start and end. static: what devices hold all the
    time."""
    none, yes = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    handed = HandedOn(none, none, np.zeros((0, 2)), none, none, none, yes, yes)
    return peaks_of(holds_of(units, rows, tasks, sends, nbytes, handed, none, stages), first, last, static)


@until_worth_it
@njit(cache=True)
def run_draft(
    facts: Facts, options: Options, pipeline: int, given: Given, stage_of: Ints, table: Ints, device: Ints,
    working: Floats, read_here: Floats,
) -> tuple[float, Floats, Floats, Floats]:  # fmt: skip
    """(seconds, peak bytes of one device of every stage, compute seconds of every stage, peak bytes of devices).

    pipeline: ONE_F_ONE_B, GPIPE, GIVEN or IN_PARTS. stage_of: of every super-operator. table: a row for every stage,
    whose host is itself where it has none, and whose replicas are its host's. device: see `places_of`. working:
    workspace of forwards, where not that of their operators (else empty), [stages]. read_here: what stages that
    recompute read on their own devices, [stages]. Seconds are inf if the orders deadlock or a link is missing.
    """
    stages, nothing = len(table), np.zeros(len(table))
    unit_of = unit_numbers(stages, given.split or pipeline == IN_PARTS)
    again, size = table[:, AGAIN] == WHOLE, table[:, SIZE].copy()
    costs = stage_costs(facts.operators, stage_of, unit_of, table[:, ROW].copy(), again)
    for s in range(len(working)):
        costs.workspace[KINDS * s + F] = working[s]
    places = places_of(table, device)
    runs, orders = _orders(facts, options, pipeline, stage_of, table, costs, places)
    if not runs or not _wait_for_gathers(facts, places, stage_of, costs.exists, costs.seconds):
        return np.inf, nothing, nothing, nothing
    units, number = units_of_draft(costs.exists, again, size, options.mini_batch, places)
    bundles, local = _bundles(facts.messages, units, number, unit_of, stage_of)
    if facts.wires.alike and folds(bundles, units):
        places = one_for_all(places)
        units, number = units_of_draft(costs.exists, again, size, options.mini_batch, places)
    devices = int(np.max(places.device)) + 1
    static = np.zeros(devices)
    for s in range(stages):
        for p in range(places.start[places.group[s]], places.start[places.group[s] + 1]):
            static[places.device[p]] += costs.static[s]
    whole, rows = rows_of_draft(units, number, given.orders if pipeline == GIVEN else orders, devices)
    seconds = costs.seconds[KINDS * units.stage + units.kind]
    total, peak = np.inf, static
    if whole and np.isfinite(seconds).all():
        given_wires = facts.wires
        wires = Wires(
            given_wires.mode, given_wires.stated, given_wires.alike, given_wires.links, np.zeros(devices, np.bool_)
        )
        several = places.replicas[places.group] * options.times > 1
        gradient = np.where(several, costs.gradient, 0.0) if options.synchronise else nothing
        following = places.device[places.start[places.group]]
        rings = Rings(
            gradient,
            places.group,
            following,
            options.times,
            options.latency_s,
            options.bandwidth,
            options.by_node,
            options.by_receiver,
        )
        pairs = np.concatenate((pairs_inside_stages(units), local))
        missing, tasks, sends = tasks_of(units, rows, seconds[rows.unit], pairs, bundles, wires, rings)
        _, end, _, done, first, last = run_tasks(tasks, np.zeros(devices, np.bool_))
        if missing == 0 and done == len(end):
            total = np.max(end) if done else 0.0
            if options.counted:
                held = _held(costs, read_here, units)
                peak = _peaks(units, rows, tasks, sends, first, last, held, static, stages)
    fullest, busy = np.zeros(stages), np.zeros(stages)
    for s in range(stages):
        for p in range(places.start[places.group[s]], places.start[places.group[s] + 1]):
            fullest[s] = max(fullest[s], peak[places.device[p]])
    for u in range(len(seconds)):
        busy[units.stage[u]] += seconds[u] * units.micro_batches[u]
    return total, fullest, busy, peak
