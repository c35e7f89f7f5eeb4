"""`Auto`, the default planner: its options, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from solvers.planners.portfolio import Portfolio
    from solvers.problem.problem import Problem
    from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class Auto:
    """Exact where it can be, otherwise the best of a family, of whose members it is never behind one, and then
    boundary moves.

    First everything on one device, if that fits. MAX_LOAD: the exact downset DP, unless its downsets exceed
    downset_budget or its work EXACT_WORK, and where it proves nothing `GraphPipeline`, layer splits and annealing;
    without contiguity the portfolio `NonContiguous`; for convex sets annealing and the integer program too. The
    latency of one sample (MAKESPAN with calls): the portfolio `Latency`. One pass of single operators placed anywhere
    (MAKESPAN): `Joint`, without improve only its seeds. ITERATION: the equal split, layer splits, one device,
    `SelectiveRecompute` if stages may recompute, for large graphs `RepeatedBlocks`, linearised DP if stages are not
    replicated, `Interleaved` if that is asked for, `GraphPipeline`, if it supports the problem, and `TiedEnds`; before
    all others, of large graphs over groups, or whose devices may have several stages in turn, plain splits
    (`plain_splits`). Other objectives, and all if nothing was found: linearised DP, judged by the objective asked for.
    Then moves of operators across stage boundaries until none helps.

    Where devices are distinguished, by pins, caps or kinds, the question without that (`levelled`) and those on fewer
    kinds (`on_some_kinds`) are answered first, and their plans taken over, equal devices exchanged. If the first keeps
    the pins as it is, that is the answer. Otherwise the members that take the question as it is follow, annealing and
    local search among them, and `GraphPipeline` goes on from what was taken over.

    Where devices are alike, an ITERATION on one device less is answered in full, and so on down (`simpler`), as far as
    the bound there is below what was found: up to ONE_BY_ONE devices a device more is never worse.

    More than 64 devices in equal nodes with replicas are answered by parts of them that all do the same
    (`parts_of_many`): at quick effort a model with repeated blocks is planned over as many pieces as a part has
    devices.
    """

    name: ClassVar[str] = "auto"
    source: ClassVar[str] = "portfolio of the planners here"
    guarantee: ClassVar[str] = "heuristic"

    downset_budget: int = 200_000
    improve: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def begin(self, problem: Problem, monitor: Monitor) -> None:
        """See `Portfolio.begin`."""
        self._portfolio().begin(problem, monitor)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        return self._portfolio()(problem, monitor)

    def _portfolio(self) -> Portfolio:
        from solvers.planners.portfolio import Portfolio  # imports most planners

        return Portfolio(self.downset_budget, self.improve)
