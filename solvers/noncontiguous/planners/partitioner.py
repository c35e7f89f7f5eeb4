"""A graph partitioner that knows nothing of order: balanced parts with little between them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.errors import InvalidPlan
from solvers.problem.problem import Contiguity, Problem
from solvers.programs.background import Background
from solvers.programs.metis import WeightedGraph
from solvers.programs.optional import lacking
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor

TOLERANCES = (1, 10, 30, 100, 300, 1000)
"""Allowed excess of a part over the average, in thousandths (METIS's ufactor; its own default is 30)."""
CHECK_S = 0.005
"""Seconds between looks at what METIS has found."""


@dataclass(frozen=True)
class Partitioner:
    """Parts of equal compute, one an accelerator, between which transfers take little time.

    The role that Scotch has in the paper, played by METIS. Vertices are the co-location groups with
    their compute, edges the pairs of which one reads the other's output, with the transfer's time.
    Every tolerance of the balance is tried with ``seeds`` seeds, and each placement is judged by the
    objective asked for. Nothing keeps the flow between parts free of cycles, so where the problem
    asks for that there may be no plan. What no accelerator can run goes to a CPU.
    """

    name: ClassVar[str] = "partitioner"
    source: ClassVar[str] = "METIS (Karypis and Kumar 1998), for Scotch in Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "heuristic"

    seeds: int = 4

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, found {self.seeds}")

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it spreads operators over accelerators, and the cluster has none"
        if len({problem.cluster.devices[d].kind for d in problem.cluster.accelerators}) > 1:
            return "accelerators must be of one kind: parts are to be equally large"
        if problem.pins:
            return "operators pinned to a device; use local-search or auto, or remove the pins"
        return lacking("pymetis")

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        condensed = Condensed(problem)
        counts = micro_batch_choices(problem)
        contracted = [condensed.at(problem.mini_batch // count, merge_trivial=False) for count in counts]
        tried = cyclic = misfit = 0
        seen: set[tuple[int, ...]] = set()
        accelerators = problem.cluster.accelerators
        for number, parts in self._partitions(problem, contracted, monitor):
            if (number, *parts) in seen:
                continue
            seen.add((number, *parts))
            tried += 1
            try:
                places = [(accelerators[part] if part >= 0 else problem.cluster.cpus[0],) for part in parts]
                plan = assemble(problem, contracted[number].shape.placement(places), counts[number])
            except InvalidPlan:
                cyclic += 1
                continue
            misfit += monitor.offer(plan) == np.inf
        if monitor.best is None:
            monitor.note(_why_none(problem, tried, cyclic, misfit))
        return False

    def _partitions(
        self, problem: Problem, contracted: Sequence[Contracted], monitor: Monitor
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """For one option after the other: which of ``contracted``, and the part of each of its
        super-operators; -1: on a CPU."""
        inside = np.flatnonzero(contracted[0].supported)
        outside = len(contracted[0]) - len(inside)
        if outside and not problem.cluster.cpus:
            return
        count = len(problem.cluster.accelerators)
        if count == 1 or len(inside) < 2:
            for number, each in enumerate(contracted):
                yield number, tuple(np.where(each.supported, 0, -1).tolist())
            return
        payload = {
            "graphs": [_graph(each, inside).payload() for each in contracted],
            "parts": count,
            "tolerances": TOLERANCES,
            "seeds": [monitor.seed + seed for seed in range(self.seeds)],
        }
        with Background("partition", payload) as metis:
            while not metis.done:
                monitor.check()
                for message in metis.poll():
                    monitor.check()
                    parts = np.full(len(contracted[0]), -1)
                    parts[inside] = message["parts"]
                    yield message["graph"], tuple(parts.tolist())
                time.sleep(CHECK_S)
            if metis.error:
                monitor.note(f"METIS failed: {metis.error}")


def _graph(contracted: Contracted, inside: NDArray[np.int64]) -> WeightedGraph:
    """The super-operators ``inside`` with their compute, joined by the time of their transfers.

    An edge's time is that of all messages between its two ends, whatever other readers they have.
    """
    vertex = np.full(len(contracted), -1)
    vertex[inside] = np.arange(len(inside))
    between: dict[tuple[int, int], float] = {}
    traffic = contracted.shape.traffic
    for message, seconds in enumerate(contracted.message_s.tolist()):
        for maker in vertex[traffic.makers[message]].tolist():
            for reader in vertex[traffic.readers[message]].tolist():
                if maker >= 0 and reader >= 0 and maker != reader and seconds < np.inf:
                    pair = (min(maker, reader), max(maker, reader))
                    between[pair] = between.get(pair, 0.0) + seconds
    return WeightedGraph.of(contracted.acc_s[inside], between)


def _why_none(problem: Problem, tried: int, cyclic: int, misfit: int) -> str:
    """Why none of the placements is a plan, as a sentence."""
    if not tried:
        return "some operators cannot run on an accelerator, and there is no CPU to take them"
    reasons = []
    if cyclic:
        reasons.append(f"in {cyclic} of them devices form a cycle")
    if misfit:
        reasons.append(f"{misfit} of them do not fit the devices' memory or break another rule")
    hint = "" if problem.contiguity is Contiguity.NONE else "; it may have one with --contiguity none"
    return f"of {tried} partitions none is a plan: {' and '.join(reasons)}{hint}"
