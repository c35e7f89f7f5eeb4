"""A training graph from a forward one whose operators' backward times are known as a whole, and names for its parts
where its file names none: blocks between its narrow places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor, topological_order

READABLE = 60
"""Operators that can be distinguished when drawn at once; larger blocks are cut where more tensors cross."""
WIDEST = 4
"""Most operators whose output may cross the end of a block."""
LEAST = 4
"""Fewest operators of a block."""


def block_paths(successors: Sequence[Sequence[int]]) -> list[str]:
    """A module path, "block1" and so on, of every operator of a forward graph; "" for all of a small one.

    A block ends behind an operator that is read twice or more (a residual connection or a branching
    starts there) where few operators' outputs are still to be read: as few as give readable blocks.
    """
    order = topological_order(successors)
    if len(order) < len(successors) or len(order) <= READABLE:
        return [""] * len(successors)
    crossing = _crossing(successors, order)
    forks = [len(successors[operator]) > 1 for operator in order]
    ends = _ends(crossing, forks, 0, len(order), 1)
    paths = [""] * len(order)
    start = 0
    for number, end in enumerate(ends, 1):
        for rank in range(start, end):
            paths[order[rank]] = f"block{number}"
        start = end
    return paths if len(ends) > 1 else [""] * len(order)


def _crossing(successors: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """After every rank of ``order``: how many operators up to there are read later."""
    rank = {operator: i for i, operator in enumerate(order)}
    change = [0] * len(order)
    for operator, targets in enumerate(successors):
        if targets:
            change[rank[operator]] += 1
            change[max(rank[target] for target in targets)] -= 1
    total, crossing = 0, []
    for step in change:
        total += step
        crossing.append(total)
    return crossing


def _ends(crossing: Sequence[int], forks: Sequence[bool], start: int, stop: int, width: int) -> list[int]:
    """Where the blocks of ranks ``start`` to ``stop`` end (the last at ``stop``)."""
    ends = []
    last = start
    for rank in range(start, stop - LEAST):
        if forks[rank] and crossing[rank] <= width and rank + 1 - last >= LEAST:
            last = rank + 1
            ends.append(last)
    ends.append(stop)
    if width == WIDEST:
        return ends
    stops = []
    for first, end in zip([start, *ends[:-1]], ends, strict=True):
        stops += _ends(crossing, forks, first, end, width + 1) if end - first > READABLE else [end]
    return stops


def title_of(reference: str, suffix: str) -> str:
    """What a graph of a file is called."""
    return reference.rsplit("/", 1)[-1].removesuffix(suffix) or "graph"


def training_graph(
    forward: Sequence[Operator], readers: Sequence[Mapping[int, float]], reference: str, suffix: str
) -> OpGraph:
    """The graph of a training step of a file, see `mirrored`. Raises InvalidProblem, which names the file."""
    try:
        return OpGraph(*mirrored(module_paths(forward, readers), readers), 1, title_of(reference, suffix))
    except InvalidProblem as error:
        raise InvalidProblem(f"{reference}: {error}") from None


def module_paths(operators: Sequence[Operator], readers: Sequence[Mapping[int, float]]) -> list[Operator]:
    """The operators with the block they are in as their module, where none has a module."""
    if any(operator.module_path for operator in operators):
        return list(operators)
    paths = block_paths([sorted(targets) for targets in readers])
    return [replace(operator, module_path=path) for operator, path in zip(operators, paths, strict=True)]


def mirrored(
    forward: Sequence[Operator], readers: Sequence[Mapping[int, float]]
) -> tuple[tuple[Operator, ...], tuple[Tensor, ...]]:
    """The operators and tensors of a training step: operator i's backward is at len(forward) + i.

    readers: for every operator, consumer -> bytes per sample of what it reads. Consumers of equally
    many bytes read one tensor. A gradient has the bytes of its activation, and the gradients of one
    activation from several consumers are one sum group. A backward waits for its own forward.
    """
    count = len(forward)
    backward = [
        Operator(
            f"{operator.name}/backward",
            operator.op_type,
            Phase.BACKWARD_INPUT,
            operator.module_path,
            forward_of=position,
        )
        for position, operator in enumerate(forward)
    ]
    activations: list[Tensor] = []
    gradients: list[Tensor] = []
    for producer, targets in enumerate(readers):
        by_bytes: dict[float, list[int]] = {}
        for consumer, nbytes in targets.items():
            by_bytes.setdefault(nbytes, []).append(consumer)
        for nbytes, consumers in by_bytes.items():
            amount = Amount(0.0, nbytes)
            summed = len(activations) if len(consumers) > 1 else None
            activations.append(Tensor(producer, tuple(sorted(consumers)), amount))
            gradients += [
                Tensor(count + consumer, (count + producer,), amount, sum_group=summed)
                for consumer in sorted(consumers)
            ]
    own = [Tensor(i, (count + i,)) for i in range(count)]
    return (*forward, *backward), (*activations, *own, *gradients)


def pass_times(forward_s: Sequence[float], backward_s: Sequence[float]) -> NDArray[np.float64]:
    """Seconds of the operators that `mirrored` gives, shape [operators, 1]."""
    return np.array([*forward_s, *backward_s], np.float64).reshape(-1, 1)
