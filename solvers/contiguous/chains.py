"""Chains of parts: what the contiguous planners search for, and the devices they share out.

A chain cuts the super-operators into consecutive parts, one device each. It is built from the end
of the pipeline: how many parts follow is then known, and with it the micro-batches in flight.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.contracted import Contracted, Shape
from solvers.contiguous.load_kernel import Costs, Limits, Load, cut_order
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.drafts import DraftStage
from solvers.problem.problem import Pipeline, Problem, Transfers
from solvers.schedules.nodes.mapping import GRADIENT_WEIGHTS, map_stages, nodes_to_map

ROUNDING = 1e-12
"""Relative slack of memory caps, for sums added in another order."""
STEPS_A_CALL = 5_000_000
"""Steps of a linear programme per kernel call."""


@dataclass(frozen=True, slots=True)
class Part:
    """Super-operators on an accelerator or a CPU, or on several accelerators that share every micro-batch.

    pools: where accelerators are not all alike, for every replica those of which it is one.
    """

    on_cpu: bool
    nodes: tuple[int, ...]
    replicas: int = 1
    pools: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts from the start of the pipeline to its end, and the largest load in seconds per sample."""

    load_s: float
    parts: tuple[Part, ...]


NO_CHAIN = Chain(math.inf, ())


def costs_of(contracted: Contracted, *, memory: str = "all") -> Costs:
    """The kernels' view of the costs. memory: "all", "core" (`Contracted.core_bytes`) or "none"."""
    shape = contracted.shape
    nothing = np.zeros(len(shape))
    static = {"all": contracted.static_bytes, "core": contracted.core_bytes, "none": nothing}[memory]
    return Costs(
        contracted.acc_s,
        contracted.cpu_s,
        contracted.supported,
        static,
        nothing if memory == "none" else contracted.saved_bytes,
        nothing if memory == "none" else contracted.workspace_bytes,
        shape.nets_of.start,
        shape.nets_of.items,
        shape.net_pins.start,
        shape.net_pins.items,
        shape.net_sizes,
        contracted.net_s,
    )


def limits_of(problem: Problem, contracted: Contracted, micro_batches: int, memory_share: float = 1.0) -> Limits:
    """Devices, caps (of the smallest device of each kind, times ``memory_share``) and in-flight numbers."""
    cluster = problem.cluster
    parts = len(cluster)

    def cap(devices: Sequence[int]) -> float:
        least = min((cluster.devices[d].memory_bytes for d in devices), default=math.inf)
        return least * memory_share * (1 + ROUNDING)

    in_flight = flights_of(problem, parts, micro_batches)
    # 1e15 stands for infinity: it must give 0, not NaN, when no CPU is left.
    worth = min(contracted.accelerator_per_cpu, 1e15)
    overlapped = problem.transfers is Transfers.LANE
    return Limits(
        len(cluster.accelerators), len(cluster.cpus), cap(cluster.accelerators), cap(cluster.cpus), in_flight,
        overlapped, worth,
    )  # fmt: skip


def flights_of(problem: Problem, parts: int, micro_batches: int) -> Floats:
    """Micro-batches that the d-th of so many parts from the end keeps in flight, [parts + 2]."""
    if not problem.has_backward():
        return np.ones(parts + 2)
    if problem.pipeline is Pipeline.GPIPE:
        return np.full(parts + 2, float(micro_batches))
    return np.minimum(np.arange(parts + 2, dtype=np.float64), micro_batches)


def average_load_s(contracted: Contracted, limits: Limits) -> float:
    """A load no chain can beat: all work shared out evenly, or the largest super-operator.

    A CPU takes over at most ``cpu_worth`` times its own time of accelerator work.
    """
    worth = limits.accelerators + limits.cpus * limits.cpu_worth
    total = float(contracted.acc_s.sum())
    average = 0.0 if total == 0 else total / worth if worth > 0 else math.inf
    acc = np.where(contracted.supported & (limits.accelerators > 0), contracted.acc_s, np.inf)
    single = np.minimum(acc, contracted.cpu_s) if limits.cpus else acc
    return max(average, float(single.max()))


def topological_orders(shape: Shape, tries: int = 8, seed: int = 0) -> list[NDArray[np.int64]]:
    """Deterministic topological orders from the end to the start: deepest first, widest first, mixed."""
    rng = random.Random(seed)
    after = [shape.successors.items[a:b].tolist() for a, b in _spans(shape.successors.start)]
    before = [shape.predecessors.items[a:b].tolist() for a, b in _spans(shape.predecessors.start)]
    orders = []
    for attempt in range(tries):
        waiting = [len(targets) for targets in after]
        ready = [node for node, number in enumerate(waiting) if number == 0]
        order = []
        while ready:
            if attempt == 1:
                index = 0
            elif attempt > 1 and rng.random() < 0.3:
                index = rng.randrange(len(ready))
            else:
                index = -1
            node = ready.pop(index)
            order.append(node)
            for source in before[node]:
                waiting[source] -= 1
                if waiting[source] == 0:
                    ready.append(source)
        orders.append(np.array(order, np.int64))
    return orders


def _spans(start: NDArray[np.int64]) -> list[tuple[int, int]]:
    bounds: list[int] = start.tolist()
    return list(itertools.pairwise(bounds))


def positions_a_call(count: int, steps: int, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
    """Ranges of positions that a kernel goes through in a few hundredths of a second, ``steps`` for each
    of them; calls ``check`` before every range."""
    many = max(STEPS_A_CALL // max(steps, 1), 1)
    for begin in range(0, count, many):
        check()
        yield begin, min(begin + many, count)


def best_linear_chain(
    costs: Costs, limits: Limits, orders: Sequence[NDArray[np.int64]], check: Callable[[], None]
) -> Chain:
    """The best chain whose parts are consecutive in one of ``orders``; NO_CHAIN if there is none.

    Calls ``check`` often.
    """
    best_chain = NO_CHAIN
    states = (limits.accelerators + 1) * (limits.cpus + 1)
    for order in orders:
        best = np.full((len(order) + 1, states), np.inf)
        load = load_of(costs, limits, best, np.zeros(0), best_chain.load_s, 1)
        for begin, end in positions_a_call(len(order), len(order) * states, check):
            cut_order(order, load, begin, end)

        def nodes(here: int, source: int, order: Ints = order) -> tuple[int, ...]:
            return tuple(sorted(order[source:here].tolist()))

        chain = chain_of(load, nodes)
        best_chain = chain if chain.load_s < best_chain.load_s else best_chain
    return best_chain


def load_of(costs: Costs, limits: Limits, best: Floats, remaining_s: Floats, below_s: float, depths: int) -> Load:
    """The kernels' objective before the first step. best: its table, without a chain; depths: of its walk."""
    best[0, 0] = 0.0
    per_depth = (np.zeros(depths) for _ in range(7))
    return Load(
        costs,
        limits,
        best,
        np.zeros(best.shape, np.int32),
        remaining_s,
        np.array([min(below_s, 1e300)]),
        np.zeros(2),
        np.zeros(1),
        np.zeros(limits.accelerators + 1),
        np.zeros(len(costs.net_size), np.int64),
        np.zeros(len(costs.net_size), np.bool_),
        *per_depth,
    )


def chain_of(load: Load, nodes: Callable[[int, int], tuple[int, ...]]) -> Chain:
    """The chain that a table ends with, or NO_CHAIN. nodes: what lies between two rows of the table."""
    state = int(np.argmin(load.best[-1]))
    load_s = float(load.best[-1, state])
    if math.isinf(load_s):
        return NO_CHAIN
    steps = trace_back(load.came_from, state, (1, load.limits.accelerators + 1))
    return Chain(load_s, tuple(Part(bool(on_cpu), nodes(here, source)) for source, here, on_cpu, _ in steps))


def trace_back(
    came_from: NDArray[Any], state: int, steps: Sequence[int] | NDArray[np.int64]
) -> Iterator[tuple[int, int, int, int]]:
    """The parts of the chain that a table ends with in this state, the last one added first: the rows before and
    after it, its way, and the state after it.

    came_from: [rows, states] ways * row before + way. steps: [ways] from the state before to the one after.
    """
    here = len(came_from) - 1
    while here > 0:
        source, way = divmod(int(came_from[here, state]), len(steps))
        yield source, here, way, state
        here, state = source, state - int(steps[way])


def placements_of(problem: Problem, contracted: Contracted, chain: Chain) -> Iterator[tuple[tuple[int, ...], ...]]:
    """`placement_of` for one weight of gradients after another, where these matter; no placement twice."""
    weights = GRADIENT_WEIGHTS if max(part.replicas for part in chain.parts) > 1 else GRADIENT_WEIGHTS[:1]
    known = set()
    for weight in weights if nodes_to_map(problem) is not None else weights[:1]:
        placement = placement_of(problem, contracted, chain, weight)
        if placement not in known:
            known.add(placement)
            yield placement


def placement_of(
    problem: Problem, contracted: Contracted, chain: Chain, gradient_weight: float = GRADIENT_WEIGHTS[0]
) -> tuple[tuple[int, ...], ...]:
    """The devices of every operator: accelerators, and CPUs, in the order of the chain; the replicas of
    a part together in one host, the first that has enough left, if any has. Where links between hosts are
    slower than those inside and no part is on a CPU, as `map_stages` has it."""
    placement: list[tuple[int, ...]] = [()] * len(problem.graph)
    members = [tuple(o for node in part.nodes for o in contracted.shape.members[node]) for part in chain.parts]
    for operators, devices in zip(
        members, _devices_of_parts(problem, chain.parts, members, gradient_weight), strict=True
    ):
        for operator in operators:
            placement[operator] = devices
    return tuple(placement)


def _devices_of_parts(
    problem: Problem, parts: Sequence[Part], members: Sequence[tuple[int, ...]], gradient_weight: float
) -> list[tuple[int, ...]]:
    if nodes_to_map(problem) is not None and not any(part.on_cpu or part.pools for part in parts):
        drafts = [DraftStage(operators, 1, part.replicas) for operators, part in zip(members, parts, strict=True)]
        return map_stages(problem, drafts, members, gradient_weight)
    free = {True: list(problem.cluster.cpus), False: list(problem.cluster.accelerators)}
    chosen = []
    for part in parts:
        if part.pools:
            devices = _drawn(free[False], part.pools)
        else:
            devices = _next_devices(problem, free[part.on_cpu], part.replicas)
        free[part.on_cpu] = [device for device in free[part.on_cpu] if device not in devices]
        chosen.append(devices)
    return chosen


def _next_devices(problem: Problem, free: Sequence[int], count: int) -> tuple[int, ...]:
    if count > 1:
        for host in dict.fromkeys(problem.cluster.devices[device].node for device in free):
            there = [device for device in free if problem.cluster.devices[device].node == host]
            if len(there) >= count:
                return tuple(there[:count])
    return tuple(free[:count])


def _drawn(free: Sequence[int], pools: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The first free device of every pool, ascending."""
    chosen: list[int] = []
    for pool in pools:
        chosen.append(next(device for device in free if device in pool and device not in chosen))
    return tuple(sorted(chosen))


def iteration_floor_s(problem: Problem, contracted: Contracted, chain: Chain) -> float:
    """Seconds the iteration of a chain takes at least: every part has all micro-batches to compute,
    and where each part reads from the one before, one micro-batch must pass all parts before it."""
    part_of = np.zeros(len(contracted), np.int64)
    for number, part in enumerate(chain.parts):
        part_of[list(part.nodes)] = number
    steps = {(part_of[u], part_of[v]) for u, v in contracted.shape.edges}
    in_sequence = all((number - 1, number) in steps for number in range(1, len(chain.parts)))
    floor_s = before_s = 0.0
    for part in chain.parts:
        seconds = contracted.cpu_s if part.on_cpu else contracted.acc_s
        load_s = float(seconds[list(part.nodes)].sum()) / part.replicas
        floor_s = max(floor_s, load_s * problem.mini_batch + before_s * contracted.samples)
        before_s += load_s if in_sequence else 0.0
    return floor_s
