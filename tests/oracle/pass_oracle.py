"""Every plan of tiny passes of single operators: all placements of groups, all orders, judged as any plan is."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from solvers.evaluation.evaluate import judge
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.graph import Amount, OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Optimizer, Problem, Transfers
from tests.random_problems import colour_class_graph, random_graph

KIND = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}


def pass_problem(seed: int, largest: int = 5) -> Problem:
    """Unlike devices, shared and missing links, every transfer model, caps, pins, stated times and sizes, each in
    some of the problems."""
    rng = random.Random(seed)
    graph = _graph(rng, largest)
    kinds = rng.choice(
        [["a", "a"], ["a", "a"], ["a", "a", "a"], ["a", "b"], ["a", "a", "cpu"], ["a", "b", "cpu"], ["a"]]
    )
    memory = rng.choice([math.inf, math.inf, 60.0, 30.0, 15.0])
    devices = tuple(
        Device(f"{kind} {i}", kind, math.inf if kind == "cpu" else memory * rng.choice([1, 1, 2]))
        for i, kind in enumerate(kinds)
    )
    seconds = np.array([float(rng.randint(0 if rng.random() < 0.2 else 1, 9)) for _ in range(len(graph))])
    table = {"a": seconds[:, None]}
    for kind in sorted(set(kinds) - {"a"}):  # sorted: the same problem from a seed in every process
        times = seconds * [rng.choice([0.5, 1.0, 2.0, 5.0]) for _ in seconds]
        times[[rng.random() < 0.1 for _ in seconds]] = math.inf
        table[kind] = times[:, None]
    if "b" in kinds or "cpu" in kinds:
        table["a"][[rng.random() < 0.05 for _ in seconds]] = math.inf
    operators, tensors = range(len(graph)), range(len(graph.tensors))
    stated = [float(rng.randint(0, 6)) for _ in operators] if rng.random() < 0.2 else None
    return Problem(
        graph,
        Cluster(devices, _links(rng, len(devices))),
        ComputeTable((1,), table),
        Objective.MAKESPAN,
        Contiguity.NONE,
        rng.choice([Transfers.LINKS, *Transfers]),
        Execution.OPERATOR,
        transfer_s=None if rng.random() < 0.8 or _sums(graph) else tuple(float(rng.randint(0, 4)) for _ in tensors),
        stated_bytes=None if stated is None else tuple(stated),
        mini_batch=rng.choice([1, 2]),
        training=graph.trains,
        optimizer=rng.choice([Optimizer.NONE, Optimizer.ADAM]),
        pins={rng.choice(operators): rng.randrange(len(devices))} if rng.random() < 0.2 else {},
    )


def _graph(rng: random.Random, largest: int) -> OpGraph:
    shape = rng.random()
    if shape < 0.5:
        graph = random_graph(rng, rng.randint(2, largest), training=False)
    elif shape < 0.85:
        graph = random_graph(rng, rng.randint(1, largest // 2), training=True)
    else:
        graph = colour_class_graph(rng, rng.randint(2, largest // 2))
    factor = rng.choice([1, 1, 3])
    tensors = tuple(replace(t, nbytes=Amount(0.0, t.nbytes.per_sample * factor)) for t in graph.tensors)
    return replace(graph, tensors=tensors)


def _sums(graph: OpGraph) -> bool:
    return any(t.sum_group is not None for t in graph.tensors)


def _links(rng: random.Random, count: int) -> tuple[Link, ...]:
    shared, missing = rng.random() < 0.4, rng.random() < 0.1
    speeds = rng.choice([[1.0], [0.5], [4.0], [0.5, 4.0]])
    latency = rng.choice([0.0, 0.25])
    return tuple(
        Link(a, b, rng.choice(speeds), latency, "root" if shared else "")
        for a in range(count)
        for b in range(count)
        if a != b and not (missing and rng.random() < 0.3)
    )


def placements(p: Problem) -> Iterator[dict[int, int]]:
    """Every device of every group, as a device per operator."""
    groups = together(p.graph)
    for devices in itertools.product(range(len(p.cluster)), repeat=len(groups)):
        yield {operator: d for group, d in zip(groups, devices, strict=True) for operator in group}


def orders(graph: OpGraph, most: int, rng: random.Random) -> list[tuple[int, ...]]:
    """All orders of the operators that keep to the tensors, mirrors after their forward operator; a random
    ``most`` of them where there are more than ten times as many."""
    before = [set(sources) for sources in graph.predecessors]
    for position, operator in enumerate(graph.operators):
        if operator.forward_of is not None:
            before[position].add(operator.forward_of)
    orderings: list[tuple[int, ...]] = []

    def extend(done: list[int]) -> None:
        if len(done) == len(before):
            orderings.append(tuple(done))
        for operator in range(len(before)):
            if len(orderings) <= 10 * most and operator not in done and before[operator] <= set(done):
                extend([*done, operator])

    extend([])
    return orderings if len(orderings) <= most else rng.sample(orderings, most)


def plan_of(p: Problem, device_of: dict[int, int], order: Sequence[int]) -> Plan:
    """The plan in which every device runs its operators in this order."""
    operators = p.graph.operators
    members: dict[int, list[int]] = {}
    for operator in order:
        forward = operators[operator].forward_of
        members.setdefault(operator if forward is None else forward, []).append(operator)
    number = {home: stage for stage, home in enumerate(members)}
    size = p.mini_batch
    stages = tuple(Stage(tuple(m), (device_of[home],), size) for home, m in members.items())
    actions: list[dict[Action, None]] = [{} for _ in p.cluster.devices]
    for operator in order:
        forward = operators[operator].forward_of
        home = operator if forward is None else forward
        actions[device_of[operator]][Action(number[home], KIND[operators[operator].phase])] = None
    return Plan(stages, tuple(map(tuple, actions)))


def best_makespan_s(p: Problem, most: int = 60) -> float:
    """The least makespan of all plans that `judge` accepts (of a sample where there are very many orders)."""
    rng = random.Random(len(p.graph))
    best = math.inf
    ways = orders(p.graph, most, rng)
    for device_of in placements(p):
        tried = set()
        for order in ways:
            on = tuple(tuple(o for o in order if device_of[o] == d) for d in range(len(p.cluster)))
            if on in tried:
                continue
            tried.add(on)
            plan = plan_of(p, device_of, order)
            judged = judge(p, plan)
            if judged.violation.startswith(("operator", "stage")):
                break  # the placement breaks a rule
            if judged.feasible:
                best = min(best, judged.objective_s)
    return best
