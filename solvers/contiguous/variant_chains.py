"""The best chain of a variant of max-load: over a lattice of downsets, or over a few topological orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.contiguous.chains import NO_CHAIN, Chain, Part, positions_a_call, trace_back
from solvers.contiguous.downsets import Check, Downsets, Search, finish, slices, unreached
from solvers.contiguous.messages_kernel import no_ends
from solvers.contiguous.variant_kernel import (
    BLOCKING,
    COLUMNS,
    Variant,
    VariantCosts,
    VariantLimits,
    cut_order_variant,
    floors,
    walk_variant,
)
from solvers.contiguous.variants import least_load_s
from solvers.contiguous.walk_kernel import PAIRS, SHORT
from solvers.kernels.arrays import Floats, Ints

PAIRS_A_CALL = 150_000
"""Pairs per kernel call, shared by passes and replicas: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chain with the least largest load in the last pass whose loads are all below bounds given.

    loads_s: its largest load in each pass, [passes], inf without one.
    """

    loads_s: Floats
    parts: tuple[Part, ...]
    memory_was_short: bool
    pairs: int


Pools = Sequence[tuple[int, ...]]
"""The devices of every class of accelerators."""
Below = Callable[[VariantCosts, Floats], Outcome]
"""The best chain with these costs and loads below these bounds, [passes]."""


def best_variant_chain(
    downsets: Downsets, costs: VariantCosts, limits: VariantLimits, pools: Pools, below_s: float, check: Check
) -> Search:
    """As `downsets.best_chain`, exact for the variant of costs and limits."""
    floor_of: dict[int, Floats] = {}
    # Messages count as work there, so a second of a device must not be worth less than one of work.
    cut = limits.available[0] == 0 and limits.transfers == BLOCKING and bool((limits.worth[1:] >= 1 - 1e-12).all())

    def below(c: VariantCosts, bounds: Floats) -> Outcome:
        if len(bounds) not in floor_of:
            floor_of[len(bounds)] = _floors(downsets, c, cut, check)
        return _walk(downsets, c, limits, pools, floor_of[len(bounds)], bounds, check)

    return _best(below, costs, limits, below_s)


def best_linear_variant(
    costs: VariantCosts, limits: VariantLimits, pools: Pools, orders: Sequence[Ints], check: Check
) -> Chain:
    """As `chains.best_linear_chain`, for the variant of costs and limits."""
    chain = NO_CHAIN
    for order in orders:

        def below(c: VariantCosts, bounds: Floats, order: Ints = order) -> Outcome:
            return _cut(order, c, limits, pools, bounds, check)

        outcome = _best(below, costs, limits, chain.load_s).chain
        chain = outcome if outcome.parts else chain
    return chain


def _best(below: Below, costs: VariantCosts, limits: VariantLimits, below_s: float) -> Search:
    """The chain with the least sum over the passes of its largest load, if one is below ``below_s``.

    With two passes (GPipe; Tarnawski et al. 2020, appendix on training): among the chains whose
    forward loads are below a ceiling the least backward load is outcome; the ceiling falls from one
    such chain's forward load to the next, until what the passes take at least adds up to the best sum.
    """
    if costs.acc_s.shape[1] == 1:
        outcome = below(costs, np.array([min(below_s, 1e300)]))
        return Search(_chain(outcome), outcome.memory_was_short, outcome.pairs)
    best, sum_s = NO_CHAIN, min(below_s, 1e300)
    _, backward_s = least_load_s(costs, limits).tolist()
    forward = below(_only_forward(costs), np.array([sum_s - backward_s]))
    short, pairs = forward.memory_was_short, forward.pairs
    forward_s = float(forward.loads_s[0])
    ceiling = sum_s - backward_s
    while forward_s < ceiling:
        outcome = below(costs, np.array([ceiling, sum_s - forward_s]))
        short, pairs = short or outcome.memory_was_short, pairs + outcome.pairs
        if not outcome.parts:
            break
        if outcome.loads_s.sum() < sum_s:
            best, sum_s = _chain(outcome), float(outcome.loads_s.sum())
        # A chain below the ceiling takes at least as long backward as this one.
        ceiling = min(float(outcome.loads_s[0]), sum_s - float(outcome.loads_s[1]))
    return Search(best, short, pairs)


def _chain(outcome: Outcome) -> Chain:
    return Chain(float(outcome.loads_s.sum()), outcome.parts) if outcome.parts else NO_CHAIN


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


def _cut(
    order: Ints, costs: VariantCosts, limits: VariantLimits, pools: Pools, bounds: Floats, check: Check
) -> Outcome:
    best = np.full((len(order) + 1, len(limits.used), len(bounds)), np.inf)
    at = _variant(costs, limits, best, 1, np.zeros((0, 0)), bounds)
    for begin, end in positions_a_call(len(order), len(order) * len(limits.used) * len(limits.need), check):
        cut_order_variant(order, at, begin, end)
    return _outcome(at, pools, lambda here, source: tuple(sorted(order[source:here].tolist())), False, 0)


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
) -> Outcome:
    _, passes, elements = costs.acc_s.shape
    best = unreached((len(downsets), len(limits.used), passes), check)
    at = _variant(costs, limits, best, elements + 2, floor_s, bounds)
    quota = PAIRS_A_CALL // (len(limits.need) * passes)
    cursor = finish(walk_variant, downsets, at, len(limits.used), quota, check).cursor
    return _outcome(at, pools, downsets.difference, bool(cursor[SHORT]), int(cursor[PAIRS]))


def _variant(
    costs: VariantCosts,
    limits: VariantLimits,
    best: Floats,
    depths: int,
    floor_s: Floats,
    bounds: Floats,
) -> Variant:
    """The objective before the first step. best: its table, without a chain; depths: of its walk."""
    kinds, passes, _ = costs.acc_s.shape
    states, ways = len(limits.used), len(limits.need)
    at = Variant(
        costs=costs,
        limits=limits,
        best=best,
        came_from=np.zeros(best.shape[:2], np.int32),
        floor_s=floor_s,
        bounds=bounds.copy(),
        most=np.zeros((ways, passes)),
        in_flight=np.zeros(1),
        fewer=np.zeros(states),
        usable=np.zeros(ways, np.bool_),
        ends=no_ends(costs.message_s.shape[1]),
        seconds=np.zeros((depths, kinds, passes, COLUMNS)),
        cpu_s=np.zeros((depths, passes)),
        static_bytes=np.zeros(depths),
        param_bytes=np.zeros(depths),
        saved_bytes=np.zeros((depths, kinds)),
        workspace_bytes=np.zeros((depths, kinds)),
    )
    at.best[0, 0] = 0.0
    return at


def _outcome(
    at: Variant, pools: Pools, nodes: Callable[[int, int], tuple[int, ...]], short: bool, pairs: int
) -> Outcome:
    """The chain that a table ends with. nodes: what lies between two rows of the table."""
    last, need = at.best[-1], at.limits.need
    state = int(np.lexsort((last[:, 0], last[:, -1]))[0])
    if math.isinf(last[state, -1]):
        return Outcome(np.full(last.shape[1], np.inf), (), short, pairs)
    parts = []
    for source, here, way, _ in trace_back(at.came_from, state, at.limits.step):
        draw = need[way, 1:].tolist()
        drawn = tuple(pool for pool, count in zip(pools, draw, strict=True) for _ in range(count))
        parts.append(Part(way == 0, nodes(here, source), max(sum(draw), 1), drawn if len(pools) > 1 else ()))
    return Outcome(last[state].copy(), tuple(parts), short, pairs)
