"""A graph partitioner that knows nothing of order: balanced parts with little between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.assemble import assemble
from solvers.coarsen import Condensed, Contracted
from solvers.errors import InvalidPlan
from solvers.monitor import Monitor
from solvers.optional import lacking
from solvers.planners.chain_dp import micro_batch_choices
from solvers.problem import Contiguity, Problem
from solvers.segments import Place

Ints = NDArray[np.int32]

TOLERANCES = (1, 10, 30, 100, 300, 1000)
"""Allowed excess of a part over the average, in thousandths (METIS's ufactor; its own default is 30)."""
TOTAL = 10**8
"""The weights' sum after scaling: METIS counts in 32 bits."""
MAX_SEED = 2**31
QUICK = 20_000
"""Vertices up to which recursive bisection is tried too; above, only the faster k-way partitioning."""


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
        tried = cyclic = misfit = 0
        for count in micro_batch_choices(problem):
            contracted = condensed.at(problem.mini_batch // count, merge_trivial=False)
            seen: set[tuple[int, ...]] = set()
            for parts in self._partitions(problem, contracted, monitor):
                if parts in seen:
                    continue
                seen.add(parts)
                tried += 1
                try:
                    plan = assemble(problem, _placement(problem, contracted, parts), count)
                except InvalidPlan:
                    cyclic += 1
                    continue
                misfit += monitor.offer(plan) == np.inf
        if monitor.best is None:
            monitor.note(_why_none(problem, tried, cyclic, misfit))
        return False

    def _partitions(self, problem: Problem, contracted: Contracted, monitor: Monitor) -> Iterator[tuple[int, ...]]:
        """The part of every super-operator, METIS's for one option after the other; -1: on a CPU."""
        import pymetis

        count = len(problem.cluster.accelerators)
        inside = np.flatnonzero(contracted.supported)
        if len(inside) < len(contracted) and not problem.cluster.cpus:
            return
        vertex = np.full(len(contracted), -1)
        vertex[inside] = np.arange(len(inside))
        start, neighbours, transfers = _neighbours(contracted, vertex)
        graph = pymetis.CSRAdjacency(start, neighbours)
        compute = _scaled(contracted.acc_s[inside], least=0)
        for recursive in (True, False) if len(inside) <= QUICK else (False,):
            for tolerance in TOLERANCES:
                for seed in range(self.seeds):
                    monitor.check()
                    parts = np.full(len(contracted), -1)
                    if count > 1 and len(inside):
                        options = pymetis.Options(ufactor=tolerance, seed=(monitor.seed + seed) % MAX_SEED)
                        found = pymetis.part_graph(
                            count, graph, vweights=compute, eweights=transfers, recursive=recursive, options=options
                        )
                        parts[inside] = found[1]
                    else:
                        parts[inside] = 0
                    yield tuple(parts.tolist())


def _neighbours(contracted: Contracted, vertex: NDArray[np.int64]) -> tuple[Ints, Ints, Ints]:
    """The graph in compressed rows: starts, neighbours, and the scaled transfer time to each of them.

    An edge's time is that of all messages between its two ends, whatever other readers they have.
    """
    between: dict[tuple[int, int], float] = {}
    traffic = contracted.shape.traffic
    for message, seconds in enumerate(contracted.message_s.tolist()):
        for maker in vertex[traffic.makers[message]].tolist():
            for reader in vertex[traffic.readers[message]].tolist():
                if maker >= 0 and reader >= 0 and maker != reader and 0 < seconds < np.inf:
                    pair = (min(maker, reader), max(maker, reader))
                    between[pair] = between.get(pair, 0.0) + seconds
    ends = np.array(list(between), np.int64).reshape(-1, 2)
    weights = _scaled(np.array(list(between.values())), least=1)
    ends, weights = np.vstack([ends, ends[:, ::-1]]), np.concatenate([weights, weights])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    start = np.zeros(int(vertex.max(initial=-1)) + 2, np.int32)
    np.cumsum(np.bincount(ends[:, 0], minlength=len(start) - 1), out=start[1:])
    return start, ends[order, 1].astype(np.int32), weights[order]


def _scaled(seconds: NDArray[np.float64], least: int) -> Ints:
    """Whole numbers in proportion, at least ``least`` each, that add up to about TOTAL."""
    total = float(seconds.sum())
    if total <= 0:
        return np.ones(len(seconds), np.int32)
    return np.maximum(np.rint(seconds * (TOTAL / total)), least).astype(np.int32)


def _placement(problem: Problem, contracted: Contracted, parts: tuple[int, ...]) -> list[Place]:
    placement: list[Place] = [()] * len(problem.graph)
    for members, part in zip(contracted.shape.members, parts, strict=True):
        device = problem.cluster.accelerators[part] if part >= 0 else problem.cluster.cpus[0]
        for operator in members:
            placement[operator] = (device,)
    return placement


def _why_none(problem: Problem, tried: int, cyclic: int, misfit: int) -> str:
    """Why none of the placements is a plan, as a sentence."""
    if not tried:
        return "some operators cannot run on an accelerator, and there is no CPU to take them"
    reasons = []
    if cyclic:
        reasons.append(f"in {cyclic} of them tensors flow round the devices")
    if misfit:
        reasons.append(f"{misfit} of them do not fit the devices' memory or break another rule")
    hint = "" if problem.contiguity is Contiguity.NONE else "; it may have one with --contiguity none"
    return f"of {tried} partitions none is a plan: {' and '.join(reasons)}{hint}"
