"""The search of `Auto`: run what fits the problem, take the best, improve it within the time given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.errors import InvalidPlan
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.layer_split import LayerSplit
from solvers.latency.planners.latency import Latency
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.local_search import LocalSearch
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.group_sizes import OfSize, group_sizes, joined, of_size
from solvers.pipelines.ladder import levelled, on_some_kinds, simpler
from solvers.pipelines.part_of_many import Part, parts_of_many
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.pipelines.planners.repeated_blocks import RepeatedBlocks, first_split
from solvers.pipelines.planners.selective_recompute import SelectiveRecompute
from solvers.pipelines.planners.tied_ends import TiedEnds
from solvers.pipelines.seating import caps_differ, kinds_by_speed
from solvers.plan.plan import Plan
from solvers.plan.result import StopReason
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.planners.carry import carried, relabelled
from solvers.planners.uniform import plain_splits
from solvers.problem.groups import together
from solvers.problem.pinned import with_pins_together
from solvers.problem.problem import SEVERAL_STAGES, Contiguity, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.search.effort import Effort
from solvers.search.monitor import TIED, Monitor, Stop
from solvers.search.planner import Planner

EXACT_WORK = 300
"""Pieces of work, of a few hundredths of a second, of the exact program at normal effort."""
CONVEX_NODES = 2000
"""Nodes of the integer program's tree at normal effort."""
LADDER_SHARE = 0.9
"""Of the time that is left, what the next question of a ladder may take: halved on each of a dozen, none would be left
for the last."""
PARTS = 2
"""Parts of many devices that are planned in full at normal effort."""
MEMORY_SHARES = (1.0, 0.8, 0.6)
"""Of every device's memory that a part of a pipeline is planned for."""
PART_SHARE = 0.15
"""Of the time that is left, what the question about the groups of one size may take."""
LARGE = 800
"""Co-location groups from which on repeated blocks are planned as such before the whole graph is."""
INDEPENDENT = (GraphPipeline, Joint, Latency, NonContiguous, Annealing, LocalSearch)
"""Members whose search goes on from what is known and from chance: each goes on as it would alone, so that it finds
here what it would find there."""

Answers: TypeAlias = dict[tuple[int, int], Plan | None]
"""The plans of a ladder's questions, by devices and replicas; None where there is none."""


@dataclass(frozen=True)
class Portfolio:
    """The search of `Auto`, which says what it does.

    downset_budget: of the exact DP, downsets. improve: whether to go on from the first plans of the members.
    """

    downset_budget: int
    improve: bool

    def begin(self, problem: Problem, monitor: Monitor) -> None:
        """A first plan, within a tenth of a second: everything on one device, in the fewest or the most micro-batches,
        if that fits. Where it does not, layers split over pieces of what the model repeats."""
        for part in parts_of_many(problem):
            self.begin(part.question, monitor.for_question(part.question, part.answer))
            if monitor.best is not None:
                return
        monitor.member = SingleDevice.name
        pinned = set(problem.pins.values())
        devices = sorted(problem.cluster.accelerators, key=lambda d: -problem.cluster.devices[d].memory_bytes) or [0]
        device = min(pinned, default=devices[0])
        counts = problem.micro_batch_choices()
        if len(pinned) < 2 and problem.static_bytes().sum() <= problem.cluster.devices[device].memory_bytes:
            for count in dict.fromkeys((counts[0], counts[-1])):
                if monitor.best is None:
                    monitor.offer(assemble(problem, [(device,)] * len(problem.graph), count))
        if monitor.best is None:
            monitor.member = LayerSplit.name
            first_split(problem, monitor)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        try:
            before = monitor.given or problem.recompute_operators  # what `search_without` asked has been through here
            if not before and len(together(problem.graph)) >= LARGE:
                monitor.member = LayerSplit.name
                plain_splits(problem, monitor)
            return self._run(problem, monitor, {})
        finally:
            monitor.member = ""

    def _run(self, problem: Problem, monitor: Monitor, answers: Answers) -> bool:
        """answers: of the ladder so far, on which this question may be."""
        parts = parts_of_many(problem)
        if parts:
            self._answer_parts(parts, monitor)
            return False
        starts: list[Plan] = []
        free = levelled(problem)
        if free is not None:
            answer, covered = self._answer(free, monitor, lambda plan: relabelled(problem, plan))
            monitor.raise_bound(answer.bound_s)
            if answer.infeasible:
                monitor.prove_infeasible(answer.infeasible)
            met = monitor.objective_s <= answer.objective_s * (1 + TIED) < math.inf
            holds = monitor.best is answer.best and not caps_differ(problem.cluster)
            if monitor.infeasible or (met and (covered or holds)):
                for text in answer.notes:
                    monitor.note(text)
                return covered
            if answer.best is not None:
                starts.append(relabelled(problem, answer.best))
                for plan in carried(problem, answer.best):
                    monitor.check()
                    monitor.offer(plan)
        self._by_group_size(problem, monitor)
        several = False
        for part in on_some_kinds(problem):
            several = True
            if lower_bound_s(part.question) < monitor.objective_s:
                self._answer(part.question, monitor, part.answer)
        unequal = free is not None or several
        if self._as_it_is(problem, monitor, starts, unequal=unequal):
            return True
        if self.improve and not unequal and problem.objective is Objective.ITERATION:
            self._descend(problem, monitor, answers)
        return False

    def _answer_parts(self, parts: Sequence[Part], monitor: Monitor) -> None:
        """Answer the questions about parts of many devices: plainly from the largest down, until less is worse, then in
        full those whose plain plans take least, done by all devices."""
        plain: list[tuple[Monitor, Part]] = []
        for part in parts:
            inner = monitor.for_question(part.question, part.answer)
            if EqualSplit().unsupported(part.question) is None:
                _run_member(EqualSplit(), part.question, inner)
            if inner.best is None:
                self.begin(part.question, inner)
            if plain and inner.objective_s >= plain[0][0].objective_s:
                break
            plain.insert(0, (inner, part))
        for inner, part in plain[: monitor.effort.of(PARTS)]:
            monitor.note(f"planned for {len(part.question.cluster)} devices, {len(part.groups):,} times alike")
            self._run(part.question, inner, {})

    def _by_group_size(self, problem: Problem, monitor: Monitor) -> None:
        """Where groups differ in size, plan the operators of each size on their groups, with as many micro-batches as
        those that take longest like best, with half and with twice as many; and join the stages. Where the whole then
        exceeds the memory, the parts are planned for less."""
        sizes = group_sizes(problem)
        if not sizes:
            return
        monitor.begin("groups of each size by themselves")
        free = {size: self._of_size(problem, size, None, 1.0, monitor) for size in sizes}
        slowest = max(sizes, key=lambda size: free[size][0].objective_s)
        best = free[slowest][0].best
        if best is None:
            return
        first = problem.mini_batch // best.stages[0].micro_batch_size
        near = (first, first * 2, first // 2, first * 4)
        for count in [count for count in near if count in problem.micro_batch_choices()]:
            for memory in MEMORY_SHARES:
                answers = [self._of_size(problem, size, count, memory, monitor) for size in sizes]
                plans = [(part, inner.best) for inner, part in answers if inner.best is not None]
                if len(plans) < len(sizes):
                    break
                try:
                    if monitor.offer(joined(problem, plans)) < math.inf:
                        break
                except InvalidPlan:
                    break

    def _of_size(
        self, problem: Problem, size: int, count: int | None, memory: float, monitor: Monitor
    ) -> tuple[Monitor, OfSize]:
        part = of_size(problem, size, count, memory)
        inner = monitor.for_question(part.question)
        inner.time_limit_s *= PART_SHARE
        try:
            self.begin(part.question, inner)
            self._run(part.question, inner, {})
        except Stop as stop:
            if stop.reason is StopReason.CANCELLED:
                raise
        monitor.check()
        return inner, part

    def _descend(self, problem: Problem, monitor: Monitor, answers: Answers) -> None:
        """Answer the next simpler questions, and go on from a plan of theirs that is better. answers: those of the
        ladder that are there; what is answered here is added."""
        graph = self._graph(problem, unequal=False)
        for rung in simpler(problem, one_by_one=True):
            before_s = monitor.objective_s
            if lower_bound_s(rung.question) >= before_s or proved_infeasible(rung.question):
                continue
            if rung.key in answers:
                plan = answers[rung.key]
                if plan is not None:
                    monitor.offer(rung.answer(plan))
            else:
                monitor.begin(f"the same on {rung.key[0]} devices" + " without replicas" * (rung.key[1] == 1))
                plan = answers[rung.key] = self._answer(rung.question, monitor, rung.answer, answers)[0].best
            if plan is not None and monitor.objective_s < before_s and graph.unsupported(problem) is None:
                monitor.member = graph.name
                monitor.begin("going on from the answer to a simpler question")
                graph.go_on(problem, monitor, [rung.answer(plan)])
                improve(problem, monitor)

    def _answer(
        self,
        question: Problem,
        monitor: Monitor,
        taken_over: Callable[[Plan], Plan],
        answers: Answers | None = None,
    ) -> tuple[Monitor, bool]:
        """Answer another question, in half the time that is left, or `LADDER_SHARE` of it on a ladder; its plans are
        offered here as ``taken_over`` makes them. answers: of the ladder that it is on. What was found, and whether
        everything was covered."""
        inner, covered = monitor.for_question(question, taken_over), False
        inner.time_limit_s *= 0.5 if answers is None else LADDER_SHARE
        try:
            self.begin(question, inner)
            inner.raise_bound(lower_bound_s(question))
            covered = self._run(question, inner, {} if answers is None else answers)
        except Stop as stop:
            if stop.reason is StopReason.CANCELLED:
                raise
        monitor.check()
        return inner, covered

    def _as_it_is(self, problem: Problem, monitor: Monitor, starts: Sequence[Plan], *, unequal: bool) -> bool:
        """Run the members on the question. starts: plans of other questions, to go on from. unequal: whether devices
        are distinguished."""
        covered = False
        if Latency().unsupported(problem) is None:
            covered, has_plan = _run_member(Latency(), problem, monitor)
            if covered or has_plan:
                return covered
        joint = Joint() if self.improve else Joint(evaluations=1)
        if joint.unsupported(problem) is None:
            _, has_plan = _run_member(joint, problem, monitor)
            if has_plan:
                return False
        grouped = with_pins_together(problem) if problem.contiguity is not Contiguity.NONE else problem
        members = self._members(grouped, monitor.effort, unequal)
        for planner in members:
            if planner.unsupported(grouped):
                continue
            try:
                covered = _run_member(planner, grouped, monitor)[0] or covered
            except Stop as stop:
                if stop.reason is not StopReason.STATE_LIMIT:
                    raise
            if covered or monitor.infeasible:
                return covered
        if monitor.best is None and LinearDP() not in members and LinearDP().unsupported(grouped) is None:
            _run_member(LinearDP(), grouped, monitor)
        graph = self._graph(problem, unequal)
        if unequal and self.improve and problem.objective is not Objective.MAKESPAN and not graph.unsupported(problem):
            monitor.member = graph.name
            monitor.begin("going on from the answers to simpler questions")
            best = [] if monitor.best is None else [monitor.best]
            graph.go_on(problem, monitor, [*starts, *best])
        moved = isinstance(members[-1], RepeatedBlocks)  # which does so itself
        if self.improve and monitor.best is not None and not moved:
            monitor.member = "boundary moves"
            monitor.begin("moving operators across stage boundaries")
            improve(problem, monitor)
        return False

    def _graph(self, problem: Problem, unequal: bool) -> GraphPipeline:
        """unequal: whether devices are distinguished; where they are not, the ladder of an ITERATION is climbed."""
        if not self.improve:
            return GraphPipeline(evaluations=0)
        return GraphPipeline(ladder=unequal or problem.objective is not Objective.ITERATION)

    def _members(self, problem: Problem, effort: Effort, unequal: bool) -> list[Planner]:
        """unequal: whether devices are distinguished, which searches over sets and single moves are the best at."""
        members = self._equal_members(problem, effort, unequal)
        if unequal and self.improve:
            members += [one for one in (Annealing(), LocalSearch()) if one not in members]
        return members

    def _equal_members(self, problem: Problem, effort: Effort, unequal: bool) -> list[Planner]:
        exact = DownsetDP(downset_budget=self.downset_budget, work=effort.of(EXACT_WORK))
        quick: list[Planner] = [LinearDP(), SingleDevice(), EqualSplit()]
        if problem.objective is Objective.MAX_LOAD:
            if problem.contiguity is Contiguity.NONE:
                return [NonContiguous(downset_budget=self.downset_budget, prove=self.improve), exact, *quick]
            if problem.contiguity is Contiguity.CONVEX and self.improve:
                return [exact, *quick, Annealing(), MaxLoadIP(nodes=effort.of(CONVEX_NODES))]
            return [exact, *quick, self._graph(problem, unequal), LayerSplit(), Annealing()]
        if problem.objective is Objective.ITERATION:
            graph = self._graph(problem, unequal)
            if graph.unsupported(problem) is None:
                kinds = len(kinds_by_speed(problem))
                alone = problem.max_replicas == 1 or problem.cluster.cpus or kinds > 1
                chain: list[Planner] = [LinearDP()] if alone else []
                several = Interleaved()
                turns: list[Planner] = [several] if several.unsupported(problem) is None else []
                if turns and problem.pipeline in SEVERAL_STAGES and problem.pipeline is not Pipeline.INTERLEAVED:
                    return [EqualSplit(), SingleDevice(), *turns]
                ends = TiedEnds(evaluations=graph.evaluations)
                large = len(together(problem.graph)) >= LARGE
                quickly = problem.repeats.times > 1 and effort is Effort.QUICK
                pieces = len(problem.cluster.accelerators) if quickly else RepeatedBlocks.pieces
                evaluations = graph.evaluations // 4 if quickly else graph.evaluations
                blocks: list[Planner] = [RepeatedBlocks(pieces, evaluations)] if large else []
                brief: list[Planner] = [replace(several, orders=1, improve=False)] if turns else []
                if blocks and quickly:  # the equal split was the plain one
                    named = problem.pipeline is Pipeline.INTERLEAVED
                    return [SelectiveRecompute(), *blocks, *(turns if named else brief)]
                first: list[Planner] = [EqualSplit(), LayerSplit(), SingleDevice(), SelectiveRecompute()]
                if problem.pipeline is Pipeline.INTERLEAVED:
                    return [*first, *blocks, *chain, *turns, graph, ends]
                return [*first, *blocks, *chain, *brief, graph, ends, *turns]
        if problem.pipeline in SEVERAL_STAGES and Interleaved().unsupported(problem) is None:
            return [*quick, Interleaved()]
        return quick


def _run_member(planner: Planner, problem: Problem, monitor: Monitor) -> tuple[bool, bool]:
    """Run a member, which the course of the search then names; whether it covered everything, and whether there is a
    plan (of its own, if it is one of those apart)."""
    monitor.member = planner.name
    inner = monitor.independent() if isinstance(planner, INDEPENDENT) else monitor
    covered = planner(problem, inner)
    return covered, inner.best is not None
