"""The models and machines of GraphPipe's experiments, and what a micro-batch costs whatever its size."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import cycle, islice

import numpy as np
import torch

from demo_models import candle_uno, multimodal
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_module
from solvers.formats.workload import Workload
from solvers.problem.graph import Phase
from solvers.problem.problem import ComputeTable, Problem

PER_NODE = 4
"""GPUs of a node of the paper's machine (section 7)."""


@cache
def transformer(branches: int, layers: int) -> Workload:
    """Branches of transformer layers of the paper's size (A.2), joined by a concatenation."""
    if (branches, layers) == (multimodal.SIZES["real"].branches, multimodal.SIZES["real"].layers):
        return load("multimodal")
    size = replace(multimodal.SIZES["real"], branches=branches, layers=layers)
    with torch.device("meta"):
        module, inputs = multimodal.build(size)
    return trace_module(module, inputs, name=f"transformer, {branches} branches of {layers}")


@cache
def uno(branches: int) -> Workload:
    """CANDLE-Uno with more or fewer branches than its seven: the widths of its inputs are repeated in turn."""
    real = candle_uno.SIZES["real"]
    size = replace(real, inputs=tuple(islice(cycle(real.inputs), branches)))
    with torch.device("meta"):
        module, inputs = candle_uno.build(size)
    return trace_module(module, inputs, name=f"Uno, {branches} branches")


def make_question(
    workload: Workload,
    devices: int,
    mini_batch: int,
    *,
    fixed: float | None = None,
    replicas: bool = True,
    memory_bytes: float | None = None,
    micro_batch: int | None = None,
) -> Problem:
    """V100s of 16 GB (or of memory_bytes) in nodes of four, NVLink of 50 GB/s inside, 12.5 GB/s between; fp32, Adam.

    fixed: see `with_fixed_cost`; None leaves the roofline estimate as it is. micro_batch: samples, the only size
    allowed.
    """
    settings = Settings(
        devices=devices,
        device_kind="V100-16GB",
        memory_bytes=memory_bytes,
        mini_batch=mini_batch,
        micro_batches=None if micro_batch is None else mini_batch // micro_batch,
        max_replicas=0 if replicas else 1,
        bandwidth_bytes_per_s=50e9,
        devices_per_node=PER_NODE if devices > PER_NODE else None,
        node_bandwidth_bytes_per_s=12.5e9 if devices > PER_NODE else None,
    )
    problem = make_problem(workload, settings)
    return problem if fixed is None else with_fixed_cost(problem, fixed)


def with_fixed_cost(problem: Problem, fixed: float) -> Problem:
    """The problem in which b samples take as long as b + ``fixed`` do at the rate of the largest batch of the table.

    So a micro-batch of b wastes the share fixed / (b + fixed), the same for every operator; 0 makes all sizes
    equally efficient. Updates, once a mini-batch, stay.
    """
    samples = problem.compute.samples
    update = np.array([operator.phase is Phase.UPDATE for operator in problem.graph.operators])
    grown = (np.array(samples) + fixed) / samples[-1]
    seconds = {
        kind: np.where(update[:, None], table, table[:, -1:] * grown) for kind, table in problem.compute.seconds.items()
    }
    return replace(problem, compute=ComputeTable(samples, seconds), costs_from=f"{fixed:g} samples a micro-batch fixed")


def wasted_share(problem: Problem, samples: int) -> float:
    """The part of a micro-batch of so many samples that would not be there at the rate of the table's largest batch."""
    kind = problem.cluster.devices[0].kind
    once = np.array([operator.phase is not Phase.UPDATE for operator in problem.graph.operators])
    largest = problem.compute.samples[-1]
    best = float(problem.compute.at(kind, largest)[once].sum()) / largest * samples
    return 1.0 - best / float(problem.compute.at(kind, samples)[once].sum())
