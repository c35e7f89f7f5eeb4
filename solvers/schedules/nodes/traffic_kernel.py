"""What stages send each other in a mini-batch, replica by replica, as `solvers.evaluation.tasks_kernel` has it."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.columns import GraphColumns
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.ring_kernel import ring_bytes


@njit(cache=True)
def between_places(graph: GraphColumns, place_of: Ints, group_of: Ints, replicas: Ints) -> tuple[Floats, Floats]:
    """(bytes a transfer, bytes a sample) from each place to each other, [places, places].

    A message is sent once from every place that makes some of it to every place that reads it. place_of: the place of
    every operator. group_of: places of one group are on the same devices, and differ in the size of their
    micro-batches; they send each other something only if they have replicas.
    """
    places = len(group_of)
    once, each = np.zeros((places, places)), np.zeros((places, places))
    read_by = np.full(places, -1)
    made_by = np.full(places, -1)
    for m in range(len(graph.message_tensor)):
        fixed, per_sample = graph.tensor_bytes[graph.message_tensor[m]]
        for i in range(graph.maker_start[m], graph.maker_start[m + 1]):
            source = place_of[graph.maker[i]]
            if made_by[source] == m:
                continue
            made_by[source] = m
            read_by[:] = -1
            for j in range(graph.reader_start[m], graph.reader_start[m + 1]):
                target = place_of[graph.reader[j]]
                inside = group_of[target] == group_of[source] and replicas[target] == 1
                if read_by[target] != m and target != source and not inside:
                    read_by[target] = m
                    once[source, target] += fixed
                    each[source, target] += per_sample
    return once, each


@njit(cache=True)
def between_replicas(
    once: Floats, each: Floats, first: Ints, replicas: Ints, sizes: Ints, mini_batch: int, weight: Floats
) -> None:
    """Add what places send, of `between_places`, to ``weight`` [seats, seats].

    Place a has the seats first[a]:first[a] + replicas[a], its micro-batches sizes[a] samples. Replica p of r
    has the p-th r-th of the samples of every micro-batch, and sends a reader those that this one has.
    """
    for a in range(len(first)):
        for b in range(len(first)):
            if once[a, b] == 0 and each[a, b] == 0:
                continue
            x, y = sizes[a], sizes[b]
            while y:
                x, y = y, x % y
            period = sizes[a] // x * sizes[b]
            times = mini_batch / period
            share_a, share_b = sizes[a] / replicas[a], sizes[b] / replicas[b]
            for u in range(period // sizes[a] * replicas[a]):
                low, high = u * share_a, (u + 1) * share_a
                for v in range(int(low / share_b), period // sizes[b] * replicas[b]):
                    samples = min(high, (v + 1) * share_b) - max(low, v * share_b)
                    if v * share_b >= high:
                        break
                    if samples > 1e-9:
                        moved = times * (once[a, b] + each[a, b] * samples)
                        weight[first[a] + u % replicas[a], first[b] + v % replicas[b]] += moved


@njit(cache=True)
def around_rings(gradient_bytes: Floats, start: Ints, weight: Floats) -> None:
    """Add the all-reduce of every stage's gradients: what each replica sends the next.

    Stage s has the seats start[s]:start[s + 1] of ``weight`` [seats, seats].
    """
    for s in range(len(gradient_bytes)):
        count = start[s + 1] - start[s]
        if count > 1 and gradient_bytes[s] > 0:
            moved = ring_bytes(count, gradient_bytes[s])
            for p in range(count):
                weight[start[s] + p, start[s] + (p + 1) % count] += moved
