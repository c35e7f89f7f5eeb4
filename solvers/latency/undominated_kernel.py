"""Which of many ways are as good as any in some respect, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def first_undominated(rows: Floats) -> Ints:
    """Positions of the rows than which no earlier one is as low in all columns.

    Of rows in lexicographic order these are the undominated ones: whatever is as low in all columns comes before.
    What turned a row down is asked first about the next, which is like it.
    """
    count, columns = rows.shape
    front = np.empty(count, np.int64)
    size = 0
    for i in range(count):
        by = -1
        for k in range(size):
            lower = True
            for c in range(columns):
                if rows[front[k], c] > rows[i, c]:
                    lower = False
                    break
            if lower:
                by = k
                break
        if by < 0:
            front[size] = i
            size += 1
        elif by > 0:
            front[by // 2], front[by] = front[by], front[by // 2]
    return np.sort(front[:size])
