"""The latency DP: the least sum of calls and CPU operators over chains of downsets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import topological_orders, trace_back
from solvers.contiguous.downsets import (
    PAIRS_A_CALL,
    TABLE_BYTES,
    Check,
    Downsets,
    enumerate_downsets,
    finish,
    suffix_order,
)
from solvers.contiguous.lattice_kernel import add_up
from solvers.contiguous.load_kernel import Costs
from solvers.contiguous.messages_kernel import no_ends
from solvers.contiguous.planners import chain_dp
from solvers.contiguous.variants import Variant, costs_of
from solvers.kernels.arrays import Floats, Ints
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.planners.latency_common import models, offer_places, on_cpus
from solvers.latency.planners.sum_kernel import Sum, cut_order_sum, walk_sums
from solvers.problem.problem import Problem, Transfers
from solvers.search.monitor import Monitor

SUMS = Variant(passes=1, replicas=1, transfers=Transfers.BLOCKING)
"""What a part costs on an accelerator: its compute and the hyperedges that it splits."""
Sets = list[list[int]]
"""The super-operators of every accelerator used; the others are on CPUs."""


@dataclass(frozen=True)
class LatencyDP:
    """Accelerators one after the other, operators on CPUs one by one: the least sum of their times.

    A plan's latency is at most that sum (branches may overlap), so this is a heuristic; it is judged
    by the latency. With more than ``downset_budget`` downsets the best of ``orders`` linearised
    programs stands.
    """

    name: ClassVar[str] = "latency-dp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, sections 5.1 and 6, with sums instead of maxima"
    guarantee: ClassVar[str] = "heuristic"

    downset_budget: int = 300_000
    orders: int = 8

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem) or chain_dp.unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        condensed = Condensed(problem, ordered=True)
        lattices: dict[int, Downsets | None] = {}
        for model in models(problem, monitor):
            for merge in (True, False):
                contracted = condensed.at(problem.mini_batch, merge_trivial=merge)
                costs = costs_of(condensed, contracted, SUMS, plain=True)
                self._search(model, contracted, costs, lattices, monitor)
                if monitor.best is not None or not contracted.has_merged:
                    break  # merging trivial operators did not stand in memory's way
        return False

    def _search(
        self,
        model: LatencyModel,
        contracted: Contracted,
        costs: Costs,
        lattices: dict[int, Downsets | None],
        monitor: Monitor,
    ) -> None:
        least_s = math.inf
        for order in topological_orders(contracted.shape, self.orders):
            monitor.check()
            sum_s, sets = best_cut(order, costs, model)
            least_s = min(least_s, sum_s)
            _offer(model, contracted, sets, monitor)
        count = len(contracted)
        if count not in lattices:
            budget = min(self.downset_budget, TABLE_BYTES // (12 * (model.accelerators + 1)))
            lattices[count] = enumerate_downsets(suffix_order(contracted.shape), budget, monitor.check)
            if lattices[count] is None:
                monitor.note(
                    f"the graph has more than {budget:,} downsets, too many for the exact sum;"
                    f" the best cut of {self.orders} topological orders stands"
                )
        downsets = lattices[count]
        if downsets is not None:
            _offer(model, contracted, least_sum(downsets, costs, model, least_s, monitor.check), monitor)


def _offer(model: LatencyModel, contracted: Contracted, sets: Sets | None, monitor: Monitor) -> None:
    if sets is not None:
        place = on_cpus(model)
        for accelerator, nodes in enumerate(sets):
            place[[o for node in nodes for o in contracted.shape.members[node]]] = accelerator
        offer_places(model, monitor, place)


def best_cut(order: Ints, costs: Costs, model: LatencyModel) -> tuple[float, Sets | None]:
    """The least sum of any cut of ``order`` into accelerators and CPU operators, and its sets."""
    at = _sum(costs, model, np.zeros(len(order) + 1), math.inf, 1)
    cut_order_sum(order, at)
    return _best(at, lambda here, source: order[source:here].tolist())


def least_sum(downsets: Downsets, costs: Costs, model: LatencyModel, below_s: float, check: Check) -> Sets | None:
    """The sets of the chain with the least sum, if that is below ``below_s``. Calls ``check`` often."""
    acc_s = costs.acc_s[0, 0] if model.accelerators else np.full(costs.acc_s.shape[2], np.inf)
    done = add_up(downsets.parent, downsets.via, np.minimum(acc_s, costs.cpu_s[0]))
    at = _sum(costs, model, (done[-1] - done) * (1 - 1e-12), min(below_s, 1e300), len(acc_s) + 2)
    finish(walk_sums, downsets, at, model.accelerators + 1, PAIRS_A_CALL // 4, check)
    return _best(at, lambda here, source: list(downsets.difference(here, source)))[1]


def _sum(costs: Costs, model: LatencyModel, remaining_s: Floats, below_s: float, depths: int) -> Sum:
    """The objective before the first step. remaining_s: [rows of its table]; depths: of its walk."""
    shape = (len(remaining_s), model.accelerators + 1)
    at = Sum(
        costs=costs,
        acc_bytes=float(model.caps[:-1].min(initial=math.inf)),
        best=np.full(shape, np.inf),
        came_from=np.full(shape, -1, np.int32),
        remaining_s=remaining_s,
        bound=np.array([below_s]),
        least_s=np.zeros(1),
        ends=no_ends(costs.message_s.shape[1]),
        acc_s=np.zeros(depths),
        moved_s=np.zeros(depths),
        nbytes=np.zeros(depths),
    )
    at.best[0, 0] = 0.0
    return at


def _best(at: Sum, nodes: Callable[[int, int], list[int]]) -> tuple[float, Sets | None]:
    """The least sum that a table ends with, and its sets. nodes: what lies between two rows of the table."""
    used = int(np.argmin(at.best[-1]))
    if math.isinf(at.best[-1, used]):
        return math.inf, None
    parts = trace_back(at.came_from, used, (1, 0))
    return float(at.best[-1, used]), [nodes(here, source) for source, here, on_cpu, _ in parts if not on_cpu]
