"""The best pipelines cut from a linear order, for the iteration: a dynamic programme, then local moves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.pipelines.chain.iteration_chain_kernel import ChainTable, shortest_path
from solvers.pipelines.chain.lines import LinearOrder
from solvers.pipelines.chain.lines_kernel import Rules, iteration_s
from solvers.plan.drafts import DraftStage
from solvers.search.work import Work

Check = Callable[[], None]

STEPS_A_CALL = 8_000_000
"""Transitions per kernel call: a few hundredths of a second."""
STEPS_UP = 1.05
"""Factor between ceilings on the way up to one that can be kept."""
CLOSE = 2e-3
ABOVE = (1.01, 1.02, 1.05, 1.1, 1.16, 1.25, 1.4, 1.6, 2.0, 3.0)
"""Ceilings beyond the least, as multiples: slower stages, and fewer of them."""
SIMULATED = 6_000_000
"""Stages times micro-batches that descents from the cuts of one order may simulate, a few tenths of a microsecond each:
beyond some thousand simulations of long pipelines people wait for more than they gain."""
SHIFTS = (1, 2, 4, 8)
"""By how many atoms a boundary moves at a time."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Stages as (begin, end, degree): atoms of an order, and the position of the number of devices.

    slack and iteration_s: as in `solvers.pipelines.chain.lines_kernel.iteration_s`.
    """

    stages: tuple[tuple[int, int, int], ...]
    slack: int = 0
    iteration_s: float = math.inf


class CutSearch:
    """Searches cuts of one order under one set of rules; counts its effort. Calls ``check`` often."""

    def __init__(self, order: LinearOrder, rules: Rules, check: Check, slack: int = 0) -> None:
        self.order, self.rules, self.check, self.slack = order, rules, check, slack
        self.effort = Work()
        self.left = SIMULATED
        """Of what descents may simulate."""
        self._known: dict[tuple[tuple[tuple[int, int, int], ...], int], float] = {}

    def candidates(self, below_s: float) -> list[Cut]:
        """Cuts worth a look, the best first: the one that is best if stages may have as many micro-batches
        in flight as they like, and the best for a row of ceilings on the stages' times if as few as in
        1F1B, from the least ceiling that can be kept upwards, as long as they may take less than ``below_s``.
        """
        eager = self.shortest(below_s / self.rules.micro_batches, lockstep=False)
        if eager is None:
            return []
        found = {eager.stages: eager}
        best = min(below_s, eager.iteration_s)
        whole = self.shortest(math.inf)
        assert whole is not None  # the eager cut is one
        least_path_s, most = self._path_s(whole), self._longest_s(whole)
        tightest = self._tightest(self._least_ceiling_s(), most)
        if tightest is not None:
            found[tightest.stages] = tightest
            best = min(best, tightest.iteration_s)
            least_s = self._longest_s(tightest)
            for factor in ABOVE:
                if least_s * factor >= most or (self.rules.micro_batches - 1) * least_s * factor + least_path_s > best:
                    break
                cut = self.shortest(least_s * factor)
                if cut is not None:
                    found[cut.stages] = cut
                    best = min(best, cut.iteration_s)
        found[whole.stages] = whole
        return sorted(found.values(), key=lambda cut: cut.iteration_s)

    def _tightest(self, least_s: float, most_s: float) -> Cut | None:
        """The cut of the least ceiling that can be kept, to a relative CLOSE, between two."""
        low, high, found = least_s, least_s, None
        while found is None and high < most_s:
            found = self.shortest(high)
            low, high = high, high * STEPS_UP
        if found is None:
            return None
        low, high = low / STEPS_UP, self._longest_s(found)
        while high > low * (1 + CLOSE):
            middle = (low + high) / 2
            cut = self.shortest(middle)
            if cut is None:
                low = middle
            else:
                found, high = cut, self._longest_s(cut)
        return found

    def shortest(self, ceiling_s: float, *, lockstep: bool = True) -> Cut | None:
        """The cut of the shortest critical path, none of whose stages takes longer than ``ceiling_s``.

        lockstep: of one micro-batch, or of all of them (`shortest_path`). In-flight numbers are those of a
        chain. They are left out at first; if then memory turns a stage away, the number of stages becomes
        part of the state.
        """
        cut, short = self._shortest(ceiling_s, lockstep, 1)
        if short and self.rules.keeps and not self.rules.all_in_flight:
            depths = min(self.rules.devices, len(self.order.atoms)) + 1
            cut, _ = self._shortest(ceiling_s, lockstep, depths)
        return cut

    def _shortest(self, ceiling_s: float, lockstep: bool, depths: int) -> tuple[Cut | None, bool]:
        atoms, devices = len(self.order.atoms), self.rules.devices
        shape = (atoms + 1, depths, devices + 1)
        table = ChainTable(
            np.full(shape, np.inf),
            np.full(shape, np.inf),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.bool_),
            np.zeros(3, np.int64),
        )
        table.end_s[atoms, 0, 0] = table.path_s[atoms, 0, 0] = 0.0
        row = atoms - 1
        while row >= 0:
            self.check()
            steps = (atoms - row) * len(self.order.line.degrees) * devices * depths
            end = max(0, row + 1 - max(1, STEPS_A_CALL // steps))
            shortest_path(self.order.line, self.rules, ceiling_s, lockstep, table, row, end)
            row = end - 1
        self.effort += Work(int(table.counts[0]), int(table.counts[1]))
        first = table.end_s[0].T.ravel()
        at = int(np.argmin(first))
        short = bool(table.counts[2])
        if not math.isfinite(first[at]):
            return None, short
        used, depth = divmod(at, depths)
        stages = []
        atom = 0
        while atom < atoms:
            end, degree = int(table.until[atom, depth, used]), int(table.degree[atom, depth, used])
            stages.append((atom, end, degree))
            used -= int(self.order.line.degrees[degree])
            atom, depth = end, max(depth - 1, 0)
        return self.judged(tuple(stages), self.slack), short

    def judged(self, stages: tuple[tuple[int, int, int], ...], slack: int) -> Cut:
        """The cut with its simulated iteration."""
        if (stages, slack) not in self._known:
            cuts = np.array([0, *(end for _, end, _ in stages)], np.int64)
            which = np.array([degree for _, _, degree in stages], np.int64)
            again, kept = np.zeros(len(stages), np.bool_), np.zeros(len(stages), np.int64)
            seconds = iteration_s(self.order.line, self.rules, cuts, which, again, slack, kept)
            self._known[stages, slack] = float(seconds)
            self.left -= len(stages) * self.rules.micro_batches
        return Cut(stages, slack, self._known[stages, slack])

    def descend(self, cut: Cut, slacks: int) -> Cut:
        """Move boundaries, devices between neighbours, merge and split stages, and raise the slack up to
        ``slacks``, as long as the simulated iteration falls and there are simulations left."""
        best = min((self.judged(cut.stages, slack) for slack in range(slacks + 1)), key=lambda c: c.iteration_s)
        improved = True
        while improved:
            improved = False
            for stages in self._neighbours(best.stages):
                self.check()
                if self.left <= 0:
                    return best
                found = self.judged(stages, best.slack)
                if found.iteration_s < best.iteration_s * (1 - 1e-6):
                    best, improved = found, True
                    break
            else:
                for slack in range(slacks + 1):
                    found = self.judged(best.stages, slack)
                    if found.iteration_s < best.iteration_s * (1 - 1e-6):
                        best, improved = found, True
        return best

    def shake(self, cut: Cut, slacks: int, rounds: int, rng: random.Random) -> Cut:
        """Iterated descent: a few random moves at once, then `descend`; so often, from the best cut known."""
        best = cut
        for _ in range(rounds):
            if self.left <= 0:
                break
            stages = best.stages
            for _ in range(rng.randint(2, 4)):
                stages = rng.choice(list(self._neighbours(stages)) or [stages])
            found = self.descend(self.judged(stages, best.slack), slacks)
            if found.iteration_s < best.iteration_s * (1 - 1e-9):
                best = found
        return best

    def _neighbours(self, stages: tuple[tuple[int, int, int], ...]) -> Iterator[tuple[tuple[int, int, int], ...]]:
        degrees = self.order.line.degrees.tolist()
        position = {r: d for d, r in enumerate(degrees)}
        free = self.rules.devices - sum(degrees[d] for _, _, d in stages)
        busiest = sorted(range(len(stages)), key=lambda s: -self._seconds(*stages[s]))
        for s in busiest:
            begin, end, degree = stages[s]
            for shift in SHIFTS:
                if shift >= end - begin:
                    break
                if s > 0:
                    a, _, d = stages[s - 1]
                    yield (*stages[: s - 1], (a, begin + shift, d), (begin + shift, end, degree), *stages[s + 1 :])
                if s + 1 < len(stages):
                    _, b, d = stages[s + 1]
                    yield (*stages[:s], (begin, end - shift, degree), (end - shift, b, d), *stages[s + 2 :])
            for other in (s - 1, s + 1):  # devices of a neighbour, or those that are left over
                if not 0 <= other < len(stages):
                    continue
                a, b, d = stages[other]
                for fewer in (degrees[d] - 1, degrees[d] // 2):
                    more = degrees[degree] + degrees[d] - fewer
                    if fewer in position and more in position:
                        changed = list(stages)
                        changed[s], changed[other] = (begin, end, position[more]), (a, b, position[fewer])
                        yield tuple(changed)
                together = position.get(degrees[degree] + degrees[d], max(degree, d))
                low = min(s, other)
                merged = (min(begin, a), max(end, b), together)
                yield (*stages[:low], merged, *stages[low + 2 :])
            for more in degrees:
                if degrees[degree] < more <= degrees[degree] + free:
                    yield (*stages[:s], (begin, end, position[more]), *stages[s + 1 :])
            half = degrees[degree] // 2 if free == 0 else min(degrees[degree], free)
            if half in position and end - begin > 1:
                first = degree if free else position[half]
                middle = self._middle(begin, end, degree)
                yield (*stages[:s], (begin, middle, first), (middle, end, position[half]), *stages[s + 1 :])

    def _middle(self, begin: int, end: int, degree: int) -> int:
        line = self.order.line
        done = (line.forward_s + line.backward_s)[degree, begin + 1 : end]
        half = (self._until(degree, begin) + self._until(degree, end)) / 2
        return begin + 1 + int(np.argmin(np.abs(done - half)))

    def _until(self, degree: int, atom: int) -> float:
        return float(self.order.line.forward_s[degree, atom] + self.order.line.backward_s[degree, atom])

    def _seconds(self, begin: int, end: int, degree: int) -> float:
        return self._until(degree, end) - self._until(degree, begin)

    def _longest_s(self, cut: Cut) -> float:
        return max(self._seconds(*stage) for stage in cut.stages)

    def _path_s(self, cut: Cut) -> float:
        return sum(self._seconds(*stage) for stage in cut.stages)

    def _least_ceiling_s(self) -> float:
        """Seconds that some stage takes at least: all work shared out evenly, or the largest atom."""
        line = self.order.line
        each = np.diff(line.forward_s + line.backward_s, axis=1)
        whole = (each * line.degrees[:, None]).min(axis=0)
        return max(float(whole.sum()) / self.rules.devices, float(each.min(axis=0).max()), 1e-12)

    def draft(self, cut: Cut) -> tuple[DraftStage, ...]:
        """The stages of a cut, with the recomputation and the slack that they were judged with."""
        count = len(cut.stages)
        cuts = np.array([0, *(end for _, end, _ in cut.stages)], np.int64)
        which = np.array([degree for _, _, degree in cut.stages], np.int64)
        again, kept = np.zeros(count, np.bool_), np.zeros(count, np.int64)
        plain = np.zeros(count, np.int64)
        iteration_s(self.order.line, self.rules, cuts, which, again, 0, plain)
        iteration_s(self.order.line, self.rules, cuts, which, again, cut.slack, kept)
        return tuple(
            DraftStage(
                tuple(itertools.chain.from_iterable(self.order.atoms[begin:end])),
                self.order.samples,
                int(self.order.line.degrees[degree]),
                recompute=bool(again[s]),
                slack=int(kept[s] - plain[s]),
            )
            for s, (begin, end, degree) in enumerate(cut.stages)
        )
