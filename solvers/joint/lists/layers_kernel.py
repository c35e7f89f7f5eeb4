"""Cut a row of weights into consecutive parts for given devices, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def balanced_cuts(
    total_s: Floats, total_bytes: Floats, besides_s: Floats, caps: Floats, cut_s: Floats, limit_s: float
) -> Ints:
    """Where the part of every device ends, [devices]; all -1 if there is no such cut.

    Without a limit the largest part's seconds are least; with one no part exceeds it and the sum of squares is
    least. total_s, total_bytes: seconds and bytes of the first so many on each device, [devices, count + 1];
    besides_s: what each device does besides; a part holds at most ``caps`` bytes. cut_s: seconds that a cut
    before each adds to both parts, [count + 1]. Parts may be empty. Exact, by a dynamic program over
    (device, end).
    """
    devices, count = total_s.shape[0], total_s.shape[1] - 1
    best = np.full((devices + 1, count + 1), np.inf)
    begin = np.full((devices + 1, count + 1), -1)
    best[0, 0] = 0.0
    for d in range(devices):
        for end in range(count + 1):
            for start in range(end, -1, -1):
                seconds = besides_s[d] + total_s[d, end] - total_s[d, start]
                least = seconds * seconds if limit_s < np.inf else seconds
                if seconds > limit_s or least >= best[d + 1, end]:  # and longer parts are no better
                    break
                if end > start:
                    if total_bytes[d, end] - total_bytes[d, start] > caps[d]:
                        break
                    seconds += cut_s[start] + cut_s[end]
                    if seconds > limit_s:
                        continue
                joined = best[d, start] + seconds * seconds if limit_s < np.inf else max(best[d, start], seconds)
                if joined < best[d + 1, end]:
                    best[d + 1, end] = joined
                    begin[d + 1, end] = start
    ends = np.full(devices, -1)
    if best[devices, count] < np.inf:
        end = count
        for d in range(devices, 0, -1):
            ends[d - 1] = end
            end = begin[d, end]
    return ends
