"""The best chain of a variant of max-load: over a lattice of downsets, or over a few topological orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.contiguous.chains import NO_CHAIN, Chain, Part, positions_a_call
from solvers.contiguous.downsets import Check, Downsets, Search, slices, unreached
from solvers.contiguous.lattice_kernel import DONE
from solvers.contiguous.variant_costs_kernel import BLOCKING, VariantCosts, VariantLimits
from solvers.contiguous.variant_cut_kernel import cut_order_variant
from solvers.contiguous.variant_floors_kernel import floors
from solvers.contiguous.variant_walk_kernel import VariantWalk, walk_variant
from solvers.contiguous.variants import least_load_s
from solvers.kernels.arrays import Floats, Ints

PAIRS_A_CALL = 150_000
"""Pairs per kernel call, shared by passes and replicas: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """The chain with the least largest load in the last pass whose loads are all below bounds given.

    loads_s: its largest load in each pass, [passes], inf without one.
    """

    loads_s: Floats
    parts: tuple[Part, ...]
    memory_was_short: bool
    pairs: int


Pools = Sequence[tuple[int, ...]]
"""The devices of every class of accelerators."""
Below = Callable[[VariantCosts, Floats], Found]
"""The best chain with these costs and loads below these bounds, [passes]."""


def best_variant_chain(
    downsets: Downsets, costs: VariantCosts, limits: VariantLimits, pools: Pools, below_s: float, check: Check
) -> Search:
    """As `downsets.best_chain`, exact for the variant that costs and limits tell."""
    floor_of: dict[int, Floats] = {}
    # Messages count as work there, so a second of a device must not be worth less than one of work.
    cut = limits.available[0] == 0 and limits.transfers == BLOCKING and bool((limits.worth[1:] >= 1 - 1e-12).all())

    def below(c: VariantCosts, bounds: Floats) -> Found:
        if len(bounds) not in floor_of:
            floor_of[len(bounds)] = _floors(downsets, c, cut, check)
        return _walk(downsets, c, limits, pools, floor_of[len(bounds)], bounds, check)

    return _best(below, costs, limits, below_s)


def best_linear_variant(
    costs: VariantCosts, limits: VariantLimits, pools: Pools, orders: Sequence[Ints], check: Check
) -> Chain:
    """As `chains.best_linear_chain`, for the variant that costs and limits tell."""
    chain = NO_CHAIN
    for order in orders:

        def below(c: VariantCosts, bounds: Floats, order: Ints = order) -> Found:
            return _cut(order, c, limits, pools, bounds, check)

        found = _best(below, costs, limits, chain.load_s).chain
        chain = found if found.parts else chain
    return chain


def _best(below: Below, costs: VariantCosts, limits: VariantLimits, below_s: float) -> Search:
    """The chain with the least sum over the passes of its largest load, if one is below ``below_s``.

    With two passes (GPipe; Tarnawski et al. 2020, appendix on training): among the chains whose
    forward loads are below a ceiling the least backward load is found; the ceiling falls from one
    such chain's forward load to the next, until what the passes take at least adds up to the best sum.
    """
    if costs.acc_s.shape[1] == 1:
        found = below(costs, np.array([min(below_s, 1e300)]))
        return Search(_chain(found), found.memory_was_short, found.pairs)
    best, sum_s = NO_CHAIN, min(below_s, 1e300)
    _, backward_s = least_load_s(costs, limits).tolist()
    forward = below(_only_forward(costs), np.array([sum_s - backward_s]))
    short, pairs = forward.memory_was_short, forward.pairs
    forward_s = float(forward.loads_s[0])
    ceiling = sum_s - backward_s
    while forward_s < ceiling:
        found = below(costs, np.array([ceiling, sum_s - forward_s]))
        short, pairs = short or found.memory_was_short, pairs + found.pairs
        if not found.parts:
            break
        if found.loads_s.sum() < sum_s:
            best, sum_s = _chain(found), float(found.loads_s.sum())
        # A chain below the ceiling takes at least as long backward as this one.
        ceiling = min(float(found.loads_s[0]), sum_s - float(found.loads_s[1]))
    return Search(best, short, pairs)


def _chain(found: Found) -> Chain:
    return Chain(float(found.loads_s.sum()), found.parts) if found.parts else NO_CHAIN


def _only_forward(costs: VariantCosts) -> VariantCosts:
    """Costs of the forward pass alone: of one pass, without messages of the other or synchronisation."""
    return costs._replace(
        acc_s=np.ascontiguousarray(costs.acc_s[:, :1]),
        cpu_s=np.ascontiguousarray(costs.cpu_s[:1]),
        sync_s=np.zeros_like(costs.sync_s),
        sync_s_per_byte=np.zeros_like(costs.sync_s_per_byte),
        message_s=np.where(costs.message_pass == 0, costs.message_s, 0.0),
        message_pass=np.zeros_like(costs.message_pass),
    )


def _cut(order: Ints, costs: VariantCosts, limits: VariantLimits, pools: Pools, bounds: Floats, check: Check) -> Found:
    passes, states = costs.acc_s.shape[1], len(limits.used)
    best = np.full((len(order) + 1, states, passes), np.inf)
    came_from = np.full((len(order) + 1, states), -1, np.int64)
    best[0, 0] = 0.0
    for begin, end in positions_a_call(len(order), len(order) * states * len(limits.need), check):
        cut_order_variant(order, costs, limits, bounds, best, came_from, begin, end)

    def nodes(here: int, source: int) -> tuple[int, ...]:
        return tuple(sorted(order[source:here].tolist()))

    return _trace_back(best[-1], came_from, limits, pools, nodes, False, 0)


def _floors(downsets: Downsets, costs: VariantCosts, cut: bool, check: Check) -> Floats:
    left_s = np.zeros((costs.acc_s.shape[1], len(downsets)))
    for first, end in slices(len(downsets), check):
        floors(downsets.words, downsets.parent, downsets.via, costs, cut, left_s, first, end)
    # Sums that should cancel leave a rest, and with no device left even that would be too much.
    rest_s = 1e-12 * (left_s[:, :1] + costs.message_s[0].sum())
    return np.asarray(np.maximum(left_s - rest_s, 0.0))


def _walk(
    downsets: Downsets,
    costs: VariantCosts,
    limits: VariantLimits,
    pools: Pools,
    floor_s: Floats,
    bounds: Floats,
    check: Check,
) -> Found:
    rows, passes, elements = costs.acc_s.shape
    states, ways = len(limits.used), len(limits.need)
    messages = costs.message_s.shape[1]
    at = VariantWalk(
        best=unreached((len(downsets), states, passes), check),
        came_from=np.zeros((len(downsets), states), np.int32),
        floor_s=floor_s,
        cursor=np.array([0, -1, 0, 0], np.int64),
        bounds=bounds.copy(),
        live=np.zeros(states, np.int64),
        live_count=np.zeros(1, np.int64),
        most=np.zeros((ways, passes)),
        made=np.zeros(messages, np.int64),
        read=np.zeros(messages, np.int64),
        behind=np.zeros(messages, np.int64),
        usable=np.zeros(ways, np.bool_),
        path_at=np.zeros(elements + 2, np.int64),
        path_next=np.zeros(elements + 2, np.int64),
        path_element=np.zeros(elements + 2, np.int64),
        path_load=np.zeros((elements + 2, rows, passes, 5)),
        path_cpu=np.zeros((elements + 2, passes)),
        path_bytes=np.zeros((elements + 2, 2)),
        path_kept=np.zeros((elements + 2, rows, 2)),
    )
    at.best[0, 0] = 0.0
    check()
    while walk_variant(downsets.up, costs, limits, at, PAIRS_A_CALL // (ways * passes)) != DONE:
        check()
    short, pairs = bool(at.cursor[2]), int(at.cursor[3])
    return _trace_back(at.best[-1], at.came_from, limits, pools, downsets.difference, short, pairs)


def _trace_back(
    last: Floats,
    came_from: Ints | NDArray[np.int32],
    limits: VariantLimits,
    pools: Pools,
    nodes: Callable[[int, int], tuple[int, ...]],
    short: bool,
    pairs: int,
) -> Found:
    """The chain that a table ends with. last: [states, passes]; nodes: what lies between two rows of the table."""
    state = int(np.lexsort((last[:, 0], last[:, -1]))[0])
    if math.isinf(last[state, -1]):
        return Found(np.full(last.shape[1], np.inf), (), short, pairs)
    parts = []
    here = len(came_from) - 1
    loads_s = last[state].copy()
    while here > 0:
        source, way = divmod(int(came_from[here, state]), len(limits.need))
        draw = limits.need[way, 1:].tolist()
        drawn = tuple(pool for pool, count in zip(pools, draw, strict=True) for _ in range(count))
        parts.append(Part(way == 0, nodes(here, source), max(sum(draw), 1), drawn if len(pools) > 1 else ()))
        here, state = source, state - int(limits.step[way])
    return Found(loads_s, tuple(parts), short, pairs)
