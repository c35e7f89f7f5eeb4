"""Drafts to start from: what the program over a graph's series-parallel tree finds at one micro-batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.costs import SizeCosts, node_of_operator, size_costs
from solvers.pipelines.recomputation.levels import again_of
from solvers.pipelines.tree.lines import LineBuilder, SeriesLine
from solvers.pipelines.tree.series_parallel import Series, Tree, decompose, joined, leaves, simplified
from solvers.pipelines.tree.stage_dp_kernel import Rules
from solvers.pipelines.tree.stage_tables import Cut, StageTables, draft_of
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.graph import topological_order
from solvers.problem.problem import Objective, Pipeline, Problem, Transfers
from solvers.schedules.ordering.orders import stage_successors
from solvers.search.work import Work

BRANCHING_SHARE = 1.0
"""Branches are distinguished if together they weigh this share of a device's average work, and ..."""
BESIDE_SHARE = 0.05
"""... all but the heaviest this share: otherwise no stage would follow them."""
GLUE_SHARE = 0.02
"""What takes at most this share of the average work of a device needs none of its own."""
JOIN_SHARE = 0.5
"""What joins branches may be put to one of them if it takes at most this share."""
RAMP_GROWTH = 1.6
"""The slowest stage of a pipeline that fills for free, relative to the least feasible bottleneck, at most."""
GROWTH = (1.0, 1.03, 1.08, 1.15, 1.25, 1.4, 1.7, 2.2)
"""Bottlenecks tried, relative to the least feasible: a longer one may shorten the critical path."""
PRECISION = 0.005
"""How closely the least feasible bottleneck is found."""
MOST_DEPTHS = 48


@dataclass(slots=True)
class Starts:
    """Starts for one problem, one micro-batch size after another."""

    condensed: Condensed
    check: Callable[[], None]
    effort: Work = field(default_factory=Work)
    glue_share: float = GLUE_SHARE
    order: tuple[int, ...] = ()
    """Super-operators in the order that all stages are cut from; empty for stages of the graph's tree too."""

    @property
    def problem(self) -> Problem:
        return self.condensed.problem

    def at(self, micro_batches: int, memory_share: float = 1.0) -> Iterator[Draft]:
        """The drafts of `over`, for every tree of the graph."""
        costs = size_costs(self.condensed, self.problem.mini_batch // micro_batches)
        for tree in self.trees(costs):
            yield from self.over(tree, costs, micro_batches, memory_share)

    def published(self, micro_batches: int, memory_share: float = 1.0) -> Draft | None:
        """The draft of the least bottleneck over the graph's tree, with the fewest stages one after the other: those
        keep the fewest micro-batches in flight (GraphPipe, ASPLOS 2025, section 6). None if nothing fits.

        Branches share their source and their sink there (section 5), so what joins them may be of a stage of
        any branch: here of the heaviest, or of no branch where that lowers the bottleneck."""
        costs = size_costs(self.condensed, self.problem.mini_batch // micro_batches)
        separate, with_joins = self._branching(costs)
        best: tuple[float, Draft] | None = None
        for tree in dict.fromkeys((with_joins, separate)):
            draft = self._least_depth(tree, costs, micro_batches, memory_share)
            if draft is not None and (best is None or draft[0] < best[0] * (1 - PRECISION)):
                best = draft
        return None if best is None else best[1]

    def _least_depth(
        self, tree: Tree, costs: SizeCosts, micro_batches: int, memory_share: float
    ) -> tuple[float, Draft] | None:
        """The least bottleneck over a tree, in seconds, and its draft with the fewest stages one after the other; None
        if nothing fits."""
        line = LineBuilder(costs, self.check).build(tree)
        rules = self.rules(costs, micro_batches, memory_share)
        least = self._least_bottleneck(line, rules)
        if least is None:
            return None
        tables = self._tables(line, rules, least)
        path = tables.solve()
        self.effort += tables.effort
        depth = int(np.flatnonzero(np.isfinite(path).any(axis=0))[0])
        used = int(path[:, depth].argmin())
        edges = self.condensed.at(costs.samples, merge_trivial=False).shape.edges
        return least, draft_of(tables.cuts(used, depth), edges, costs.samples)

    def trees(self, costs: SizeCosts) -> list[Tree]:
        """The graph's tree, the same with what joins branches put to them, and all in one chain; with an ``order`` that
        alone."""
        if self.order:
            return [Series(self.order)]
        separate, with_joins = self._branching(costs)
        return list(dict.fromkeys((separate, with_joins, Series(tuple(leaves(separate))))))

    def _branching(self, costs: SizeCosts) -> tuple[Tree, Tree]:
        """The graph's tree, and the same with what joins branches put to them."""
        weight = costs.forward_s[0] + costs.backward_s[0]
        average = float(weight.sum()) / len(self.problem.cluster.accelerators)
        shape = self.condensed.at(costs.samples, merge_trivial=False).shape
        after = shape.successors.lists()
        whole = decompose(after, weight.tolist(), least_s=average * BRANCHING_SHARE).tree
        tree = simplified(whole, weight, average * BRANCHING_SHARE, average * BESIDE_SHARE)
        return tree, joined(tree, weight, average * JOIN_SHARE)

    def over(self, tree: Tree, costs: SizeCosts, micro_batches: int, memory_share: float) -> Iterator[Draft]:
        """Over one tree, the draft of least time with as many in flight as needed, and for every bottleneck that
        of least critical path. All over super-operators."""
        line = LineBuilder(costs, self.check).build(tree)
        rules = self.rules(costs, micro_batches, memory_share)
        least = self._least_bottleneck(line, rules)
        edges = self.condensed.at(costs.samples, merge_trivial=False).shape.edges
        seen: set[tuple[Cut, ...]] = set()
        if least is None:
            return
        ramp = rules._replace(ramp=1)
        for in_flight, most_s in ((ramp, least * RAMP_GROWTH), *((rules, least * factor) for factor in GROWTH)):
            tables = self._tables(line, in_flight, most_s)
            value = tables.solve()
            self.effort += tables.effort
            if not np.isfinite(value).any():
                continue
            used, depth = (int(at) for at in np.unravel_index(int(value.argmin()), value.shape))
            cuts = tables.cuts(used, depth)
            if tuple(cuts) not in seen:
                seen.add(tuple(cuts))
                yield draft_of(cuts, edges, costs.samples)

    def rules(self, costs: SizeCosts, micro_batches: int, memory_share: float) -> Rules:
        problem = self.problem
        devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
        depths = min(len(devices), MOST_DEPTHS)
        in_flight = np.minimum(np.arange(depths + 2), micro_batches)
        if not problem.has_backward():
            in_flight[1:] = 1
        elif problem.pipeline is Pipeline.GPIPE:
            in_flight[:] = micro_batches
        average = float((costs.forward_s[0] + costs.backward_s[0]).sum()) / len(devices)
        return Rules(
            costs.degrees,
            costs.sync_s,
            costs.sync_s_per_byte,
            in_flight,
            len(devices),
            micro_batches,
            max(device.memory_bytes for device in devices) * memory_share,
            int(problem.transfers is Transfers.BLOCKING or problem.objective is Objective.MAX_LOAD),
            int(problem.recompute and problem.has_backward()),
            self.glue_share * average,
            0,
        )

    def _tables(self, line: SeriesLine, rules: Rules, most_s: float) -> StageTables:
        return StageTables(line, rules, len(rules.in_flight) - 2, most_s, self.check)

    def _feasible(self, line: SeriesLine, rules: Rules, most_s: float) -> bool:
        tables = self._tables(line, rules, most_s)
        feasible = bool(np.isfinite(tables.solve()).any())
        self.effort += tables.effort
        return feasible

    def _least_bottleneck(self, line: SeriesLine, rules: Rules) -> float | None:
        """The least seconds per micro-batch for which there are stages, within `PRECISION`; None without any."""
        low = line.seconds / rules.devices * 0.5
        high = low * 2.0
        for _ in range(20):
            if self._feasible(line, rules, high):
                break
            low, high = high, high * 1.5
        else:
            return None
        while high > low * (1 + PRECISION):
            middle = (low + high) / 2
            if self._feasible(line, rules, middle):
                high = middle
            else:
                low = middle
        return high


def over_super_operators(condensed: Condensed, draft: Draft) -> Draft:
    """A draft over operators with super-operators in their place, each of which one of its stages must hold whole."""
    number = node_of_operator(condensed).tolist()
    return Draft(
        tuple(replace(stage, operators=tuple(sorted({number[o] for o in stage.operators}))) for stage in draft.stages)
    )


def of_plan(condensed: Condensed, plan: Plan) -> Draft:
    """The draft over super-operators of a plan, without its slack. Of the stages of one device group that of most
    operators is the host of the others. A super-operator that several stages share goes to the one in the middle of
    them, and what precedes or follows it goes along as far as stages would wait for each other."""
    number = node_of_operator(condensed).tolist()
    order = _in_order(condensed.problem, plan)
    where: dict[int, list[int]] = {}
    for at, index in enumerate(order):
        for operator in plan.stages[index].operators:
            where.setdefault(number[operator], []).append(at)
    place = [sorted(where[node])[len(where[node]) // 2] for node in range(len(where))]
    shared = [node for node, stages in where.items() if len(set(stages)) > 1]
    if shared:
        _pull_along(condensed.at(1, merge_trivial=False).shape.edges, place, shared)
    members: dict[int, list[int]] = {}
    for node, at in enumerate(place):
        members.setdefault(order[at], []).append(node)
    nonempty = [index for index in range(len(plan.stages)) if index in members]
    hosts: dict[Place, int] = {}
    for index in sorted(nonempty, key=lambda i: -len(plan.stages[i].operators)):
        hosts.setdefault(plan.stages[index].devices, index)
    stages = []
    for index in nonempty:
        stage = plan.stages[index]
        host = hosts[stage.devices]
        stages.append(
            DraftStage(
                tuple(members[index]), stage.micro_batch_size, len(stage.devices), again_of(condensed.problem, stage),
                host=None if host == index else nonempty.index(host),
            )
        )  # fmt: skip
    return Draft(tuple(stages))


def _in_order(problem: Problem, plan: Plan) -> list[int]:
    """The stages in a topological order; those on cycles last."""
    after = [sorted(targets) for targets in stage_successors(problem, [stage.operators for stage in plan.stages])]
    return list(dict.fromkeys([*topological_order(after), *range(len(after))]))


def _pull_along(edges: Sequence[tuple[int, int]], place: list[int], chosen: Sequence[int]) -> None:
    """Change the places of super-operators, numbers that no edge leads down, so that this holds with the ``chosen``
    where they are, as far as it can. Super-operators are numbered in a topological order."""
    before: dict[int, list[int]] = {}
    for u, v in edges:
        before.setdefault(v, []).append(u)
    for node in chosen:
        todo = [node]
        while todo:
            for u in before.get(todo.pop(), ()):
                if place[u] > place[node]:
                    place[u] = place[node]
                    todo.append(u)
    for v in range(len(place)):
        place[v] = max([place[v], *(place[u] for u in before.get(v, ()))])
