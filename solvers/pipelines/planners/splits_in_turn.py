"""Plain splits with several stages a device, dealt out in turn: shorter bubbles for models that repeat a layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solvers.coarsening.blocks import repeated_blocks
from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.coarsening.contraction import Contraction
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.errors import InvalidPlan
from solvers.pipelines.even_cuts import even_cuts
from solvers.pipelines.offers import likely_counts
from solvers.pipelines.planners.interleaved import CHUNKS, TRANSFER_WEIGHTS, UNLIMITED, Interleaved
from solvers.pipelines.planners.repeated_blocks import contracted
from solvers.plan.drafts import WHOLE, Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.problem.problem import IN_TURN, Pipeline, Problem
from solvers.schedules.ordering.interleaving import textbook_in_flight
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor

ENDS = 2
"""Stages that may have no layer: what comes before the first one, and what follows the last."""
PIECES = 2
"""Pieces of layers a stage, about, that cuts are made of."""
MOST_TRIED, MOST_FITTING = 8, 3
"""Pairs of micro-batches and stages per device whose cuts are judged, and how many of them that fit."""
SLOW = 1.1
"""Times what a cut should take from which on what memory leaves of its order is not worth much."""


def split_in_turn(problem: Problem, monitor: Monitor) -> None:
    """Offer plain splits of repeated layers into several stages a device, in the textbook's interleaved order.

    Only where the pipeline asked for lets devices have several stages that take turns (PLANNER, too), every stage can
    have about a layer, and a split with its bubble might beat the best plan. Where memory asks for it, and stages may
    run again, the first ones of every device do, as few as fit.
    """
    pipeline = Pipeline.INTERLEAVED if problem.pipeline is Pipeline.PLANNER else problem.pipeline
    question = replace(problem, pipeline=pipeline)
    devices = len(problem.cluster.accelerators)
    if pipeline not in IN_TURN or devices < 2 or Interleaved().unsupported(question):
        return
    blocks = repeated_blocks(question)
    layers = sum(len(family.members) for family in blocks)
    chunks = [each for each in CHUNKS if each > 1 and each * devices <= layers + ENDS]
    smaller = contracted(question, blocks, PIECES * chunks[-1] * devices) if chunks else None
    if smaller is None:
        return
    search = _Search(smaller, monitor)
    fitting = 0
    for one in itertools.islice(search.promising(chunks), MOST_TRIED):
        fitting += search.offer(one)
        if fitting == MOST_FITTING:
            return


@dataclass(frozen=True, slots=True)
class _Cut:
    """Pieces in their order, cut into ``chunks`` stages a device. likely_s: compute of the busiest device in an
    iteration, with the time to fill and drain the pipeline."""

    micro_batches: int
    chunks: int
    cuts: tuple[int, ...]
    likely_s: float


class _Search:
    """smaller: the question over pieces of layers, whose pipeline takes stages in turn."""

    def __init__(self, smaller: Contraction, monitor: Monitor) -> None:
        self.smaller, self.question, self.monitor = smaller, smaller.question, monitor
        self.devices = self.question.cluster.accelerators
        self.condensed = Condensed(self.question, ordered=True)

    def promising(self, chunks: Sequence[int]) -> Iterator[_Cut]:
        """Even cuts that might beat the best plan, those with the least work and bubble first by their bounds."""
        counts = likely_counts(self.question, self.question.micro_batch_choices())
        pairs = [(one.bound_s * self._with_bubble(one.micro_batches, each), one.micro_batches, each)
                 for one, each in itertools.product(counts, chunks)]  # fmt: skip
        for bound_s, count, each in sorted(pairs):
            if bound_s >= self.monitor.objective_s:
                return
            cut = self._cut(count, each, UNLIMITED)
            if cut is not None and cut.likely_s < self.monitor.objective_s:
                yield cut

    def offer(self, cut: _Cut) -> bool:
        """Have a cut judged: as it is, else with what memory asks for run again, else cut for less memory. Whether a
        plan of it fits."""
        plan = self._planned(cut)
        if plan is None:
            return False
        judged_s = self._judged_s(plan)
        if judged_s > cut.likely_s * SLOW:  # it does not fit, or holds so little that devices wait
            judged_s = min(judged_s, self._offer_again(cut))
        tried = {cut.cuts}
        for share in memory_shares(self.question):
            other = self._cut(cut.micro_batches, cut.chunks, share) if judged_s == math.inf else None
            if other is None or other.likely_s >= self.monitor.objective_s:
                break
            if other.cuts not in tried and (plan := self._planned(other)) is not None:
                judged_s = self._judged_s(plan)
            tried.add(other.cuts)
        return judged_s < math.inf

    def _offer_again(self, cut: _Cut) -> float:
        """Offer the plan in which as little runs again as makes it fit; its objective in seconds, inf if none does."""
        if not self.question.recompute or not self.question.has_backward():
            return math.inf
        least_s, few, enough = math.inf, 0, cut.chunks + 1
        while enough - few > 1:
            again = (few + enough) // 2
            plan = self._planned(cut, again)
            judged_s = math.inf if plan is None else self._judged_s(plan)
            least_s = min(least_s, judged_s)
            few, enough = (few, again) if judged_s < math.inf else (again, enough)
        return least_s

    def _with_bubble(self, micro_batches: int, chunks: int) -> float:
        return 1.0 + (len(self.devices) - 1) / (chunks * micro_batches)

    def _contracted(self, micro_batches: int) -> Contracted:
        return self.condensed.at(self.question.mini_batch // micro_batches, merge_trivial=False)

    def _cut(self, count: int, chunks: int, share: float) -> _Cut | None:
        """Stages of even load, each with at most its part of a share of the memory; None if there are none."""
        pieces, parts = self._contracted(count), chunks * len(self.devices)
        if len(pieces) < parts:
            return None
        cap = min(self.question.cluster.devices[device].memory_bytes for device in self.devices)
        in_flight = (
            textbook_in_flight(len(self.devices), chunks, count) if self.question.has_backward() else [1] * parts
        )
        if self.question.pipeline is Pipeline.LOOPED_BFS:
            in_flight = [count] * parts
        weight, held = TRANSFER_WEIGHTS[0], cap * share / chunks
        cuts = even_cuts(pieces, range(len(pieces)), parts, in_flight, held, weight, self.monitor.check)
        if not cuts:
            return None
        loads_s = [float(pieces.acc_s[a:b].sum()) for a, b in itertools.pairwise(cuts)]
        busiest_s = max(sum(loads_s[rank :: len(self.devices)]) for rank in range(len(self.devices)))
        return _Cut(count, chunks, cuts, busiest_s * self.question.mini_batch * self._with_bubble(count, chunks))

    def _planned(self, cut: _Cut, again: int = 0) -> Plan | None:
        """The plan of a cut; None if its stages wait for each other. again: so many stages of every device, the first
        in the pipeline, which hold most, run their forward again."""
        self.monitor.check()
        members = self._contracted(cut.micro_batches).shape.members
        size = self.question.mini_batch // cut.micro_batches
        first = again * len(self.devices)
        stages = tuple(
            DraftStage(tuple(range(a, b)), size, recompute=WHOLE * (number < first))
            for number, (a, b) in enumerate(itertools.pairwise(cut.cuts))
        )
        places = [(self.devices[number % len(self.devices)],) for number in range(len(stages))]
        try:
            return realise(self.question, Draft(stages).expanded(members), places)
        except InvalidPlan:
            return None

    def _judged_s(self, plan: Plan) -> float:
        return self.monitor.offer(self.smaller.expanded(plan))
