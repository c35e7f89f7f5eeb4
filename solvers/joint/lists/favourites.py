"""Favourite children: which successor should follow a job on its device (Hanen and Munier 1995)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.joint.lists.jobs_kernel import NONE, JobArrays
from solvers.kernels.arrays import Ints
from solvers.programs.integer_program import Model


class FavouriteProgram:
    """The relaxed linear program of small communication times, on any number of devices.

    Minimise the end of the last job; a job starts after each predecessor and, unless it is its favourite, the
    transfer from it: s_i + p_i + c_ij x_ij <= s_j with x_ij in [0, 1], 0 for a favourite. Every job has at most one
    favourite child and is that of at most one. p, c: mean seconds. Jeon et al., SoCC 2020, section 3 (m-SCT).
    """

    def __init__(self, jobs: JobArrays) -> None:
        able = np.isfinite(jobs.seconds)
        seconds = np.where(able, jobs.seconds, 0.0).sum(axis=1) / np.maximum(1, able.sum(axis=1))
        count = len(seconds)
        unit = float(seconds.mean()) or 1.0
        self.jobs = jobs
        self.model = model = Model()
        self.variable = np.full(len(jobs.after), NONE)
        """The variable x of every entry of ``jobs.after``, NONE where a transfer takes no time."""
        end = model.variable(upper=np.inf, cost=1.0)
        starts = [model.variable(upper=np.inf) for _ in range(count)]
        out: list[list[int]] = [[] for _ in range(count)]
        into: list[list[int]] = [[] for _ in range(count)]
        for job in range(count):
            took = float(seconds[job]) / unit
            low, high = int(jobs.after_start[job]), int(jobs.after_start[job + 1])
            if low == high:
                model.row([(end, 1.0), (starts[job], -1.0)], least=took)
            for e in range(low, high):
                target = int(jobs.after[e])
                terms = [(starts[target], 1.0), (starts[job], -1.0)]
                moving = float(jobs.after_s[e]) / unit
                if moving > 0:
                    x = model.variable()
                    self.variable[e] = x
                    terms.append((x, -moving))
                    out[job].append(x)
                    into[target].append(x)
                model.row(terms, least=took)
        for variables in (*out, *into):
            if len(variables) > 1:
                model.row([(x, 1.0) for x in variables], least=len(variables) - 1.0)

    def favourites(self, values: Sequence[float], threshold: float) -> Ints:
        """The favourite child of every job or NONE, [jobs]: edges whose x is below ``threshold``.

        Where several of one job are, the last in the order of edges stands, for parents as for children.
        """
        count = len(self.jobs.unit_of)
        child, parent = np.full(count, NONE), np.full(count, NONE)
        for job in range(count):
            for e in range(int(self.jobs.after_start[job]), int(self.jobs.after_start[job + 1])):
                x = int(self.variable[e])
                if x == NONE or values[x] >= threshold:
                    continue
                target = int(self.jobs.after[e])
                if child[job] != NONE:
                    parent[child[job]] = NONE
                if parent[target] != NONE:
                    child[parent[target]] = NONE
                child[job], parent[target] = target, job
        return child
