"""The programme over a series-parallel tree: stages of least critical path under a bottleneck.

GraphPipe (ASPLOS 2025), section 6, with a table over devices and depth in place of one state a call, and
with the critical path as its value (the published search asks only whether the bottleneck can be met).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.drafts import Draft, DraftStage
from solvers.effort import Effort
from solvers.kernels.stage_dp import BRANCHES, GLUE, STAGE, Rules, cut_series, place_branches
from solvers.pipelines.lines import Branching, SeriesLine

Floats = NDArray[np.float64]
Steps = NDArray[np.int32]

STEPS_A_CALL = 20_000_000
"""Relaxations of one kernel call, at most about: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Nodes of a stage, on how many devices; glue is a stage that needs none of its own."""

    nodes: tuple[int, ...]
    replicas: int
    recompute: bool = False
    glue: bool = False


@dataclass(slots=True)
class _Solved:
    table: Floats
    steps: Steps


@dataclass(slots=True)
class StageTables:
    """Tables for one bottleneck ``most_s``, seconds per micro-batch. Equal branches are solved once."""

    root: SeriesLine
    rules: Rules
    depths: int
    most_s: float
    check: Callable[[], None]
    effort: Effort = field(default_factory=Effort)
    _series: dict[tuple[bytes, int], tuple[_Solved, int]] = field(default_factory=dict)
    _branchings: dict[tuple[bytes, int], tuple[_Solved, int]] = field(default_factory=dict)

    def solve(self) -> Floats:
        """Least critical path in seconds, [devices used + 1, depth + 1]; inf where there is none, or where
        fewer devices and stages do as well."""
        return np.asarray(self._solve_series(self.root, 0)[0].table[0])

    def cuts(self, used: int, depth: int) -> list[Cut]:
        """The stages of an entry of `solve`."""
        found: list[Cut] = []
        self._trace_series(self.root, 0, used, depth, found)
        return found

    # -- tables -----------------------------------------------------------------------------------

    def _solve_series(self, series: SeriesLine, after: int) -> tuple[_Solved, int]:
        """The tables with ``after`` stages to the sink behind the series, and how often memory was tight."""
        known = self._series.get((series.signature, after))
        if known is not None:
            return known
        count, devices = len(series.items), self.rules.devices
        table = np.full((count + 1, devices + 1, self.depths + 1), np.inf)
        steps = np.zeros((count + 1, devices + 1, self.depths + 1, 4), np.int32)
        cells = self._cells(count)
        inner = np.full((len(series.inner), self.depths + 1, devices + 1, self.depths + 1), np.inf)
        tight = 0
        many = max(1, STEPS_A_CALL // max(1, count * devices * self.depths * len(self.rules.degrees) // 2))
        end = count
        while end > 0:
            self.check()
            begin = max(0, end - many)
            # Up to the next branching: its own tables need to know how many stages may follow it.
            stops = [i for i in range(begin, end) if series.line.branches[i] >= 0]
            if stops and stops[-1] == end - 1:
                begin = end - 1
                k = int(series.line.branches[end - 1])
                if end == count:
                    table[count, 0, after] = 0.0
                for depth in np.flatnonzero(np.isfinite(table[end]).any(axis=0)).tolist():
                    solved, found = self._solve_branching(series.inner[k], depth)
                    inner[k, depth] = solved.table[0]
                    tight += found
            elif stops:
                begin = stops[-1] + 1
            states, relaxations, found = cut_series(
                series.line, self.rules, inner, after, self.most_s, table, steps, cells, begin, end
            )
            self.effort += Effort(states, relaxations)
            tight += found
            end = begin
        known = (_Solved(table, steps), tight)
        self._series[series.signature, after] = known
        return known

    def _solve_branching(self, branching: Branching, after: int) -> tuple[_Solved, int]:
        known = self._branchings.get((branching.signature, after))
        if known is not None:
            return known
        solved = [self._solve_series(line, after) for line in branching.lines]
        count, devices = len(solved), self.rules.devices
        table = np.full((count + 1, devices + 1, self.depths + 1), np.inf)
        steps = np.zeros((count + 1, devices + 1, self.depths + 1, 4), np.int32)
        alone = np.stack([one.table[0] for one, _ in solved])
        states, relaxations, found = place_branches(
            branching.group, self.rules, alone, after, self.most_s, table, steps, self._cells(count)
        )
        self.effort += Effort(states, relaxations)
        known = (_Solved(table, steps), found + sum(tight for _, tight in solved))
        self._branchings[branching.signature, after] = known
        return known

    def _cells(self, rows: int) -> NDArray[np.int16]:
        return np.zeros((rows + 1, (self.rules.devices + 1) * (self.depths + 1) + 1, 2), np.int16)

    # -- what they were made of --------------------------------------------------------------------

    def _trace_series(self, series: SeriesLine, after: int, used: int, depth: int, found: list[Cut]) -> None:
        steps = self._solve_series(series, after)[0].steps
        i = 0
        while i < len(series.items):
            kind, x, y, z = (int(value) for value in steps[i, used, depth])
            if kind == BRANCHES:
                self._trace_branching(series.inner[int(series.line.branches[i])], y, x, depth, found)
                i, used, depth = i + 1, used - x, y
                continue
            nodes = tuple(node for item in series.items[i:x] for node in item)
            if kind == STAGE:
                replicas = int(self.rules.degrees[y])
                found.append(Cut(nodes, replicas, bool(z)))
                i, used, depth = x, used - replicas, depth - 1
            else:
                assert kind == GLUE
                found.append(Cut(nodes, 1, glue=True))
                i = x

    def _trace_branching(self, branching: Branching, after: int, used: int, depth: int, found: list[Cut]) -> None:
        steps = self._solve_branching(branching, after)[0].steps
        m = 0
        while m < len(branching.lines):
            kind, x, y, z = (int(value) for value in steps[m, used, depth])
            if kind == BRANCHES:
                self._trace_series(branching.lines[m], after, x, y, found)
                m, used, depth = m + 1, used - x, z
            else:
                assert kind == STAGE
                grouped = branching.lines[m:x]
                replicas = int(self.rules.degrees[y])
                found.append(
                    Cut(tuple(n for line in grouped for item in line.items for n in item), replicas, bool(z % 2))
                )
                m, used, depth = x, used - replicas, z // 2


def draft_of(cuts: list[Cut], edges: tuple[tuple[int, int], ...], samples: int, *, slack: int = 0) -> Draft:
    """The draft of cuts. Glue joins the stage before it if that is the only one, else it shares the device of
    the lightest of the stages before it that come after all others; glue that begins joins what follows."""
    of = {node: number for number, cut in enumerate(cuts) for node in cut.nodes}
    before: list[set[int]] = [set() for _ in cuts]
    after: list[set[int]] = [set() for _ in cuts]
    for u, v in edges:
        if of[u] != of[v]:
            before[of[v]].add(of[u])
            after[of[u]].add(of[v])
    into = list(range(len(cuts)))
    hosts: dict[int, int] = {}
    for number, cut in enumerate(cuts):
        if not cut.glue:
            continue
        sources = {into[s] for s in before[number]}
        if len(sources) == 1:
            into[number] = sources.pop()
        elif sources:
            last = [s for s in sources if not any(s in before[t] for t in sources)]
            hosts[number] = min(last or sources, key=lambda s: (len(cuts[s].nodes), s))
        elif after[number]:
            into[number] = min(after[number])
    for number in range(len(cuts)):  # glue that joined glue
        while into[into[number]] != into[number]:
            into[number] = into[into[number]]
    kept = [number for number in range(len(cuts)) if into[number] == number]
    position = {number: i for i, number in enumerate(kept)}
    nodes: dict[int, list[int]] = {number: [] for number in kept}
    for number, cut in enumerate(cuts):
        nodes[into[number]].extend(cut.nodes)
    stages = []
    for number in kept:
        cut = cuts[number]
        host = hosts.get(number)
        while host is not None and into[host] in hosts:
            host = hosts[into[host]]
        place = None if host is None else position[into[host]]
        stages.append(
            DraftStage(tuple(sorted(nodes[number])), samples, cut.replicas, cut.recompute, slack=slack, host=place)
        )
    return Draft(tuple(stages))
