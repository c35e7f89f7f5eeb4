"""Small named instances to draw: a chain of blocks, four stages, eight micro-batches."""

from __future__ import annotations

import math

import numpy as np

from solvers.assemble import assemble
from solvers.cluster import Device, uniform_cluster
from solvers.formats.workload import Workload
from solvers.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.plan import Plan
from solvers.problem import ComputeTable, Pipeline, Problem

MIB = 2.0**20
GIB = 2.0**30


def chain(blocks: int = 8, size: int = 12) -> OpGraph:
    """``blocks`` blocks of ``size`` forward operators in a row, each with its mirrored backward."""
    count = blocks * size
    operators = []
    for i in range(count):
        block, step = divmod(i, size)
        operators.append(
            Operator(
                f"blocks.{block}.{'attention' if step < size // 2 else 'mlp'}.op{step}",
                "aten.mm",
                module_path=f"blocks.{block}.{'attention' if step < size // 2 else 'mlp'}",
                param_bytes=8 * MIB,
                saved_bytes=Amount(0.0, 2 * MIB),
            )
        )
    tensors = [Tensor(i, (i + 1,), Amount(0.0, 4 * MIB)) for i in range(count - 1)]
    for i in range(count):
        mirrored = operators[count - 1 - i]
        operators.append(
            Operator(
                mirrored.name + ".backward",
                "backward",
                Phase.BACKWARD_INPUT,
                mirrored.module_path,
                forward_of=count - 1 - i,
            )
        )
    tensors.append(Tensor(count - 1, (count,), Amount(0.0, 4 * MIB)))
    tensors += [Tensor(count + i, (count + i + 1,), Amount(0.0, 4 * MIB)) for i in range(count - 1)]
    return OpGraph(tuple(operators), tuple(tensors), 1, "chain")


def chain_problem(
    devices: int = 4,
    memory_bytes: float = 16 * GIB,
    mini_batch: int = 16,
    micro_batches: int | None = 8,
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B,
    blocks: int = 8,
    size: int = 12,
) -> Problem:
    """Forward operators take 0.1 ms a sample, backward ones 0.2 ms, on equal GPUs."""
    graph = chain(blocks, size)
    seconds = np.array([[1e-4 if o.phase is Phase.FORWARD else 2e-4] for o in graph.operators])
    cluster = uniform_cluster([Device(f"gpu{i}", "toy", memory_bytes) for i in range(devices)], 25e9, 5e-6)
    return Problem(
        graph,
        cluster,
        ComputeTable((1,), {"toy": seconds}),
        mini_batch=mini_batch,
        micro_batches=micro_batches,
        pipeline=pipeline,
    )


def even_plan(problem: Problem) -> Plan:
    """The chain cut into equal runs, one a device, its backward mirrored."""
    graph, devices = problem.graph, len(problem.cluster)
    forward = sum(o.phase is Phase.FORWARD for o in graph.operators)
    per = math.ceil(forward / devices)
    place = [(i if o.forward_of is None else o.forward_of) // per for i, o in enumerate(graph.operators)]
    micro = problem.micro_batches or max(c for c in problem.micro_batch_choices() if c <= 4 * devices)
    return assemble(problem, [(p,) for p in place], micro)


def chain_workload() -> Workload:
    return Workload(chain(), "chain", parameters=96 * 4 * 2**20)
