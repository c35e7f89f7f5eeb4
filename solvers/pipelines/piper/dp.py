"""Piper's search: the chain of stages with the least bottleneck, over downsets that grow from the sink.

Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 5. The bottleneck is found by a search over
targets, each of which a smaller dynamic program proves feasible or not (`solvers.pipelines.piper.stage_kernel`). An
infeasible target also gives the next one that could be feasible, a feasible one gives a chain: they
close in on the optimum from both sides, and it is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from solvers.coarsening.contracted import Shape
from solvers.contiguous.chains import trace_back
from solvers.contiguous.downsets import (
    Check,
    Downsets,
    enumerate_downsets,
    finish,
    order_of,
    slices,
    suffix_order,
)
from solvers.contiguous.lattice_kernel import add_up
from solvers.contiguous.messages_kernel import no_ends
from solvers.contiguous.walk_kernel import PAIRS, RELAXATIONS, STATES
from solvers.pipelines.piper.costed import Costed, PiperStage
from solvers.pipelines.piper.memory_kernel import ABOVE_S, MEMORY, SUMS
from solvers.pipelines.piper.stage_kernel import LOADS, Stages, walk_stages
from solvers.search.work import Work

LIMIT = 40_000
"""Downsets above which Piper's program gives up."""
WORK_A_CALL = 2_000_000
"""Steps per kernel call, about: a hundredth of a second."""
EXACT = 1e-9
"""Relative distance at which two bottlenecks are the same."""


@dataclass(frozen=True, slots=True)
class PiperSearch:
    """A chain from the start of the pipeline to its end and its bottleneck (inf, and no stages, if there is
    none); whether a memory cap turned anything away; pairs of downsets looked at, targets tried, and effort."""

    bottleneck_s: float
    stages: tuple[PiperStage, ...]
    memory_was_short: bool
    pairs: int
    targets: int
    effort: Work


NOTHING = PiperSearch(math.inf, (), False, 0, 0, Work())


def downsets_of(shape: Shape, check: Check, limit: int = LIMIT) -> Downsets | None:
    """The downsets, which grow from the sink, or None if there are more than ``limit``."""
    return enumerate_downsets(suffix_order(shape), limit, check)


def too_many(limit: int) -> str:
    """Why Piper gives up."""
    return f"piper gives up on graphs with more than {limit:,} downsets, as its published program does"


def in_one_order(costed: Costed, check: Check) -> PiperSearch:
    """The chain with the least bottleneck among those that cut the nodes' own order. Calls ``check`` often."""
    if not np.isfinite(costed.costs.compute_s).any(axis=0).all():
        return NOTHING
    return _Search(_line(len(costed), check), costed, check).best(NOTHING)


def least_bottleneck(downsets: Downsets, costed: Costed, check: Check, start: PiperSearch | None = None) -> PiperSearch:
    """The chain of ``downsets`` with the least bottleneck. Exact; calls ``check`` often.

    downsets: of the nodes of ``costed``, growing from the sink. start: what `in_one_order` found, if that is
    known: where its chain cannot be improved one more target proves it. The effort includes it.
    """
    start = in_one_order(costed, check) if start is None else start
    if len(downsets) == len(costed) + 1 or start is NOTHING:
        return start
    return _Search(downsets, costed, check).best(start)


def _line(nodes: int, check: Check) -> Downsets:
    """The downsets of the nodes' own order: its suffixes."""
    downsets = enumerate_downsets(order_of([(v + 1, v) for v in range(nodes - 1)], nodes), nodes + 1, check)
    assert downsets is not None
    return downsets


class _Search:
    """Targets tried on one lattice."""

    def __init__(self, downsets: Downsets, costed: Costed, check: Check) -> None:
        self.downsets, self.costed, self.check = downsets, costed, check
        work_s = (costed.costs.compute_s * costed.costs.devices[:, None]).min(axis=0)
        done_s = add_up(downsets.parent, downsets.via, work_s)
        # Sums that should cancel leave a rest, and with no device left even that would be too much.
        self.left_s = np.maximum(done_s[-1] - done_s - 1e-12 * done_s[-1], 0.0)
        self.floor_s = max(float(done_s[-1]) / costed.most_devices, float(costed.costs.compute_s.min(axis=0).max()))
        per_pair = len(costed.costs.devices) * (20 + 8 * len(costed) * costed.memory.by_layer)
        self.quota = max(WORK_A_CALL // per_pair, 1)
        self.stages = self._room()

    def best(self, incumbent: PiperSearch) -> PiperSearch:
        """The best chain, given the best one known so far (or none)."""
        low = self.floor_s
        if not incumbent.stages:
            incumbent, _ = self._try(math.inf, incumbent)
        improved = False
        while incumbent.stages and low < incumbent.bottleneck_s * (1 - EXACT):
            high = incumbent.bottleneck_s
            target = math.sqrt(low * high) if improved and low > 0 else high * (1 - EXACT)
            tried, above_s = self._try(max(target, low), incumbent)
            improved = tried.bottleneck_s < high
            if not improved:
                low = max(target, low, above_s)
            incumbent = tried
        return incumbent

    def _try(self, target_s: float, known: PiperSearch) -> tuple[PiperSearch, float]:
        """The better of a chain within the target and the one known, with the effort of both; and the
        least target above this one that could be feasible if it is not."""
        costed = self.costed
        at = self.stages._replace(target_s=min(target_s, 1e300))
        for first, end in slices(len(at.least), self.check):
            at.least[first:end] = costed.most_sum + 1
        at.least[0, 0] = 0
        at.short[:] = (math.inf, 0.0)
        cursor = finish(walk_stages, self.downsets, at, costed.most_devices + 1, self.quota, self.check).cursor
        stages = self._trace_back()
        known = replace(
            known,
            memory_was_short=known.memory_was_short or bool(at.short[MEMORY]),
            pairs=known.pairs + int(cursor[PAIRS]),
            targets=known.targets + 1,
            effort=known.effort + Work(int(cursor[STATES]), int(cursor[RELAXATIONS])),
        )
        bottleneck_s = max((stage.seconds for stage in stages), default=math.inf)
        if bottleneck_s < known.bottleneck_s:
            known = replace(known, bottleneck_s=bottleneck_s, stages=stages)
        return known, float(at.short[ABOVE_S])

    def _trace_back(self) -> tuple[PiperStage, ...]:
        """The chain on the fewest devices that the table ends with."""
        at, costed = self.stages, self.costed
        reached = np.flatnonzero(at.least[-1] <= costed.most_sum)
        if not len(reached):
            return ()
        stages = []
        for source, here, option, k in trace_back(at.came_from, int(reached[0]), costed.costs.devices):
            degree = int(costed.costs.degrees[option])
            flights = min(-(-int(at.least[here, k]) // degree), int(costed.costs.flights[option]))
            stage = costed.measured(self.downsets.difference(here, source), option, flights)
            assert stage is not None, "a stage that the program took does not fit"
            stages.append(stage)
        return tuple(stages)

    def _room(self) -> Stages:
        costed, shape = self.costed, (len(self.downsets), self.costed.most_devices + 1)
        options, groups, depths = len(costed.costs.devices), len(costed.memory.kept_bytes), len(costed) + 2
        return Stages(
            costs=costed.costs,
            memory=costed.memory,
            target_s=math.inf,
            most_sum=costed.most_sum,
            least=np.empty(shape, np.int32),
            came_from=np.empty(shape, np.int64),
            left_s=self.left_s,
            short=np.zeros(2),
            usable=np.zeros(1, np.int64),
            ends=no_ends(len(costed.traffic)),
            inside=np.zeros(len(costed), np.bool_),
            first=np.zeros(depths, np.int64),
            seconds=np.zeros((depths, options, LOADS)),
            nbytes=np.zeros((depths, groups, SUMS)),
            received_bytes=np.zeros((depths, groups)),
            params=np.zeros(depths, np.int64),
        )
