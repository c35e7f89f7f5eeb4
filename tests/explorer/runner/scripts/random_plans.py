"""Seeded random training graphs, as a trace makes them, and random plans of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.random_problems import random_draft

MINI_BATCH = 8
GPU = "gpu"
KINDS = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}


@dataclass(frozen=True)
class Traced:
    """A training graph, and which consumers send a gradient back over every tensor."""

    graph: OpGraph
    gradients: tuple[frozenset[int], ...]


def random_traced(rng: random.Random, count: int) -> Traced:
    """A layered DAG whose last operator is the loss: several outputs an operator, some without gradients; frozen
    operators, a tied parameter, sources that may be copied."""
    layer = sorted(rng.randrange(max(2, count // 2)) for _ in range(count))
    edges: list[tuple[int, tuple[int, ...], bool, float]] = []
    for u in range(count - 1):
        later = [v for v in range(u + 1, count) if layer[v] > layer[u] or v == count - 1]
        near = [v for v in later if layer[v] <= layer[u] + 2] or later
        for _ in range(rng.choice([1, 1, 1, 2])):
            readers = rng.sample(near, min(len(near), rng.choice([1, 1, 2, 3])))
            if rng.random() < 0.15:
                readers.append(rng.choice(later))
            edges.append((u, tuple(sorted(set(readers))), rng.random() < 0.85, float(rng.randint(1, 4))))
    read = {v for _, readers, _, _ in edges for v in readers}
    sources = {u for u in range(count - 1) if u not in read and rng.random() < 0.4}
    weights = {u for u in range(count) if u not in sources and rng.random() < 0.6}
    differs = _carrying(edges, weights, count)
    with_gradient = [
        frozenset(v for v in readers if v in differs) if carries and u in differs else frozenset()
        for u, readers, carries, _ in edges
    ]
    tied = rng.sample(sorted(weights), 2) if len(weights) > 2 and rng.random() < 0.2 else []
    graph = _mirrored(rng, count, edges, with_gradient, weights, sources, tied, differs)
    gradients = tuple(with_gradient) + (frozenset(),) * (len(graph.tensors) - len(edges))
    return Traced(graph, gradients)


def _carrying(edges: list[tuple[int, tuple[int, ...], bool, float]], weights: set[int], count: int) -> set[int]:
    """Operators that gradients pass through on their way from the loss to a parameter."""
    requires = set(weights)
    for u, readers, carries, _ in sorted(edges):
        if carries and u in requires:
            requires.update(readers)
    reached = {count - 1} & requires
    for u, readers, carries, _ in sorted(edges, reverse=True):
        if carries and u in requires and not reached.isdisjoint(readers):
            reached.add(u)
    return reached


def _mirrored(
    rng: random.Random,
    count: int,
    edges: list[tuple[int, tuple[int, ...], bool, float]],
    with_gradient: list[frozenset[int]],
    weights: set[int],
    sources: set[int],
    tied: list[int],
    differs: set[int],
) -> OpGraph:
    """As `explorer.tracing.backward` mirrors a forward graph."""
    owner = {u: (min(tied) if u in tied else u) for u in weights}
    operators = [
        Operator(
            f"o{u}",
            param_bytes=(params := float(rng.randint(1, 9)) if owner.get(u) == u else 0.0),
            frozen_bytes=float(u % 2) * (params // 2),
            saved_bytes=Amount(0.0, 1.0),
            colocation="tied" if u in tied else None,
            replicable=u in sources,
        )
        for u in range(count)
    ]
    receives = {v for senders in with_gradient for v in senders}
    inputs, parameters, updates = {}, {}, {}
    for u in reversed(range(count)):
        if u in differs and u in receives:
            inputs[u] = len(operators)
            operators.append(
                Operator(f"o{u}.I", phase=Phase.BACKWARD_INPUT, forward_of=u, colocation=operators[u].colocation)
            )
        if u in differs and u in weights:
            parameters[u] = len(operators)
            operators.append(
                Operator(f"o{u}.W", phase=Phase.BACKWARD_WEIGHT, forward_of=u, colocation=operators[u].colocation)
            )
    for u in sorted({owner[u] for u in parameters}):
        updates[u] = len(operators)
        operators.append(Operator(f"o{u}.U", phase=Phase.UPDATE, forward_of=u, colocation=operators[u].colocation))
    tensors = [
        Tensor(u, readers, Amount(0.0, size), (2,), "float32" if carries else "int64")
        for u, readers, carries, size in edges
    ]
    backward = {u: tuple(part[u] for part in (inputs, parameters) if u in part) for u in differs}
    tensors += [Tensor(u, backward[u]) for u in sorted(backward) if backward[u]]
    for number, (u, _, _, size) in enumerate(edges):
        senders = [v for v in sorted(with_gradient[number]) if v in inputs]
        if backward.get(u) and senders:
            group = number if len(senders) > 1 else None
            tensors += [
                Tensor(inputs[v], backward[u], Amount(0.0, size), (2,), "float32", sum_group=group) for v in senders
            ]
    for u in sorted(parameters):
        tensors.append(Tensor(parameters[u], (updates[owner[u]],), Amount(fixed=4.0)))
        if u in inputs:
            tensors.append(Tensor(inputs[u], (updates[owner[u]],)))
    return OpGraph(tuple(operators), tuple(tensors))


def random_traced_problem(rng: random.Random, **options: object) -> tuple[Problem, Traced]:
    """On 2 to 4 devices, all joined by links, with distinct times."""
    traced = random_traced(rng, rng.randint(4, 14))
    gpus = tuple(Device(f"GPU {i}", GPU) for i in range(rng.randint(2, 4)))
    seconds = np.array([[rng.uniform(0.5, 4.0)] for _ in traced.graph.operators])
    cluster = uniform_cluster(gpus, rng.choice([1.0, 4.0, 50.0]), rng.choice([0.0, 0.1]))
    options.setdefault("contiguity", Contiguity.NONE)
    options.setdefault("mini_batch", MINI_BATCH)
    options.setdefault("micro_batches", None)
    return Problem(traced.graph, cluster, ComputeTable((1,), {GPU: seconds}), **options), traced  # type: ignore[arg-type]


def random_plan(seed: int) -> tuple[Problem, Plan, Traced] | None:
    """A plan that the simulator runs, of one of four sorts in turn: a placement that may be torn, with replicas;
    a pipeline with micro-batches of several sizes; stages that copy sources; single operators. None if what was
    drawn cannot be run."""
    rng = random.Random(seed)
    sort = seed % 4
    try:
        if sort == 3:
            problem, traced = random_traced_problem(rng, objective=Objective.MAKESPAN, micro_batches=1)
            plan = of_operators(rng, problem)
        elif sort == 1:
            problem, traced = random_traced_problem(
                rng, max_replicas=4, mixed_micro_batches=True, recompute=True, pipeline=_pipeline(rng)
            )
            plan = realise(problem, random_draft(rng, problem))
        else:
            problem, traced = random_traced_problem(rng, max_replicas=4, pipeline=_pipeline(rng))
            plan = assemble(problem, _placement(rng, problem), rng.choice([1, 2, 4]))
            plan = _copied(rng, problem, plan) if sort == 2 else plan
        if any(stage.micro_batch_size % len(stage.devices) for stage in plan.stages):
            return None
        simulate(problem, plan)
    except InvalidPlan:
        return None
    return problem, plan, traced


def _pipeline(rng: random.Random) -> Pipeline:
    return rng.choice([Pipeline.GPIPE, Pipeline.ONE_F_ONE_B, Pipeline.ZERO_BUBBLE, Pipeline.INTERLEAVED])


def _placement(rng: random.Random, problem: Problem) -> list[tuple[int, ...]]:
    """A few places, some of two devices, for groups of operators that are neighbours more often than not."""
    devices = range(len(problem.cluster))
    places = [(d,) for d in devices] + [tuple(rng.sample(devices, 2))] * rng.choice([0, 0, 1, 2])
    placement: list[tuple[int, ...]] = [()] * len(problem.graph)
    place = rng.choice(places)
    for group in together(problem.graph):
        if rng.random() < 0.4:
            place = rng.choice(places)
        for operator in group:
            placement[operator] = place
    return placement


def _copied(rng: random.Random, problem: Problem, plan: Plan) -> Plan:
    """With copies of sources in other stages that read them."""
    stages = list(plan.stages)
    for o, operator in enumerate(problem.graph.operators):
        if not operator.replicable:
            continue
        readers = set(problem.graph.successors[o])
        for index, stage in enumerate(stages):
            if o not in stage.operators and not readers.isdisjoint(stage.operators) and rng.random() < 0.6:
                stages[index] = replace(stage, operators=(o, *stage.operators))
    return replace(plan, stages=tuple(stages))


def of_operators(rng: random.Random, problem: Problem) -> Plan:
    """A stage for every forward operator with its mirrors, in a random order that all devices can follow."""
    graph = problem.graph
    device = rng.randrange(len(problem.cluster))
    place = {}
    for group in together(graph):
        if rng.random() < 0.4:
            device = rng.randrange(len(problem.cluster))
        place.update(dict.fromkeys(group, device))
    home = {o: o if operator.forward_of is None else operator.forward_of for o, operator in enumerate(graph.operators)}
    members: dict[int, list[int]] = {}
    for o in graph.topological_order:
        members.setdefault(home[o], []).append(o)
    number = {u: i for i, u in enumerate(members)}
    waiting = [len(before) for before in graph.predecessors]
    ready = [o for o in range(len(graph)) if not waiting[o]]
    order: list[list[Action]] = [[] for _ in problem.cluster.devices]
    wild = rng.random() < 0.5
    while ready:
        o = ready.pop(rng.randrange(len(ready)) if wild and rng.random() < 0.3 else ready.index(min(ready)))
        order[place[o]].append(Action(number[home[o]], KINDS[graph.operators[o].phase]))
        for v in graph.successors[o]:
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    stages = tuple(Stage(tuple(m), (place[u],), problem.mini_batch) for u, m in members.items())
    return Plan(stages, tuple(map(tuple, order)))
