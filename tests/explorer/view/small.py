"""Small named instances to draw: a chain of blocks in four stages, and branches that join in seven; eight
micro-batches."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from solvers.formats.workload import Workload
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.problem.cluster import Device, two_level_cluster, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise

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


def branches(count: int = 3, length: int = 4) -> OpGraph:
    """``count`` branches of ``length`` forward operators each and a join of their ends, with mirrored
    backwards. Forward operators branch by branch; the join is the last of them."""
    names = [f"branches.{b}.op{i}" for b in range(count) for i in range(length)] + ["join.op"]
    forward = len(names)
    operators = [
        Operator(name, "aten.mm", module_path=name.rpartition(".")[0], param_bytes=8 * MIB,
                 saved_bytes=Amount(0.0, 2 * MIB)) for name in names
    ]  # fmt: skip
    mirror = [2 * forward - 1 - i for i in range(forward)]
    for i in reversed(range(forward)):
        module = operators[i].module_path
        operators.append(Operator(names[i] + ".backward", "backward", Phase.BACKWARD_INPUT, module, forward_of=i))
    size = Amount(0.0, 4 * MIB)
    pairs = [(b * length + i, b * length + i + 1) for b in range(count) for i in range(length - 1)]
    pairs += [(b * length + length - 1, forward - 1) for b in range(count)]
    tensors = [Tensor(a, (b,), size) for a, b in pairs] + [Tensor(forward - 1, (forward,), size)]
    tensors += [Tensor(mirror[b], (mirror[a],), size) for a, b in pairs]
    return OpGraph(tuple(operators), tuple(tensors), 1, "branches")


def branches_problem(
    devices: int = 7, micro_batches: int = 8, pipeline: Pipeline = Pipeline.ONE_F_ONE_B, nodes: int = 1
) -> Problem:
    """As `chain_problem`, for `branches`; the devices on ``nodes`` nodes, as many on each."""
    graph = branches()
    seconds = np.array([[1e-4 if o.phase is Phase.FORWARD else 2e-4] for o in graph.operators])
    spread = [Device(f"gpu{i}", "toy", 16 * GIB, node=i * nodes // devices) for i in range(devices)]
    cluster = two_level_cluster(spread, 25e9, 5e-6, 12.5e9, 5e-6)
    return Problem(
        graph,
        cluster,
        ComputeTable((1,), {"toy": seconds}),
        mini_batch=2 * micro_batches,
        micro_batches=micro_batches,
        pipeline=pipeline,
        max_replicas=devices,
        recompute=True,
    )


def pair_plans(problem: Problem) -> tuple[Plan, Plan]:
    """Of `branches_problem`: every branch cut in two and the join by itself; and the operators of the
    branches in turn, cut into a row of stages of two."""
    forward = (len(problem.graph) - 1) // 2
    by_branch = [[2 * i, 2 * i + 1] for i in range(forward // 2)] + [[forward]]
    in_turn = [branch * 4 + i for i in range(4) for branch in range(forward // 4)]
    row = [in_turn[i : i + 2] for i in range(0, forward, 2)] + [[forward]]
    return drafted(problem, by_branch), drafted(problem, row)


def drafted(
    problem: Problem,
    sets: Sequence[Sequence[int]],
    replicas: Mapping[int, int] | None = None,
    again: Collection[int] = (),
    hosts: Mapping[int, int] | None = None,
) -> Plan:
    """The plan with these forward operators a stage, and their mirrors. By the position of a stage: how
    many replicas it has, whether it recomputes, and whose devices it shares."""
    mirror = {o.forward_of: i for i, o in enumerate(problem.graph.operators) if o.forward_of is not None}
    size = problem.mini_batch // (problem.micro_batches or 1)
    stages = [
        DraftStage(
            (*members, *(mirror[o] for o in members)),
            size,
            (replicas or {}).get(i, 1),
            i in again,
            host=(hosts or {}).get(i),
        )
        for i, members in enumerate(sets)
    ]
    return realise(problem, Draft(tuple(stages)))


def branches_workload() -> Workload:
    return Workload(branches(), "branches", parameters=13 * 2 * 2**20)
