"""What operators of an iteration take at best, and the search for the greatest time that is ruled out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from solvers.bounds.paths import heads_and_tails_s
from solvers.evaluation.columns import FORWARD, UPDATE, graph_columns
from solvers.kernels.arrays import Bools, Floats
from solvers.problem.problem import Problem

PRECISION = 1e-3
"""How closely the greatest time is found that is ruled out."""
DOUBLINGS = 60


class Times(NamedTuple):
    """Operators on devices of one kind, for every number of replicas, at the best of some numbers of micro-batches;
    [operators, degrees] s, inf where samples cannot be divided."""

    forward: Bools
    """[operators]"""
    update: Bools
    """[operators]"""
    once_s: Floats
    """the whole mini-batch"""
    each_s: Floats
    """one micro-batch"""
    all_s: Floats
    """all micro-batches"""

    @property
    def backward(self) -> Bools:
        return ~self.forward & ~self.update

    @property
    def shortest_s(self) -> Floats:
        """What each runs at once, [operators]: an update the mini-batch, others a micro-batch."""
        return np.asarray(np.where(self.update, self.once_s.min(axis=1), self.each_s.min(axis=1)))

    def heads_and_tails_s(self, problem: Problem) -> tuple[Floats, Floats]:
        """The shortest ways to and from every operator, [operators] each."""
        return heads_and_tails_s(problem.graph, self.shortest_s, whole=problem.whole_backwards)


def times_of(problem: Problem, choices: Sequence[int]) -> Times:
    """For a problem all of whose devices are of one kind. choices: numbers of micro-batches."""
    kind, replicas, phase = problem.cluster.devices[0].kind, problem.degrees(), graph_columns(problem.graph).phase
    each_s = np.full((len(phase), len(replicas)), np.inf)
    all_s = each_s.copy()
    for count in choices:
        size = problem.mini_batch // count
        may = np.array([problem.can_share(size, int(r)) for r in replicas])
        took = np.where(may, problem.compute.at_each(kind, size / replicas), np.inf)
        each_s, all_s = np.minimum(each_s, took), np.minimum(all_s, count * took)
    once_s = problem.compute.at_each(kind, problem.mini_batch / replicas)
    return Times(phase == FORWARD, phase == UPDATE, once_s, each_s, all_s)


def greatest_ruled_out_s(is_ruled_out: Callable[[float], bool], low_s: float, high_s: float = np.inf) -> float:
    """A time that is ruled out, within `PRECISION` of one that is not, or ``high_s`` if that is ruled out;
    ``low_s``, a bound already, where nothing more is proved."""
    if not is_ruled_out(low_s):
        return low_s
    above_s = min(low_s * 2.0, high_s)
    for _ in range(DOUBLINGS):
        if not is_ruled_out(above_s):
            break
        if above_s == high_s:
            return high_s
        low_s, above_s = above_s, min(above_s * 2.0, high_s)
    while above_s > low_s * (1 + PRECISION):
        middle_s = (low_s + above_s) / 2
        if is_ruled_out(middle_s):
            low_s = middle_s
        else:
            above_s = middle_s
    return low_s
