"""The program over a series-parallel tree: stages of least critical path under a bottleneck.

GraphPipe (ASPLOS 2025), section 6, with a table over devices and depth in place of one state a call, and
with the critical path as its value (the published search asks only whether the bottleneck can be met).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.pipelines.tree.lines import Branching, SeriesLine
from solvers.pipelines.tree.stage_dp_kernel import (
    BRANCHES,
    GLUE,
    STAGE,
    Behind,
    Rules,
    Tables,
    cut_series,
    place_branches,
)
from solvers.plan.drafts import FIRST_LEVEL, Draft, DraftStage
from solvers.schedules.ordering.orders import quotient
from solvers.search.work import Work

STEPS_A_CALL = 20_000_000
"""Relaxations of one kernel call, at most about: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Nodes of a stage, on how many devices. ``glue``: an auxiliary stage, which needs none of its own."""

    nodes: tuple[int, ...]
    replicas: int
    recompute: int = 0
    glue: bool = False


@dataclass(slots=True)
class StageTables:
    """Tables for one bottleneck ``most_s``, seconds per micro-batch. Equal branches are solved once (with ``ramp``
    of `Rules` once for every value that may follow them)."""

    root: SeriesLine
    rules: Rules
    depths: int
    most_s: float
    check: Callable[[], None]
    effort: Work = field(default_factory=Work)
    _series: dict[tuple[bytes, Behind], Tables] = field(default_factory=dict)
    _branchings: dict[tuple[bytes, Behind], Tables] = field(default_factory=dict)

    def solve(self) -> Floats:
        """Least values of the whole in seconds, [devices used + 1, depth + 1]; inf where there is none, or where
        fewer devices and stages do as well."""
        return np.asarray(self._solve_series(self.root, Behind(0, 0.0)).value[0])

    def cuts(self, used: int, depth: int) -> list[Cut]:
        """The stages of an entry of `solve`."""
        cuts: list[Cut] = []
        self._trace_series(self.root, Behind(0, 0.0), used, depth, cuts)
        return cuts

    # -- tables -----------------------------------------------------------------------------------

    def _solve_series(self, series: SeriesLine, behind: Behind) -> Tables:
        """The tables of a series before what is behind it."""
        key = series.signature, behind
        if key in self._series:
            return self._series[key]
        count, devices = len(series.items), self.rules.devices
        tables = self._empty(count)
        value, cells = tables.value, tables.cells
        value[count, 0, behind.depth], cells[count, :2] = behind.value_s, ((1, 0), (0, behind.depth))
        many = max(1, STEPS_A_CALL // max(1, count * devices * self.depths * len(self.rules.degrees) // 2))
        end = count
        while end > 0:
            self.check()
            begin, inner = max(0, end - many), np.zeros((0, devices + 1, self.depths + 1))
            branchings = [i for i in range(begin, end) if series.line.branches[i] >= 0]
            if branchings and branchings[-1] == end - 1:  # by itself, for it needs its own tables
                begin = end - 1
                branching = series.inner[int(series.line.branches[begin])]
                entries = cells[end, 1 : cells[end, 0, 0] + 1].tolist()
                inner = np.empty((len(entries), devices + 1, self.depths + 1))
                for entry, (used, depth) in enumerate(entries):
                    inner[entry] = self._branch_table(branching, Behind(depth, float(value[end, used, depth])))
            elif branchings:
                begin = branchings[-1] + 1
            self.effort += Work(*cut_series(series.line, self.rules, inner, behind, self.most_s, tables, begin, end))
            end = begin
        self._series[key] = tables
        return tables

    def _branch_table(self, branching: Branching, behind: Behind) -> Floats:
        """The values of a branching before what is behind it."""
        if self.rules.ramp:
            return np.asarray(self._solve_branching(branching, behind).value[0])
        return np.asarray(self._solve_branching(branching, Behind(behind.depth, 0.0)).value[0] + behind.value_s)

    def _solve_branching(self, branching: Branching, behind: Behind) -> Tables:
        key = branching.signature, behind
        if key not in self._branchings:
            alone = np.stack([self._solve_series(line, behind).value[0] for line in branching.lines])
            tables = self._empty(len(alone))
            self.effort += Work(*place_branches(branching.group, self.rules, alone, behind, self.most_s, tables))
            self._branchings[key] = tables
        return self._branchings[key]

    def _empty(self, rows: int) -> Tables:
        """Tables with no value for so many items."""
        shape = rows + 1, self.rules.devices + 1, self.depths + 1
        cells = np.zeros((shape[0], shape[1] * shape[2] + 1, 2), np.int16)
        return Tables(np.full(shape, np.inf), np.zeros((*shape, 4), np.int32), cells)

    # -- what they were made of --------------------------------------------------------------------

    def _trace_series(self, series: SeriesLine, behind: Behind, used: int, depth: int, cuts: list[Cut]) -> None:
        solved = self._solve_series(series, behind)
        i = 0
        while i < len(series.items):
            kind, x, y, z = (int(value) for value in solved.steps[i, used, depth])
            if kind == BRANCHES:
                value_s = float(solved.value[i + 1, used - x, y]) if self.rules.ramp else 0.0
                branching = series.inner[int(series.line.branches[i])]
                self._trace_branching(branching, Behind(y, value_s), x, depth, cuts)
                i, used, depth = i + 1, used - x, y
                continue
            nodes = tuple(node for item in series.items[i:x] for node in item)
            if kind == STAGE:
                replicas = int(self.rules.degrees[y])
                cuts.append(Cut(nodes, replicas, z))
                i, used, depth = x, used - replicas, depth - 1
            else:
                assert kind == GLUE
                cuts.append(Cut(nodes, 1, glue=True))
                i = x

    def _trace_branching(self, branching: Branching, behind: Behind, used: int, depth: int, cuts: list[Cut]) -> None:
        steps = self._solve_branching(branching, behind).steps
        m = 0
        while m < len(branching.lines):
            kind, x, y, z = (int(value) for value in steps[m, used, depth])
            if kind == BRANCHES:
                self._trace_series(branching.lines[m], behind, x, y, cuts)
                m, used, depth = m + 1, used - x, z
            else:
                assert kind == STAGE
                grouped = branching.lines[m:x]
                replicas = int(self.rules.degrees[y])
                nodes = tuple(n for line in grouped for item in line.items for n in item)
                one = FIRST_LEVEL + len(branching.group.sums.again_s)
                cuts.append(Cut(nodes, replicas, z % one))
                m, used, depth = x, used - replicas, z // one


def draft_of(cuts: list[Cut], edges: tuple[tuple[int, int], ...], samples: int, *, slack: int = 0) -> Draft:
    """The draft of cuts. An auxiliary stage joins the stage before it if that is the only one, else it shares the
    device of the lightest of the stages before it that come after all others; one that begins joins what follows."""
    after = quotient(edges, [cut.nodes for cut in cuts])
    before = [{s for s, targets in enumerate(after) if number in targets} for number in range(len(cuts))]
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
    for number in range(len(cuts)):  # auxiliary stages that joined auxiliary ones
        while into[into[number]] != into[number]:
            into[number] = into[into[number]]
    remaining = [number for number in range(len(cuts)) if into[number] == number]
    position = {number: i for i, number in enumerate(remaining)}
    nodes: dict[int, list[int]] = {number: [] for number in remaining}
    for number, cut in enumerate(cuts):
        nodes[into[number]].extend(cut.nodes)
    stages = []
    for number in remaining:
        cut = cuts[number]
        host = hosts.get(number)
        while host is not None and into[host] in hosts:
            host = hosts[into[host]]
        place = None if host is None else position[into[host]]
        stages.append(
            DraftStage(tuple(sorted(nodes[number])), samples, cut.replicas, cut.recompute, slack=slack, host=place)
        )
    return Draft(tuple(stages))
