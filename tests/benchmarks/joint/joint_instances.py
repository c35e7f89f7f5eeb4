"""Passes of single operators small enough to be proved optimal: drawn from seeds, nothing stored.

Times, sizes and links are of the order of those of a V100: operators of 0.1 to 3 ms, tensors of 1 to 50 MB.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.joint.passes.model import pass_model
from solvers.problem.cluster import Device, Wires, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Optimizer, Problem
from solvers.problem.static_sizes import static_sizes

Edges = list[tuple[int, int]]

GPU = "gpu"
LINKS = {"NVLink": (50e9, Wires.DEDICATED), "PCIe": (12e9, Wires.SHARED)}
"""Bytes per second, and what carries them: a link of its own for every ordered pair, or one wire for all."""
LATENCY_S = 10e-6
ROOM = 1.2
"""Memory of every device under a cap, in equal shares of everything."""


SETTINGS = ((2, "NVLink", False), (2, "PCIe", True), (4, "NVLink", True), (4, "PCIe", False))
"""Devices, links, and whether memory is capped."""


@dataclass(frozen=True)
class Instance:
    """What `make` draws a problem from. size: forward operators, about. capped: whether no single device has room
    for everything."""

    family: str
    size: int
    training: bool
    devices: int
    links: str
    capped: bool
    seed: int

    def __str__(self) -> str:
        mode = "training" if self.training else "inference"
        cap = ", capped" if self.capped else ""
        return f"{self.family} {self.size} {mode}, {self.devices} x {self.links}{cap}, seed {self.seed}"


def layered(rng: random.Random, size: int) -> Edges:
    """Layers of one to four operators, each reading one to three of the layer before, some skipping one."""
    layers: list[list[int]] = []
    edges: Edges = []
    count = 0
    while count < size:
        width = min(rng.randint(1, 4), size - count)
        layers.append(list(range(count, count + width)))
        count += width
        for v in layers[-1]:
            before = layers[-2] if len(layers) > 1 else []
            edges += [(u, v) for u in sorted(rng.sample(before, min(len(before), rng.randint(1, 3))))]
            if len(layers) > 2 and rng.random() < 0.2:
                edges.append((rng.choice(layers[-3]), v))
    return edges


def series_parallel(rng: random.Random, size: int) -> Edges:
    """Edges replaced by two in series or beside each other, until there are enough operators."""
    edges: Edges = [(0, 1)]
    count = 2
    while count < size:
        u, v = rng.choice(edges)
        edges.append((u, count))
        edges.append((count, v))
        if rng.random() < 0.5:
            edges.remove((u, v))
        count += 1
    return sorted(set(edges))


def fork_join(rng: random.Random, size: int) -> Edges:
    """Blocks of two to four chains between a fork and a join, one after the other."""
    edges: Edges = []
    last, count = 0, 1
    while count < size:
        ends = []
        for _ in range(rng.randint(2, 4)):
            at = last
            for _ in range(rng.randint(1, 2)):
                edges.append((at, count))
                at, count = count, count + 1
            ends.append(at)
        edges += [(end, count) for end in ends]
        last, count = count, count + 1
    return edges


def unrolled(rng: random.Random, size: int) -> Edges:
    """Cells of a recurrent network of two or three layers, step by step: each reads the one below and before."""
    layers = rng.randint(2, 3)
    steps = max(2, size // layers)
    edges: Edges = []
    for step in range(steps):
        for layer in range(layers):
            cell = step * layers + layer
            if layer + 1 < layers:
                edges.append((cell, cell + 1))
            if step + 1 < steps:
                edges.append((cell, cell + layers))
    return edges


FAMILIES: dict[str, Callable[[random.Random, int], Edges]] = {
    "layered": layered,
    "series-parallel": series_parallel,
    "fork-join": fork_join,
    "unrolled": unrolled,
}


def make(instance: Instance) -> Problem:
    """The problem of an instance: one step of a batch in training (SGD), or one pass in inference."""
    rng = random.Random(instance.seed)
    edges = FAMILIES[instance.family](rng, instance.size)
    count = max(v for _, v in edges) + 1
    forward_s = [1e-4 * math.exp(rng.uniform(0.0, math.log(30.0))) for _ in range(count)]
    nbytes = [1e6 * math.exp(rng.uniform(0.0, math.log(50.0))) for _ in range(count)]
    owned = [rng.uniform(1e6, 50e6) if rng.random() < 0.5 else 0.0 for _ in range(count)]
    operators = [
        Operator(f"o{i}", param_bytes=owned[i], saved_bytes=Amount(nbytes[i] if instance.training else 0.0))
        for i in range(count)
    ]
    seconds = list(forward_s)
    tensors = [
        Tensor(u, tuple(v for a, v in edges if a == u), Amount(nbytes[u])) for u in sorted({u for u, _ in edges})
    ]
    if instance.training:
        _train(edges, operators, seconds, tensors, nbytes, owned)
    bandwidth, wires = LINKS[instance.links]
    devices = tuple(Device(f"GPU {d}", GPU) for d in range(instance.devices))
    problem = Problem(
        OpGraph(tuple(operators), tuple(tensors)),
        uniform_cluster(devices, bandwidth, LATENCY_S, wires),
        ComputeTable((1,), {GPU: np.array(seconds)[:, None]}),
        Objective.MAKESPAN,
        Contiguity.NONE,
        execution=Execution.OPERATOR,
        training=instance.training,
        optimizer=Optimizer.SGD,
    )
    return _capped(problem) if instance.capped else problem


def _train(
    edges: Edges,
    operators: list[Operator],
    seconds: list[float],
    tensors: list[Tensor],
    nbytes: list[float],
    owned: list[float],
) -> None:
    """Add gradients of inputs and of parameters, each as long as the forward operator, and updates.

    Updates run at 200 GB/s, about a quarter of a V100's memory.
    """
    count = len(operators)
    weight: dict[int, int] = {}
    for i in range(count):
        operators.append(Operator(f"o{i}.I", phase=Phase.BACKWARD_INPUT, forward_of=i))
        seconds.append(seconds[i])
    for i in range(count):
        if owned[i]:
            weight[i] = len(operators)
            operators.append(Operator(f"o{i}.W", phase=Phase.BACKWARD_WEIGHT, forward_of=i))
            operators.append(Operator(f"o{i}.U", phase=Phase.UPDATE, forward_of=i))
            seconds += [seconds[i], owned[i] / 200e9]
            tensors.append(Tensor(weight[i], (weight[i] + 1,), Amount(owned[i])))
    for i in range(count):
        readers = (count + i, weight[i]) if i in weight else (count + i,)
        after = [v for u, v in edges if u == i]
        tensors += [Tensor(count + v, readers, Amount(nbytes[i]), sum_group=i) for v in after]
        tensors.append(Tensor(i, readers))


def _capped(problem: Problem) -> Problem:
    """With static sizes and little more than an equal share of memory for each device, but what must be together
    has room."""
    stated = replace(problem, stated_bytes=static_sizes(problem))
    held = pass_model(stated).static_bytes
    memory = ROOM * max(float(held.sum()) / len(problem.cluster), float(held.max()))
    devices = tuple(replace(device, memory_bytes=memory) for device in problem.cluster.devices)
    return replace(stated, cluster=replace(problem.cluster, devices=devices))


def instances() -> tuple[Instance, ...]:
    """What the benchmark asks: every family in training on two and four devices, over both links, and capped;
    some in inference; each size with a seed of its own."""
    listed = []
    for number, family in enumerate(FAMILIES):
        for k, size in enumerate((8, 12, 16, 20)):
            for j, (devices, links, capped) in enumerate(SETTINGS):
                seed = 100 * number + 10 * k + j
                listed.append(Instance(family, size, True, devices, links, capped, seed))
        for k, size in enumerate((20, 30)):
            listed.append(Instance(family, size, False, 2 + 2 * k, "NVLink", False, 100 * number + 90 + k))
    return tuple(listed)
