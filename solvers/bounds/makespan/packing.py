"""What whole groups of operators take, since a device cannot have a part of one."""

from __future__ import annotations

import numpy as np

from solvers.bounds.makespan.shape import PassShape


def packing_bound_s(shape: PassShape) -> float:
    """The most, over k, of the k + 1 lightest of the k m + 1 heaviest groups, on m devices.

    Some device has k + 1 of these, and no k + 1 of them take less (pigeonhole; Dell'Amico and Martello,
    Optimal scheduling of tasks on identical parallel processors, 1995, section 2). Groups count with their least
    times, so it holds for unequal devices; 0 where a device may run several operators at once.
    """
    if not shape.one_by_one:
        return 0.0
    devices = shape.seconds.shape[1]
    group_s = np.bincount(shape.group, shape.least_s, minlength=shape.groups)
    group_s = np.sort(np.where(shape.loose > 0, 0.0, group_s))[::-1]  # copies need not stay together
    total = np.concatenate([[0.0], np.cumsum(group_s)])
    k = np.arange(1, (len(group_s) - 1) // devices + 1)
    sums = total[k * devices + 1] - total[k * (devices - 1)]
    return float(sums.max(initial=0.0))
