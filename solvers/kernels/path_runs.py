"""The least time along a path whose stretches on one accelerator may come back to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

GAP = 8
"""Operators on CPUs over which the stretch before is remembered."""


class Along(NamedTuple):
    """A path: stretch_s, nbytes: [length, length] least seconds and bytes of path[first : end + 1] on
    one accelerator; cpu_s: [length]. Messages along it: maker: [messages] position of the producer;
    reader_start, reader: CSR of their readers' positions, ascending; seconds; plain: whether all readers
    are on the path. cap: bytes, inf if bytes of two stretches must not be added up.
    """

    stretch_s: Floats
    nbytes: Floats
    cpu_s: Floats
    maker: Ints
    reader_start: Ints
    reader: Ints
    seconds: Floats
    plain: Flags
    cap: float


@njit(cache=True)
def _first_reader(along: Along, message: int, least: int) -> int:
    """The first position from ``least`` on that reads a message; beyond the path if none does."""
    for r in range(along.reader_start[message], along.reader_start[message + 1]):
        if along.reader[r] >= least:
            return int(along.reader[r])
    return len(along.cpu_s)


@njit(cache=True)
def shortest_of_runs(along: Along) -> float:
    """The least sum over ways to cut the path into stretches on accelerators and operators on CPUs.

    Stretches that follow each other are on different accelerators, so what one sends the other beyond
    their neighbouring operators (which ``stretch_s`` counts) is paid at both ends. With up to GAP
    operators on CPUs between two stretches, these are either on different accelerators, too, or on one
    that holds both.
    """
    length = len(along.cpu_s)
    messages = len(along.maker)
    # Least seconds when the stretch [first, end] was the last, when it was and then CPUs followed, and
    # when CPUs followed from ``start`` on and the stretch before is forgotten.
    on_acc = np.full((length, length), np.inf)
    on_gap = np.full((length, length, GAP + 1), np.inf)
    on_cpu = np.full((length, length), np.inf)
    crossing = np.zeros(messages, np.int64)
    following = np.zeros(messages, np.int64)
    after = np.zeros(messages, np.int64)
    for here in range(length):
        number = 0
        for m in range(messages):
            if along.maker[m] < here:
                reader = _first_reader(along, m, here)
                if reader < length:
                    crossing[number], following[number] = m, reader
                    number += 1
        if here == 0:
            on_cpu[0, 0] = along.cpu_s[0]
            on_acc[0, :] = along.stretch_s[0, :]
            continue
        # A stretch [first, here - 1], then another stretch, or CPUs.
        for first in range(here):
            value = on_acc[first, here - 1]
            if value == np.inf:
                continue
            on_gap[first, here - 1, 1] = min(on_gap[first, here - 1, 1], value + along.cpu_s[here])
            for end in range(here, length):
                if along.stretch_s[here, end] == np.inf:
                    continue
                extra = 0.0
                for i in range(number):
                    m = crossing[i]
                    if first <= along.maker[m] and following[i] <= end:
                        if along.maker[m] < here - 1:
                            extra += along.seconds[m]
                        if following[i] > here and along.plain[m]:
                            extra += along.seconds[m]
                on_acc[here, end] = min(on_acc[here, end], value + along.stretch_s[here, end] + extra)
        # A stretch [first, last], then CPUs up to here - 1, then a stretch, or more of CPUs.
        for gap in range(1, min(GAP, here - 1) + 1):
            last = here - 1 - gap
            for i in range(number):
                after[i] = _first_reader(along, crossing[i], last + 1)
            for first in range(last + 1):
                value = on_gap[first, last, gap]
                if value == np.inf:
                    continue
                further = value + along.cpu_s[here]
                for i in range(number):
                    m = crossing[i]
                    sends = first <= along.maker[m] <= last and along.plain[m]
                    if sends and after[i] == here:
                        further += along.seconds[m]
                if gap < GAP:
                    on_gap[first, last, gap + 1] = min(on_gap[first, last, gap + 1], further)
                else:
                    on_cpu[last + 1, here] = min(on_cpu[last + 1, here], further)
                for end in range(here, length):
                    if along.stretch_s[here, end] == np.inf:
                        continue
                    from_cpu, apart = 0.0, 0.0
                    for i in range(number):
                        m = crossing[i]
                        if following[i] > end:
                            continue
                        if last < along.maker[m] < here - 1:
                            from_cpu += along.seconds[m]
                        elif first <= along.maker[m] <= last:
                            apart += along.seconds[m]
                            if after[i] >= here and along.plain[m]:
                                apart += along.seconds[m]
                    if along.nbytes[first, last] + along.nbytes[here, end] <= along.cap:
                        apart = 0.0
                    total = value + along.stretch_s[here, end] + from_cpu + apart
                    on_acc[here, end] = min(on_acc[here, end], total)
        # CPUs from ``start`` to here - 1, then a stretch, or more of CPUs.
        for start in range(here):
            value = on_cpu[start, here - 1]
            if value == np.inf:
                continue
            on_cpu[start, here] = min(on_cpu[start, here], value + along.cpu_s[here])
            for end in range(here, length):
                if along.stretch_s[here, end] == np.inf:
                    continue
                from_cpu = 0.0
                for i in range(number):
                    m = crossing[i]
                    if start <= along.maker[m] < here - 1 and following[i] <= end:
                        from_cpu += along.seconds[m]
                total = value + along.stretch_s[here, end] + from_cpu
                on_acc[here, end] = min(on_acc[here, end], total)
    least = np.inf
    for first in range(length):
        least = min(least, on_acc[first, length - 1])
        least = min(least, on_cpu[first, length - 1])
        for last in range(first, length - 1):
            if length - 1 - last <= GAP:
                least = min(least, on_gap[first, last, length - 1 - last])
    return least
