"""Searches over chains, for every variant of max-load: over a lattice of downsets, or a few topological orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import NO_CHAIN, Chain, Part, positions_a_call, trace_back
from solvers.contiguous.downsets import Downsets, finish, most_downsets, slices, unreached
from solvers.contiguous.load_kernel import BLOCKING, COLUMNS, Costs, Limits, Load, cut_order, floors, walk_load
from solvers.contiguous.messages_kernel import no_ends
from solvers.contiguous.variants import Variant, costs_of, is_plain, least_load_s, limits_of, variant_of
from solvers.contiguous.walk_kernel import SHORT
from solvers.contiguous.ways import states, ways_of
from solvers.kernels.arrays import Floats, Ints

PAIRS_A_CALL, PLAIN_PAIRS_A_CALL = 150_000, 400_000
"""Pairs per kernel call, shared by passes and ways but for the plain load: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chain with the least largest load in the last pass whose loads are all below bounds given.

    loads_s: its largest load in each pass, [passes], inf without one. memory_was_short: whether a memory cap turned
    anything away.
    """

    loads_s: Floats
    parts: tuple[Part, ...]
    memory_was_short: bool

    @property
    def chain(self) -> Chain:
        return Chain(float(self.loads_s.sum()), self.parts) if self.parts else NO_CHAIN


Below = Callable[[Costs, Floats], Outcome]
"""The best chain with these costs and loads below these bounds, [passes]."""


class ChainSearch:
    """Searches over chains of one problem's super-operators; calls ``check`` several times a second."""

    def __init__(self, condensed: Condensed, check: Callable[[], None]) -> None:
        self.condensed, self.problem, self.check = condensed, condensed.problem, check
        self.variant = variant_of(self.problem)
        self.ways = ways_of(self.problem, self.variant.replicas)

    @property
    def most_downsets(self) -> int:
        """The number of downsets that `exact` has memory for."""
        return most_downsets(states(self.problem, self.ways), self.variant.passes, len(self.ways.draws) + 1)

    def _costs(self, contracted: Contracted, variant: Variant, memory: str = "all") -> Costs:
        plain = is_plain(variant, contracted, len(self.ways.classes))
        return costs_of(self.condensed, contracted, variant, plain=plain, memory=memory)

    def least_load_s(self, contracted: Contracted, micro_batches: int) -> float:
        """A max-load no chain can beat."""
        costs = self._costs(contracted, self.variant)
        return float(least_load_s(costs, limits_of(self.problem, costs, self.variant, micro_batches)).sum())

    def exact(
        self,
        downsets: Downsets,
        contracted: Contracted,
        micro_batches: int,
        below_s: float,
        *,
        memory: str = "all",
        memory_share: float = 1.0,
    ) -> Outcome:
        """The chain of suffixes with the least max-load, if one is below ``below_s``.

        downsets: of `suffix_order`. Exact: no chain below ``below_s`` and below the result exists (within the caps).
        """
        priced = self._costs(contracted, self.variant, memory)
        limits = limits_of(self.problem, priced, self.variant, micro_batches, memory_share)
        floor_of: dict[int, Floats] = {}
        # Messages count as work there, so a second of a device must not be worth less than one of work.
        cut = limits.available[0] == 0 and limits.transfers == BLOCKING
        cut = cut and bool((limits.worth[1:] >= 1 - 1e-12).all())

        def below(costs: Costs, bounds: Floats) -> Outcome:
            passes, ways = len(bounds), len(limits.need)
            if passes not in floor_of:
                floor_of[passes] = _floors(downsets, costs, cut, self.check)
            best = unreached((len(downsets), len(limits.used), passes), self.check)
            at = _load(costs, limits, best, len(contracted) + 2, floor_of[passes], bounds)
            quota = PLAIN_PAIRS_A_CALL if costs.general is None else PAIRS_A_CALL // (ways * passes)
            cursor = finish(walk_load, downsets, at, len(limits.used), quota, self.check).cursor
            return _outcome(at, self.ways.classes, downsets.difference, bool(cursor[SHORT]))

        return _best(below, priced, limits, below_s)

    def linear(
        self,
        contracted: Contracted,
        orders: Sequence[Ints],
        micro_batches: int,
        variant: Variant,
        *,
        memory_share: float = 1.0,
    ) -> Chain:
        """The best chain whose parts are consecutive in one of ``orders``, for this variant of max-load; NO_CHAIN if
        there is none."""
        priced = self._costs(contracted, variant)
        limits = limits_of(self.problem, priced, variant, micro_batches, memory_share)
        pools = ways_of(self.problem, variant.replicas).classes
        steps = len(limits.used) * (1 if priced.general is None else len(limits.need))
        chain = NO_CHAIN
        for order in orders:

            def below(costs: Costs, bounds: Floats, order: Ints = order) -> Outcome:
                best = np.full((len(order) + 1, len(limits.used), len(bounds)), np.inf)
                at = _load(costs, limits, best, 1, np.zeros((0, 0)), bounds)
                for begin, end in positions_a_call(len(order), len(order) * steps, self.check):
                    cut_order(order, at, begin, end)
                return _outcome(at, pools, lambda here, source: tuple(sorted(order[source:here].tolist())), False)

            tried = _best(below, priced, limits, chain.load_s).chain
            chain = tried if tried.parts else chain
        return chain


def _best(below: Below, costs: Costs, limits: Limits, below_s: float) -> Outcome:
    """The chain with the least sum over the passes of its largest load, if one is below ``below_s``.

    With two passes (GPipe; Tarnawski et al. 2020, appendix on training): among the chains whose
    forward loads are below a ceiling the least backward load is found; the ceiling falls from one
    such chain's forward load to the next, until what the passes take at least adds up to the best sum.
    """
    if costs.acc_s.shape[1] == 1:
        return below(costs, np.array([min(below_s, 1e300)]))
    best, sum_s = Outcome(np.full(2, np.inf), (), False), min(below_s, 1e300)
    _, backward_s = least_load_s(costs, limits).tolist()
    forward = below(_only_forward(costs), np.array([sum_s - backward_s]))
    short = forward.memory_was_short
    forward_s = float(forward.loads_s[0])
    ceiling = sum_s - backward_s
    while forward_s < ceiling:
        outcome = below(costs, np.array([ceiling, sum_s - forward_s]))
        short = short or outcome.memory_was_short
        if not outcome.parts:
            break
        if outcome.loads_s.sum() < sum_s:
            best, sum_s = outcome, float(outcome.loads_s.sum())
        # A chain below the ceiling takes at least as long backward as this one.
        ceiling = min(float(outcome.loads_s[0]), sum_s - float(outcome.loads_s[1]))
    return replace(best, memory_was_short=short)


def _only_forward(costs: Costs) -> Costs:
    """Costs of the forward pass alone: of one pass, without messages of the other or synchronisation."""
    return costs._replace(
        acc_s=np.ascontiguousarray(costs.acc_s[:, :1]),
        cpu_s=np.ascontiguousarray(costs.cpu_s[:1]),
        sync_s=np.zeros_like(costs.sync_s),
        sync_s_per_byte=np.zeros_like(costs.sync_s_per_byte),
        message_s=np.where(costs.message_pass == 0, costs.message_s, 0.0),
        message_pass=np.zeros_like(costs.message_pass),
    )


def _floors(downsets: Downsets, costs: Costs, cut: bool, check: Callable[[], None]) -> Floats:
    left_s = np.zeros((costs.acc_s.shape[1], len(downsets)))
    for first, end in slices(len(downsets), check):
        floors(downsets.words, downsets.parent, downsets.via, costs, cut, left_s, first, end)
    # Sums that should cancel leave a rest, and with no device left even that would be too much.
    rest_s = 1e-12 * (left_s[:, :1] + costs.message_s[0].sum())
    return np.asarray(np.maximum(left_s - rest_s, 0.0))


def _load(costs: Costs, limits: Limits, best: Floats, depths: int, floor_s: Floats, bounds: Floats) -> Load:
    """The objective before the first step. best: its table, without a chain; depths: of its walk."""
    rows, passes, _ = costs.acc_s.shape
    states, ways = len(limits.used), len(limits.need)
    best[0, 0] = 0.0
    return Load(
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
        seconds=np.zeros((depths, rows, passes, COLUMNS)),
        cpu_s=np.zeros((depths, passes)),
        static_bytes=np.zeros(depths),
        param_bytes=np.zeros(depths),
        saved_bytes=np.zeros((depths, rows)),
        workspace_bytes=np.zeros((depths, rows)),
    )


def _outcome(
    at: Load, pools: Sequence[tuple[int, ...]], nodes: Callable[[int, int], tuple[int, ...]], short: bool
) -> Outcome:
    """The chain that a table ends with. pools: devices of every class; nodes: what is between two rows of the table."""
    last, need = at.best[-1], at.limits.need
    state = int(np.lexsort((last[:, 0], last[:, -1]))[0])
    if math.isinf(last[state, -1]):
        return Outcome(np.full(last.shape[1], np.inf), (), short)
    parts = []
    for source, here, way, _ in trace_back(at.came_from, state, at.limits.step):
        draw = need[way, 1:].tolist()
        drawn = tuple(pool for pool, count in zip(pools, draw, strict=True) for _ in range(count))
        parts.append(Part(way == 0, nodes(here, source), max(sum(draw), 1), drawn if len(pools) > 1 else ()))
    return Outcome(last[state].copy(), tuple(parts), short)
