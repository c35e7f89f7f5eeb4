"""How many micro-batches a stage keeps in flight: the rule of pipelines that are DAGs of stages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from solvers.problem.graph import topological_order
from solvers.problem.problem import Pipeline, Problem


def in_flight_samples(
    after: Sequence[Collection[int]],
    sizes: Sequence[int],
    blocks: Sequence[int],
    mini_batch: int,
    weightless: Collection[int] = (),
) -> list[int]:
    """Samples each stage has forwarded at most before their backward (GraphPipe, ASPLOS 2025, section 5).

    after: the stages that read forward tensors of each, [stages]. sizes: samples per micro-batch b;
    blocks: micro-batches k that run in a row (kFkB). A sink keeps k b; a stage whose successors y
    keep i_y keeps max over y of (i_y + max(k b, k_y b_y)), rounded up to its own micro-batches, at
    most the mini-batch. With one size and k = 1 that is 1F1B: the number of stages on the longest path
    to a sink. weightless: stages that take next to no time, so that nothing more need be kept before them.
    """
    in_flight = [0] * len(after)
    for stage in reversed(topological_order([sorted(targets) for targets in after])):
        own = need = blocks[stage] * sizes[stage]
        for y in after[stage]:
            need = max(need, in_flight[y] + (0 if y in weightless else max(own, blocks[y] * sizes[y])))
        in_flight[stage] = min(mini_batch, -(-need // sizes[stage]) * sizes[stage])
    return in_flight


def in_flight(
    problem: Problem,
    after: Sequence[Collection[int]],
    sizes: Sequence[int],
    blocks: Sequence[int],
    weightless: Collection[int] = (),
) -> list[int]:
    """Micro-batches of every stage in flight: those of `in_flight_samples`; GPipe, all; without a backward, 1."""
    if not problem.has_backward():
        return [1] * len(sizes)
    if problem.pipeline is Pipeline.GPIPE:
        return [problem.mini_batch // size for size in sizes]
    samples = in_flight_samples(after, sizes, blocks, problem.mini_batch, weightless)
    return [most // size for most, size in zip(samples, sizes, strict=True)]
