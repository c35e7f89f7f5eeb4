"""Seeded random problems, small enough to enumerate."""

from __future__ import annotations

import random

from solvers.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem import Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from tests.instances import problem


def random_edges(rng: random.Random, count: int) -> list[tuple[int, int]]:
    density = rng.choice([0.2, 0.4, 0.7])
    return [(i, j) for i in range(count) for j in range(i + 1, count) if rng.random() < density]


def random_graph(rng: random.Random, count: int, training: bool) -> OpGraph:
    """``count`` forward operators, some with parameters; in training both backwards and an update."""
    edges = random_edges(rng, count)
    owns = [rng.random() < 0.5 for _ in range(count)]
    operators = [
        Operator(
            f"o{i}",
            param_bytes=float(rng.randint(1, 9)) if owns[i] else 0.0,
            saved_bytes=Amount(0.0, float(rng.randint(0, 5))),
            workspace_bytes=Amount(0.0, float(rng.randint(0, 2))),
            colocation=rng.choice(["x", None, None, None, None]),
        )
        for i in range(count)
    ]
    size = [float(rng.randint(0, 4)) for _ in range(count)]
    readers = {i: tuple(j for a, j in edges if a == i) for i in range(count)}
    tensors = [Tensor(i, js, Amount(0.0, size[i])) for i, js in readers.items() if js]
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


def random_placement(rng: random.Random, p: Problem) -> list[tuple[int, ...]]:
    """A device for every operator, co-located ones together."""
    from solvers.bounds import together

    placement: list[tuple[int, ...]] = [()] * len(p.graph)
    for group in together(p.graph):
        device = rng.randrange(len(p.cluster))
        for operator in group:
            placement[operator] = (device,)
    return placement
