"""Where to cut a block that a model repeats: between pieces that hand little to one another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from solvers.coarsening.blocks import Blocks
from solvers.kernels.arrays import Floats
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Problem

FEWER = 1e-3
"""What a cut costs beside the bytes that cross it, as a share of the most that cross one: of equal ways, the one with
the fewest pieces."""


def pieces(problem: Problem, blocks: Blocks, most_s: float) -> list[tuple[int, ...]]:
    """Every block of a family cut at the same places: the groups of each piece.

    most_s: what a piece takes at most, in seconds per sample of a micro-batch, unless it is a single group. Of all
    such cuts of the block's order the one that the fewest bytes cross, forward.
    """
    block = blocks.members[0]
    before = np.concatenate([[0.0], np.cumsum(group_seconds(problem)[list(block)])])
    crossing = _crossing_bytes(problem, block)
    crossing += FEWER * max(float(crossing.max()), 1.0)
    count = len(block)
    least, came_from = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    least[0] = 0.0
    for end in range(1, count + 1):
        first = min(int(np.searchsorted(before, before[end] - most_s, side="left")), end - 1)
        came_from[end] = first + int(least[first:end].argmin())
        least[end] = least[came_from[end]] + crossing[end]
    cuts = [count]
    while cuts[-1]:
        cuts.append(int(came_from[cuts[-1]]))
    ends = cuts[::-1]
    return [members[a:b] for members in blocks.members for a, b in pairwise(ends)]


def group_order(problem: Problem) -> tuple[int, ...]:
    """All co-location groups in the order in which their first operators run."""
    return tuple(dict.fromkeys(group_of(problem.graph)[list(problem.graph.topological_order)].tolist()))


def group_seconds(problem: Problem) -> Floats:
    """Work of each co-location group on the first accelerator, in seconds per sample of the smallest micro-batches,
    [groups]."""
    device = problem.cluster.devices[problem.cluster.accelerators[0]]
    samples = problem.mini_batch // problem.micro_batch_choices()[-1]
    seconds = problem.compute.at(device.kind, samples) / samples
    return np.asarray(np.bincount(group_of(problem.graph), np.where(np.isfinite(seconds), seconds, 0.0)), np.float64)


def _crossing_bytes(problem: Problem, block: tuple[int, ...]) -> Floats:
    """Bytes of a sample's forward tensors that a cut before each group of the block, or after the last, crosses; what
    may be copied is left out, [groups + 1]."""
    graph, number_of = problem.graph, group_of(problem.graph)
    place = {group: position for position, group in enumerate(block)}
    change = np.zeros(len(block) + 2)
    forwards = [o for group in block for o in together(graph)[group] if graph.operators[o].phase is Phase.FORWARD]
    for t in {t for o in forwards for t in (*graph.outputs[o], *graph.inputs[o])}:
        tensor = graph.tensors[t]
        maker = graph.operators[tensor.producer]
        readers = [r for r in tensor.consumers if graph.operators[r].phase is Phase.FORWARD]
        if maker.replicable or maker.phase is not Phase.FORWARD or not readers:
            continue
        begins = place.get(int(number_of[tensor.producer]), -1)
        ends = max(place.get(int(number_of[reader]), len(block)) for reader in readers)
        change[begins + 1] += tensor.nbytes.at(1)
        change[ends + 1] -= tensor.nbytes.at(1)
    return np.maximum(np.cumsum(change)[: len(block) + 1], 0.0)
