"""Heterogeneous earliest finish time with insertion, for devices and links alike, on plain arrays.

HEFT of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4.
"""

from __future__ import annotations

import numpy as np

from solvers.joint.lists.draft_kernel import COUNT, Draft, Rule, may_take, put, would_start_s
from solvers.joint.lists.jobs_kernel import NONE, JobArrays
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.uncounted import uncounted


@until_worth_it
@uncounted
def upward_s(a: JobArrays, rank: Floats) -> None:
    """The upward rank of every job, written to ``rank``: mean seconds to the end of the pass, its own included,
    on the longest path with mean transfers (equation 8)."""
    devices = a.seconds.shape[1]
    for job in range(len(rank) - 1, -1, -1):
        longest = 0.0
        for e in range(a.after_start[job], a.after_start[job + 1]):
            longest = max(longest, a.after_s[e] + rank[a.after[e]])
        total, able = 0.0, 0
        for d in range(devices):
            if a.seconds[job, d] < np.inf:
                total += a.seconds[job, d]
                able += 1
        rank[job] = longest + total / max(1, able)


@until_worth_it
@uncounted
def schedule_ranked(a: JobArrays, s: Draft, caps: Floats, order: Ints, how: Rule, most: int) -> bool:
    """Schedule up to ``most`` more jobs, each on the device where it ends first; False where one fits nowhere.

    order: jobs by falling rank, a topological order. caps: bytes that each device may hold, [devices].
    """
    for _ in range(most):
        if s.counts[COUNT] == len(order):
            break
        job = order[s.counts[COUNT]]
        ready = 0.0
        for e in range(a.before_start[job], a.before_start[job + 1]):
            ready = max(ready, s.end_s[a.before[e]])
        best, where = np.inf, NONE
        for d in range(len(caps)):
            if may_take(a, s, a.unit_of[job], d, caps):
                end = would_start_s(a, s, job, d, ready, how) + a.seconds[job, d]
                if end < best:
                    best, where = end, d
        if where == NONE:
            return False
        put(a, s, job, where, ready, how)
    return True
