"""Seeded random problems, small enough to enumerate."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np

from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.cluster import Device, two_level_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import (
    ComputeTable,
    Contiguity,
    Execution,
    Objective,
    Optimizer,
    Pipeline,
    Precision,
    Problem,
    Transfers,
)
from solvers.problem.regions import recomputing
from tests.instances import GPU, problem


def random_edges(rng: random.Random, count: int) -> list[tuple[int, int]]:
    density = rng.choice([0.2, 0.4, 0.7])
    return [(i, j) for i in range(count) for j in range(i + 1, count) if rng.random() < density]


def _saver(operators: list[Operator], near: tuple[int, ...], size: float) -> int:
    """Of what makes or reads a tensor one whose saved bytes it may be alone; of every other tensor nobody says."""
    may = [o for o in near if size and operators[o].saved_bytes.per_sample == size]
    return may[0] if may and near[0] % 2 else -1


def random_graph(rng: random.Random, count: int, training: bool) -> OpGraph:
    """``count`` forward operators, some with parameters; in training both backwards and an update."""
    edges = random_edges(rng, count)
    owns = [rng.random() < 0.5 for _ in range(count)]
    operators = [
        Operator(
            f"o{i}",
            param_bytes=(params := float(rng.randint(1, 9)) if owns[i] else 0.0),
            frozen_bytes=params // (1 + i) if i % 2 else 0.0,
            factorable_bytes=params // 4,
            buffer_bytes=float(i % 3),
            gradient_sum_bytes=float(i % 4 == 1),
            saved_bytes=Amount(0.0, float(rng.randint(0, 5))),
            workspace_bytes=Amount(0.0, float(rng.randint(0, 2))),
            colocation=rng.choice(["x", None, None, None, None]),
        )
        for i in range(count)
    ]
    size = [float(rng.randint(0, 4)) for _ in range(count)]
    readers = {i: tuple(j for a, j in edges if a == i) for i in range(count)}
    tensors = [
        Tensor(i, js, Amount(0.0, size[i]), saver=_saver(operators, (i, *js), size[i]))
        for i, js in readers.items()
        if js
    ]
    if not training:
        return OpGraph(tuple(operators), tuple(tensors))
    backward = {}
    for i in range(count):
        backward[i] = len(operators)
        operators.append(Operator(f"o{i}.I", phase=Phase.BACKWARD_INPUT, forward_of=i))
    weight = {}
    for i in range(count):
        if owns[i]:
            weight[i] = len(operators)
            operators.append(Operator(f"o{i}.W", phase=Phase.BACKWARD_WEIGHT, forward_of=i))
            operators.append(Operator(f"o{i}.U", phase=Phase.UPDATE, forward_of=i))
            tensors.append(Tensor(weight[i], (weight[i] + 1,)))
    for i, js in readers.items():
        targets = tuple(t for t in (backward[i], weight.get(i)) if t is not None)
        group = i if len(js) > 1 else None
        tensors += [Tensor(backward[j], targets, Amount(0.0, size[i]), sum_group=group) for j in js]
    tensors += [Tensor(i, tuple(t for t in (backward[i], weight.get(i)) if t is not None)) for i in range(count)]
    return OpGraph(tuple(operators), tuple(tensors))


def colour_class_graph(rng: random.Random, count: int) -> OpGraph:
    """As MSR 2020 files have it: only co-location ties a backward operator to a forward one; some
    groups hold several forward operators, some backward operators have none or are missing."""
    edges = random_edges(rng, count)
    group = [rng.choice(["x", "y", f"g{i}", f"g{i}"]) for i in range(count)]
    operators = [Operator(f"o{i}", colocation=group[i], saved_bytes=Amount(0.0, 1.0)) for i in range(count)]
    backward: dict[int, int] = {}
    for i in range(count):
        if rng.random() < 0.9:
            backward[i] = len(operators)
            tie = rng.choice([group[i]] * 8 + [None, "z"])
            operators.append(Operator(f"o{i}'", phase=Phase.BACKWARD_INPUT, colocation=tie))
    tensors = [Tensor(u, (v,), Amount(0.0, 1.0)) for u, v in edges]
    tensors += [
        Tensor(backward[v], (backward[u],), Amount(0.0, 1.0)) for u, v in edges if u in backward and v in backward
    ]
    tensors += [Tensor(i, (b,)) for i, b in backward.items()]
    return OpGraph(tuple(operators), tuple(tensors))


def random_problem(seed: int, largest: int = 5, **options: object) -> Problem:
    """A problem drawn from ``seed``; ``options`` fix what the test is about."""
    rng = random.Random(seed)
    training = bool(options.setdefault("training", rng.random() < 0.6))
    graph = random_graph(rng, rng.randint(2, largest), training)
    gpus = rng.randint(1, 3)
    cpus = int(options.pop("cpus", rng.choice([0, 0, 1])))  # type: ignore[call-overload]
    seconds = [float(rng.randint(1, 9)) for _ in range(len(graph))]
    options.setdefault("objective", rng.choice(list(Objective)))
    options.setdefault("transfers", rng.choice(list(Transfers)))
    options.setdefault("contiguity", rng.choice(list(Contiguity)))
    options.setdefault("pipeline", rng.choice([Pipeline.GPIPE, Pipeline.ONE_F_ONE_B]))
    options.setdefault("execution", rng.choice(list(Execution)))
    options.setdefault("mini_batch", 4)
    options.setdefault("micro_batches", rng.choice([1, 2, 4, None]))
    options.setdefault("memory", rng.choice([float("inf"), 120.0, 60.0]))
    return problem(
        graph,
        seconds,
        gpus,
        cpus=cpus,
        cpu_seconds=[s * rng.choice([1, 2, 5]) for s in seconds],
        bandwidth=rng.choice([0.5, 1.0, 10.0]),
        latency=rng.choice([0.0, 0.25]),
        **options,
    )  # type: ignore[arg-type]


def trained_somehow(p: Problem, seed: int) -> Problem:
    """With an optimizer, a precision and a stage of ZeRO drawn from ``seed``; a third of the time Adam, all in one
    precision and nothing sharded."""
    rng = random.Random(f"trained {seed}")
    if rng.random() < 0.33:
        return p
    return replace(
        p, optimizer=rng.choice(list(Optimizer)), precision=rng.choice(list(Precision)), zero=rng.randrange(4)
    )


def with_random_regions(p: Problem, seed: int) -> Problem:
    """With regions that run again, of operators that follow one another or of any, some of them cached."""
    rng = random.Random(f"regions {seed}")
    follow, regions = rng.random() < 0.6, rng.randint(1, 3)
    forwards = [o for o in p.graph.topological_order if p.graph.operators[o].phase is Phase.FORWARD]
    operators = list(p.graph.operators)
    for place, o in enumerate(forwards):
        number = place * (regions + 1) // len(forwards) if follow else rng.randrange(regions + 1)
        name = rng.choice(["", f"region {number}", f"region {number}", f"region {number}"])
        operators[o] = replace(operators[o], checkpoint=name, cached=bool(name) and rng.random() < 0.25)
    return recomputing(replace(p, graph=replace(p.graph, operators=tuple(operators))))


def with_unequal_devices(p: Problem, seed: int, *, memories: bool = True) -> Problem:
    """With another kind for some accelerators, slower at some operators and unable to run a few; and with stated
    memory that differs from device to device."""
    rng = random.Random(f"unequal {seed}")
    seconds = p.compute.seconds[GPU]
    other = seconds * np.array([rng.choice([0.25, 0.5, 1, 2, 3, np.inf]) for _ in seconds])[:, None]
    devices = tuple(
        d if d.is_cpu else replace(d, kind=rng.choice([GPU, "other"]), memory_bytes=rng.choice([9.0, 12.0, 20.0]))
        for d in p.cluster.devices
    )
    stated: tuple[float, ...] | None = tuple(float(rng.randint(0, 4)) for _ in p.graph.operators)
    if not memories:
        devices = tuple(replace(d, memory_bytes=math.inf) for d in devices)
        stated = p.stated_bytes
    table = ComputeTable(p.compute.samples, {**p.compute.seconds, "other": other})
    return replace(p, compute=table, cluster=replace(p.cluster, devices=devices), stated_bytes=stated)


def random_placement(rng: random.Random, p: Problem) -> list[tuple[int, ...]]:
    """A device for every operator, co-located ones together."""
    from solvers.problem.groups import together

    placement: list[tuple[int, ...]] = [()] * len(p.graph)
    for group in together(p.graph):
        device = rng.randrange(len(p.cluster))
        for operator in group:
            placement[operator] = (device,)
    return placement


def random_two_level_problem(seed: int, largest: int = 6, **options: object) -> Problem:
    """As `random_problem`, on 2 or 3 nodes of up to 3 devices, with shared wires between them that are slower
    than the links inside; replicas, recomputation and micro-batches of several sizes are allowed."""
    rng = random.Random(seed)
    options.setdefault("max_replicas", 6)
    options.setdefault("recompute", True)
    options.setdefault("mixed_micro_batches", True)
    p = random_problem(seed, largest, **options)
    nodes = [node for node in range(rng.randint(2, 3)) for _ in range(rng.randint(1, 3))]
    memory = p.cluster.devices[0].memory_bytes
    gpus = tuple(Device(f"GPU {i}", GPU, memory, node=node) for i, node in enumerate(nodes))
    cpus = tuple(d for d in p.cluster.devices if d.is_cpu)
    latency = rng.choice([0.0, 0.25])
    return replace(p, cluster=two_level_cluster(gpus + cpus, 10.0, latency, rng.choice([0.5, 2.0]), 2 * latency))


def random_draft(rng: random.Random, p: Problem) -> Draft:
    """Consecutive groups of co-located operators as stages on some of the accelerators, some of them replicated
    or sharing the devices of another."""
    from solvers.problem.groups import together

    rank = {operator: position for position, operator in enumerate(p.graph.topological_order)}
    groups = sorted(together(p.graph), key=lambda group: min(rank[operator] for operator in group))
    most = min(len(groups), len(p.cluster.accelerators))
    cuts = sorted(rng.sample(range(1, len(groups)), rng.randint(0, most - 1)))
    free = len(p.cluster.accelerators) - len(cuts) - 1
    stages: list[DraftStage] = []
    for low, high in zip([0, *cuts], [*cuts, len(groups)], strict=True):
        size = rng.choice([2, 4, 4, 4]) if p.mixed_micro_batches else 4
        extra = rng.choice([0, 0, *range(free + 1)]) if p.max_replicas > 1 else 0
        hosts = [number for number, stage in enumerate(stages) if stage.host is None]
        host = rng.choice(hosts) if hosts and rng.random() < 0.15 else None
        free -= extra if host is None else 0
        stages.append(
            DraftStage(
                tuple(operator for group in groups[low:high] for operator in group),
                size,
                1 + extra if host is None else stages[host].replicas,
                recompute=p.recompute and rng.random() < 0.3,
                host=host,
            )
        )
    return Draft(tuple(stages))
