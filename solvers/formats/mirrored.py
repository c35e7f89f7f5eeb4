"""A training graph from a forward one whose operators' backward times are known as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.formats.blocks import block_paths
from solvers.problem.graph import Amount, Operator, Phase, Tensor


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
