"""The tables of the graph pipeline's dynamic program against the enumeration of all stages of a tree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.costs import SizeCosts, size_costs
from solvers.pipelines.tree.lines import LineBuilder
from solvers.pipelines.tree.series_parallel import Parallel, Series, Tree, decompose, leaves
from solvers.pipelines.tree.stage_dp_kernel import Rules
from solvers.pipelines.tree.stage_tables import Cut, StageTables
from solvers.pipelines.tree.starts import Starts
from solvers.plan.drafts import FIRST_LEVEL, WHOLE
from tests.oracle.stage_oracle import random_pipeline_problem


class Enumeration:
    """Every way to cut a tree, from sets of nodes and messages."""

    def __init__(self, costs: SizeCosts, rules: Rules, most_s: float) -> None:
        self.costs, self.rules, self.most_s = costs, rules, most_s

    def whole(self, tree: Tree) -> dict[tuple[int, int], float]:
        """(devices, depth) -> the least critical path."""
        best: dict[tuple[int, int], float] = {}
        for used, depth, path in self.series(tree, 0):
            if used <= self.rules.devices and path < best.get((used, depth), math.inf):
                best[used, depth] = path
        return best

    def series(self, tree: Tree, after: int) -> Iterator[tuple[int, int, float]]:
        parts = tree.parts if isinstance(tree, Series) else (tree,)
        items = [set(leaves(part)) for part in parts]
        inside = set().union(*items)

        def going(before: set[int], degree: int) -> tuple[float, float]:
            """Seconds forward and backward of what crosses from ``before`` to the rest of the series or beyond."""
            sides = [0.0, 0.0]
            traffic = self.costs.traffic
            for message, backward in enumerate(traffic.backward):
                makers, readers = set(traffic.makers[message].tolist()), set(traffic.readers[message].tolist())
                early, late = (readers, makers) if backward else (makers, readers)
                if not (makers | readers) & inside:
                    continue
                if backward:
                    starts = bool(early & before) or (bool(makers & inside) and bool(early - inside))
                    ends = bool((late & inside) - before) or not makers & inside
                    starts = starts if makers & inside else bool(early & before)
                else:
                    ends = bool((late & inside) - before) or (bool(makers & inside) and bool(late - inside))
                    starts = bool(early & before) or not makers & inside
                if starts and ends:
                    sides[int(backward)] += float(self.costs.message_s[degree, message])
            return sides[0], sides[1]

        def bytes_into(before: set[int], degree: int) -> float:
            traffic, total = self.costs.traffic, 0.0
            for message, backward in enumerate(traffic.backward):
                makers, readers = set(traffic.makers[message].tolist()), set(traffic.readers[message].tolist())
                if backward or not (makers | readers) & inside:
                    continue
                ends = bool((readers & inside) - before) or (bool(makers & inside) and bool(readers - inside))
                if ends and (makers & before or not makers & inside):
                    total += float(self.costs.message_bytes[degree, message])
            return total

        def rest(i: int) -> Iterator[tuple[int, int, float]]:
            if i == len(items):
                yield 0, after, 0.0
                return
            if isinstance(parts[i], Parallel):
                for used, depth, path in rest(i + 1):
                    for more, deeper, longer in self.branches(parts[i], depth):
                        yield used + more, deeper, path + longer
            before = set().union(*items[:i])
            for j in range(i + 1, len(items) + 1):
                nodes = set().union(*items[i:j])
                for degree, replicas in enumerate(self.rules.degrees.tolist()):
                    to = going(before | nodes, degree)
                    held = bytes_into(before, degree), bytes_into(before | nodes, degree)
                    for used, depth, path in rest(j):
                        takes = self.stage(nodes, degree, depth, held)
                        if takes is not None and max(to) <= self.most_s:
                            yield used + replicas, depth + 1, path + takes + sum(to)

        yield from rest(0)

    def branches(self, tree: Tree, after: int) -> Iterator[tuple[int, int, float]]:
        """Each branch by itself (groups of branches are left out)."""
        assert isinstance(tree, Parallel)
        for chosen in itertools.product(*(list(self.series(part, after)) for part in tree.parts)):
            used, depths, paths = zip(*chosen, strict=True)
            if sum(used) <= self.rules.devices:
                yield sum(used), max(depths), max(paths)

    def stage(self, nodes: set[int], degree: int, after: int, held: tuple[float, float]) -> float | None:
        costs, rules, members = self.costs, self.rules, sorted(nodes)
        forward = float(costs.forward_s[degree, members].sum())
        backward = float(costs.backward_s[degree, members].sum())
        params = float(costs.param_bytes[members].sum())
        sync = rules.sync_s[degree] + rules.sync_s_per_byte[degree] * params if params > 0 else 0.0
        if forward + backward + sync / rules.micro_batches > self.most_s or after + 1 >= len(rules.in_flight):
            return None
        in_flight = int(rules.in_flight[after + 1])
        least = float(costs.static_bytes[degree, members].sum()) + float(costs.workspace_bytes[degree, members].max())
        least += held[0] * in_flight + held[1]
        saved = float(costs.saved_bytes[degree, members].sum())
        if least + saved * in_flight <= rules.memory_bytes:
            return forward + backward
        again = [forward] if rules.recompute and least + saved <= rules.memory_bytes else []
        workspace = float(costs.workspace_bytes[degree, members].max())
        for level in range(len(costs.levels.again_s)):
            lean = float(costs.levels.saved_bytes[level, degree, members].sum())
            needs = least - workspace + float(costs.levels.workspace_bytes[level, degree, members].max())
            if needs + lean * in_flight <= rules.memory_bytes:
                again.append(float(costs.levels.again_s[level, degree, members].sum()))
        takes = forward + backward + min(again, default=math.inf)
        return takes if takes + sync / rules.micro_batches <= self.most_s else None


def bottleneck_s(cuts: list[Cut], costs: SizeCosts, rules: Rules) -> float:
    """Seconds per micro-batch of the busiest stage, transfers left out."""
    worst = 0.0
    for cut in cuts:
        row = int(np.searchsorted(costs.degrees, cut.replicas))
        nodes = list(cut.nodes)
        forward, backward = float(costs.forward_s[row, nodes].sum()), float(costs.backward_s[row, nodes].sum())
        sync = 0.0
        if cut.replicas > 1:
            sync = float(rules.sync_s[row] + rules.sync_s_per_byte[row] * costs.param_bytes[nodes].sum())
        again = forward if cut.recompute == WHOLE else 0.0
        if cut.recompute >= FIRST_LEVEL:
            again = float(costs.levels.again_s[cut.recompute - FIRST_LEVEL, row, nodes].sum())
        worst = max(worst, forward + again + backward + sync / rules.micro_batches)
    return worst


@pytest.mark.parametrize("seed", range(60))
def test_the_tables_are_those_of_the_enumeration(seed):
    p = random_pipeline_problem(seed, largest=6, gpus=(2, 3))
    p = replace(p, recompute=seed % 3 == 0, recompute_operators=seed % 4 < 2)
    condensed = Condensed(p, ordered=True)
    micro_batches = (2, 4, 8)[seed % 3]
    costs = size_costs(condensed, p.mini_batch // micro_batches)
    starts = Starts(condensed, lambda: None, glue_share=0.0)
    rules = starts.rules(costs, micro_batches, 1.0)
    shape = condensed.at(costs.samples, merge_trivial=False).shape
    after: list[list[int]] = [[] for _ in range(len(shape))]
    for u, v in shape.edges:
        after[u].append(v)
    weight = costs.forward_s[0] + costs.backward_s[0]
    tree = decompose(after, weight.tolist()).tree
    if isinstance(tree, Parallel):
        tree = Series((tree,))
    line = LineBuilder(costs, lambda: None).build(tree)
    for share in (0.4, 0.6, 1.1):
        most_s = float(weight.sum()) * share
        tables = StageTables(line, rules, len(rules.in_flight) - 2, most_s, lambda: None)
        least = tables.solve()
        expected = Enumeration(costs, rules, most_s).whole(tree)
        grouped = _has_parallel(tree)
        for (used, depth), path in expected.items():
            best = least[: used + 1, : depth + 1].min()
            assert best <= path * (1 + 1e-9), (used, depth)
            if not grouped:
                assert best == pytest.approx(min(p for (u, d), p in expected.items() if u <= used and d <= depth))
        for used, depth in np.argwhere(np.isfinite(least)).tolist():
            cuts = tables.cuts(used, depth)
            assert sorted(node for cut in cuts for node in cut.nodes) == list(range(len(shape)))
            assert sum(cut.replicas for cut in cuts) == used
            assert bottleneck_s(cuts, costs, rules) <= most_s * (1 + 1e-9)


def _has_parallel(tree: Tree) -> bool:
    if isinstance(tree, int):
        return False
    return isinstance(tree, Parallel) or any(map(_has_parallel, tree.parts))


def test_branches_are_grouped_when_there_are_more_of_them_than_devices():
    p = random_pipeline_problem(0)
    condensed = Condensed(p, ordered=True)
    costs = size_costs(condensed, 4)
    rules = (
        Starts(condensed, lambda: None, glue_share=0.0).rules(costs, 4, 1.0)._replace(devices=2, memory_bytes=math.inf)
    )
    tree = Series((Parallel(tuple(range(len(costs.param_bytes)))),))
    line = LineBuilder(costs, lambda: None).build(tree)
    tables = StageTables(line, rules, 2, math.inf, lambda: None)
    assert np.isfinite(tables.solve()[1]).any()
    assert all(isinstance(cut, Cut) and cut.nodes for cut in tables.cuts(1, 1))
