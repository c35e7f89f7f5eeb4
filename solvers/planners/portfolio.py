"""The default: run what fits the problem, keep the best, improve it within the time given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.layer_split import LayerSplit
from solvers.latency.planners.latency import Latency
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.local_search import LocalSearch
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.pipelines.planners.repeated_blocks import RepeatedBlocks, first_split
from solvers.pipelines.planners.tied_ends import TiedEnds
from solvers.plan.result import StopReason
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.problem.groups import together
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import Planner

EXACT_WORK = 300
"""Pieces of work, of a few hundredths of a second, of the exact programme at normal effort."""
CONVEX_NODES = 2000
"""Nodes of the integer program's tree at normal effort."""
LARGE = 800
"""Co-location groups from which on repeated blocks are planned as such before the whole graph is."""
APART = (GraphPipeline, Joint, Latency, NonContiguous, Annealing, LocalSearch)
"""Members whose search goes on from what is known and from chance: each goes on as it would alone, so that it finds
here what it would find there."""


@dataclass(frozen=True)
class Auto:
    """Exact where it can be, otherwise the best of a family, of whose members it is never behind one, and then
    boundary moves.

    First everything on one device, if that fits. MAX_LOAD: the exact downset DP, unless its downsets exceed
    downset_budget or its work EXACT_WORK, and where it proves nothing `GraphPipeline`, layer splits and annealing;
    without contiguity the portfolio `NonContiguous`; for convex sets annealing and the integer program too. The
    latency of one sample (MAKESPAN with calls): the portfolio `Latency`. One pass of single operators placed anywhere
    (MAKESPAN): `Joint`, without improve only its seeds. ITERATION: the equal split, layer splits, one device,
    for large graphs `RepeatedBlocks`, linearised DP if stages are not replicated, `GraphPipeline`, if it supports the
    problem, and `TiedEnds`. Other objectives, and all if nothing was found: linearised DP, judged by the objective
    asked for. Then moves of operators across stage boundaries until none helps.
    """

    name: ClassVar[str] = "auto"
    source: ClassVar[str] = "portfolio of the planners here"
    guarantee: ClassVar[str] = "heuristic"

    downset_budget: int = 200_000
    improve: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def begin(self, problem: Problem, monitor: Monitor) -> None:
        """A first plan, within a tenth of a second: everything on one device, in the fewest or the most micro-batches,
        if that fits. Where it does not, layers split over pieces of what the model repeats."""
        monitor.member = SingleDevice.name
        device = next(iter(problem.cluster.accelerators), 0)
        counts = problem.micro_batch_choices()
        if problem.static_bytes().sum() <= problem.cluster.devices[device].memory_bytes:
            for count in dict.fromkeys((counts[0], counts[-1])):
                if monitor.best is None:
                    monitor.offer(assemble(problem, [(device,)] * len(problem.graph), count))
        if monitor.best is None:
            monitor.member = LayerSplit.name
            first_split(problem, monitor)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        try:
            return self._run(problem, monitor)
        finally:
            monitor.member = ""

    def _run(self, problem: Problem, monitor: Monitor) -> bool:
        covered = False
        if Latency().unsupported(problem) is None:
            covered, found = _ask(Latency(), problem, monitor)
            if covered or found:
                return covered
        joint = Joint() if self.improve else Joint(evaluations=1)
        if joint.unsupported(problem) is None:
            _, found = _ask(joint, problem, monitor)
            if found:
                return False
        members = self._members(problem, monitor.effort)
        for planner in members:
            if planner.unsupported(problem):
                continue
            try:
                covered = _ask(planner, problem, monitor)[0] or covered
            except Stop as stop:
                if stop.reason is not StopReason.STATE_LIMIT:
                    raise
            if covered or monitor.infeasible:
                return covered
        if monitor.best is None and LinearDP() not in members and LinearDP().unsupported(problem) is None:
            _ask(LinearDP(), problem, monitor)
        if monitor.best is None and _unequal_caps(problem) and LocalSearch().unsupported(problem) is None:
            _ask(LocalSearch(), problem, monitor)  # chains are planned for the smallest device
        if self.improve and monitor.best is not None:
            monitor.member = "boundary moves"
            monitor.begin("moving operators across stage boundaries")
            improve(problem, monitor)
        return False

    def _members(self, problem: Problem, effort: Effort) -> list[Planner]:
        exact = DownsetDP(downset_budget=self.downset_budget, work=effort.of(EXACT_WORK))
        quick: list[Planner] = [LinearDP(), SingleDevice(), EqualSplit()]
        if problem.objective is Objective.MAX_LOAD:
            if problem.contiguity is Contiguity.NONE:
                return [NonContiguous(downset_budget=self.downset_budget, prove=self.improve), exact, *quick]
            if problem.contiguity is Contiguity.CONVEX and self.improve:
                return [exact, *quick, Annealing(), MaxLoadIP(nodes=effort.of(CONVEX_NODES))]
            lengthy = GraphPipeline() if self.improve else GraphPipeline(evaluations=0)
            return [exact, *quick, lengthy, LayerSplit(), Annealing()]
        if problem.objective is Objective.ITERATION:
            graph = GraphPipeline() if self.improve else GraphPipeline(evaluations=0)
            if graph.unsupported(problem) is None:
                chain: list[Planner] = [LinearDP()] if problem.max_replicas == 1 or problem.cluster.cpus else []
                ends = TiedEnds() if self.improve else TiedEnds(evaluations=0)
                large = len(together(problem.graph)) >= LARGE
                blocks: list[Planner] = [RepeatedBlocks(evaluations=graph.evaluations)] if large else []
                quick = [EqualSplit(), LayerSplit(), SingleDevice(), *blocks, *chain, graph, ends]
        if problem.pipeline is Pipeline.INTERLEAVED:
            return [*quick, Interleaved()]
        return quick


def _ask(planner: Planner, problem: Problem, monitor: Monitor) -> tuple[bool, bool]:
    """Run a member, which the course of the search then names; whether it covered everything, and whether there is a
    plan (of its own, if it is one of those apart)."""
    monitor.member = planner.name
    inner = monitor.apart() if isinstance(planner, APART) else monitor
    covered = planner(problem, inner)
    return covered, inner.best is not None


def _unequal_caps(problem: Problem) -> bool:
    devices = problem.cluster.devices
    return len({(d.is_cpu, d.memory_bytes) for d in devices}) > len({d.is_cpu for d in devices})
