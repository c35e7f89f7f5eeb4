"""PipeDream's own optimizer: which operators run as a stage, and on how many machines (SOSP 2019, section 3.1).

The recurrence, with the formulas of its published program: A(i, m) = min over j, m' of
max(A(j, m - m'), T(i \\ j, m')), over downsets j of i (the program's antichains), where a stage of
compute time c and parameters w takes T = (c + 4 (m' - 1) w / (bandwidth m')) / m' seconds. Tensors
between stages cost nothing. A stage holds activations and parameters ceil((N - m) / m') times,
where m of the N machines are used up to and including it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.traffic import Rows
from solvers.contiguous.downsets import enumerate_downsets
from solvers.contiguous.lattice_kernel import Order, add_up
from solvers.contiguous.pipedream_optimizer_kernel import Sums, bottlenecks
from solvers.kernels.arrays import Floats
from solvers.problem.problem import Problem
from solvers.search.work import Work

STEPS_A_CALL = 3_000_000
"""Transitions per kernel call: a few hundredths of a second."""
DOWNSET_BUDGET = 20_000
"""Downsets beyond which it says no: its time grows with their square."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Operators as PipeDream profiles them, all for one micro-batch, and who reads whom.

    compute_s: forward and backward together. activation_bytes: what an operator gives. [operators].
    """

    compute_s: Floats
    activation_bytes: Floats
    param_bytes: Floats
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PipeDreamStage:
    """Operators of a profile and the number of machines that run them."""

    operators: tuple[int, ...]
    machines: int


@dataclass(frozen=True, slots=True)
class Partition:
    """The best stages found, from the input on. bottleneck_s: time of the slowest per micro-batch; inf
    and no stages where nothing fits."""

    bottleneck_s: float
    stages: tuple[PipeDreamStage, ...]
    effort: Work


def profile_of(problem: Problem, samples: int) -> Profile:
    """The problem's super-operators at one micro-batch size, as PipeDream's profiler would see them.

    The activations are what every one saves for its backward; updates count as compute.
    """
    contracted = Condensed(problem, ordered=True).at(samples, merge_trivial=False)
    return Profile(contracted.acc_s * samples, contracted.saved_bytes, contracted.param_bytes, contracted.shape.edges)


def optimise(
    profile: Profile,
    machines: int,
    bandwidth_bytes_per_s: float,
    memory_bytes: float = math.inf,
    *,
    allowed: Sequence[int] | None = None,
    budget: int = DOWNSET_BUDGET,
    check: Callable[[], None] = lambda: None,
) -> Partition | None:
    """The partition with the least bottleneck on exactly so many machines; None if the operators have
    more than ``budget`` downsets. allowed: on how many machines a stage may run (any). Calls ``check`` several
    times a second."""
    downsets = enumerate_downsets(_order(profile), budget, check)
    if downsets is None:
        return None
    count = len(downsets)
    weights = (profile.compute_s, profile.activation_bytes, profile.param_bytes)
    sums = Sums(downsets.words, *(add_up(downsets.parent, downsets.via, weight) for weight in weights))
    best = np.full((count, machines + 1), np.inf)
    best[0, 0] = 0.0
    came_from = np.zeros((count, machines + 1), np.int64)
    used = np.zeros((count, machines + 1), np.int64)
    counts = np.zeros(2, np.int64)
    may = np.ones(machines + 1, np.bool_)
    if allowed is not None:
        may[:] = False
        may[[r for r in allowed if r <= machines]] = True
    begin = 1
    while begin < count:
        check()
        rows = max(1, STEPS_A_CALL // ((begin + 1) * machines * machines))
        end = min(begin + rows, count)
        bottlenecks(sums, bandwidth_bytes_per_s, memory_bytes, may, best, came_from, used, counts, begin, end)
        begin = end
    stages = []
    at, left = count - 1, machines
    while at > 0 and math.isfinite(best[count - 1, machines]):
        before, replicas = int(came_from[at, left]), int(used[at, left])
        stages.append(PipeDreamStage(downsets.difference(at, before), replicas))
        at, left = before, left - replicas
    return Partition(float(best[count - 1, machines]), tuple(reversed(stages)), Work(*counts.tolist()))


def _order(profile: Profile) -> Order:
    before: list[list[int]] = [[] for _ in profile.compute_s]
    after: list[list[int]] = [[] for _ in profile.compute_s]
    for u, v in profile.edges:
        before[v].append(u)
        after[u].append(v)
    earlier, later = Rows.of(_unique(before)), Rows.of(_unique(after))
    return Order(earlier.start, earlier.items, later.start, later.items)


def _unique(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [sorted(set(row)) for row in rows]
