"""Queues and events come out in order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.kernels import heap_kernel
from solvers.kernels.interpreted import interpreted

push, pop = interpreted(heap_kernel.push), interpreted(heap_kernel.pop)
push_event, pop_event = interpreted(heap_kernel.push_event), interpreted(heap_kernel.pop_event)


@pytest.mark.parametrize("tied", [False, True])
def test_a_queue_gives_the_least_key_and_of_equal_ones_the_least_tie_or_item(tied: bool):
    rng = random.Random(1)
    key = [rng.randrange(4) for _ in range(30)]
    tie = np.array(rng.sample(range(30), 30)) if tied else None
    keys, items, base = np.zeros(35), np.zeros(35, np.int64), 5
    waiting: set[int] = set()
    for item in rng.sample(range(30), 30):
        push(keys, items, base, len(waiting), key[item], item, tie)
        waiting.add(item)
        if rng.random() < 0.4:
            first = min(waiting, key=lambda i: (key[i], i if tie is None else tie[i]))
            assert pop(keys, items, base, len(waiting), tie) == first
            waiting.remove(first)
    left = [pop(keys, items, base, size, tie) for size in range(len(waiting), 0, -1)]
    assert left == sorted(waiting, key=lambda i: (key[i], i if tie is None else tie[i]))
    assert not keys[:base].any()


def test_events_come_in_the_order_of_their_times():
    rng = random.Random(2)
    time = [float(rng.randrange(9)) for _ in range(40)]
    times, items = np.zeros(40), np.zeros(40, np.int64)
    for size, when in enumerate(time):
        push_event(times, items, size, when, size)
    popped = [pop_event(times, items, size) for size in range(40, 0, -1)]
    assert sorted(popped) == list(range(40))
    assert [time[item] for item in popped] == sorted(time)
