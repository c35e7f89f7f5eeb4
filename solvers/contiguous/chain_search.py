"""One door to the searches over chains: fast kernels for the plain max-load, general ones for its variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import Chain, average_load_s, best_linear_chain, costs_of, limits_of
from solvers.contiguous.downsets import Downsets, Search, best_chain, most_downsets
from solvers.contiguous.variant_chains import best_linear_variant, best_variant_chain
from solvers.contiguous.variants import Variant, is_plain, least_load_s, variant_costs, variant_limits, variant_of
from solvers.contiguous.ways import states, ways_of
from solvers.problem.problem import Transfers


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

    def _plain(self, variant: Variant, contracted: Contracted) -> bool:
        return is_plain(variant, contracted, len(self.ways.classes))

    def least_load_s(self, contracted: Contracted, micro_batches: int) -> float:
        """A max-load no chain can beat."""
        if self._plain(self.variant, contracted):
            return average_load_s(contracted, limits_of(self.problem, contracted, micro_batches))
        costs = variant_costs(self.condensed, contracted, self.variant)
        limits = variant_limits(self.problem, costs, self.variant, micro_batches)
        return float(least_load_s(costs, limits).sum())

    def exact(
        self,
        downsets: Downsets,
        contracted: Contracted,
        micro_batches: int,
        below_s: float,
        *,
        memory: str = "all",
        memory_share: float = 1.0,
    ) -> Search:
        """`downsets.best_chain`: the chain of ``downsets`` with the least max-load, if one is below ``below_s``."""
        if self._plain(self.variant, contracted):
            limits = limits_of(self.problem, contracted, micro_batches, memory_share)
            return best_chain(downsets, costs_of(contracted, memory=memory), limits, below_s, self.check)
        costs = variant_costs(self.condensed, contracted, self.variant, memory=memory)
        general = variant_limits(self.problem, costs, self.variant, micro_batches, memory_share)
        return best_variant_chain(downsets, costs, general, self.ways.classes, below_s, self.check)

    def linear(
        self,
        contracted: Contracted,
        orders: Sequence[NDArray[np.int64]],
        micro_batches: int,
        variant: Variant,
        *,
        memory_share: float = 1.0,
    ) -> Chain:
        """The best chain whose parts are consecutive in one of ``orders``, for this variant of max-load."""
        if self._plain(variant, contracted):
            limits = limits_of(self.problem, contracted, micro_batches, memory_share)
            limits = limits._replace(overlapped=variant.transfers is Transfers.LANE)
            return best_linear_chain(costs_of(contracted), limits, orders, self.check)
        costs = variant_costs(self.condensed, contracted, variant)
        general = variant_limits(self.problem, costs, variant, micro_batches, memory_share)
        pools = ways_of(self.problem, variant.replicas).classes
        return best_linear_variant(costs, general, pools, orders, self.check)
