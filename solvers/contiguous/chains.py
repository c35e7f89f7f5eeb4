"""Chains of parts: what the contiguous planners search for, and the devices they divide.

A chain cuts the super-operators into consecutive parts, one device each. It is built from the end
of the pipeline: how many parts follow is then known, and with it the micro-batches in flight.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.contracted import Contracted, Shape
from solvers.kernels.arrays import Floats
from solvers.plan.drafts import DraftStage
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.nodes.mapping import GRADIENT_WEIGHTS, map_stages, nodes_to_map

ROUNDING = 1e-12
"""Relative slack of memory caps, for sums added in another order."""
STEPS_A_CALL = 5_000_000
"""Steps of a linear program per kernel call."""


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


def flights_of(problem: Problem, parts: int, micro_batches: int) -> Floats:
    """Micro-batches that the d-th of so many parts from the end keeps in flight, [parts + 2]."""
    if not problem.has_backward():
        return np.ones(parts + 2)
    if problem.pipeline is Pipeline.GPIPE:
        return np.full(parts + 2, float(micro_batches))
    return np.minimum(np.arange(parts + 2, dtype=np.float64), micro_batches)


def topological_orders(shape: Shape, tries: int = 8, seed: int = 0) -> list[NDArray[np.int64]]:
    """Deterministic topological orders from the end to the start: deepest first, widest first, mixed."""
    rng = random.Random(seed)
    after, before = shape.successors.lists(), shape.predecessors.lists()
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


def positions_a_call(count: int, steps: int, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
    """Ranges of positions that a kernel goes through in a few hundredths of a second, ``steps`` for each
    of them; calls ``check`` before every range."""
    many = max(STEPS_A_CALL // max(steps, 1), 1)
    for begin in range(0, count, many):
        check()
        yield begin, min(begin + many, count)


def trace_back(
    came_from: NDArray[np.integer], state: int, steps: Sequence[int] | NDArray[np.int64]
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
