"""Seconds for which tensors are on their way between two devices at best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.evaluation.columns import best_of_links, graph_columns
from solvers.kernels.arrays import Floats
from solvers.problem.problem import Problem


def sent_s(problem: Problem, choices: Sequence[int]) -> tuple[Floats, Floats]:
    """Of one micro-batch, and of all of them, over the best latency and the best bandwidth of all links, [tensors]
    each. choices: numbers of micro-batches, of which the best counts."""
    sizes = [problem.mini_batch // count for count in choices]
    if problem.transfer_s is not None:
        stated = np.array(problem.transfer_s, np.float64)
        return stated * min(sizes), stated * problem.mini_batch
    latency, bandwidth = best_of_links(problem.cluster)
    fixed, per_sample = graph_columns(problem.graph).tensor_bytes.T
    nbytes = [fixed + per_sample * size for size in sizes]
    each = [np.where(of_one > 0, latency + of_one / bandwidth, 0.0) for of_one in nbytes]
    return np.min(each, axis=0), np.min([count * one for count, one in zip(choices, each, strict=True)], axis=0)
