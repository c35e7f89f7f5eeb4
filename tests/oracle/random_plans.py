"""Seeded random plans of every sort that the evaluation models: transfer models, executions, pipelines, replicas,
recomputation, gradients in parts, several kinds of devices, CPUs, shared wires, nodes, stated times and sizes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from solvers.errors import InvalidPlan, InvalidProblem
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.explorer.runner.scripts.random_plans import random_plan as random_traced_plan
from tests.random_problems import (
    random_draft,
    random_placement,
    random_problem,
    random_two_level_problem,
    trained_somehow,
    with_random_regions,
)

PIPELINES = (Pipeline.GPIPE, Pipeline.ONE_F_ONE_B, Pipeline.INTERLEAVED, Pipeline.ZERO_BUBBLE)


def random_plan(seed: int) -> tuple[Problem, Plan] | None:
    """A plan and its problem, None where what was drawn cannot be put together."""
    rng = random.Random(seed)
    try:
        case = (_of_draft, _of_placement, _of_placement, _traced)[seed % 4](rng, seed)
    except (InvalidPlan, InvalidProblem):
        return None
    if case is None:
        return None
    problem, plan = case
    problem = trained_somehow(_other_costs(rng, problem), seed)
    return with_random_regions(problem, seed) if seed % 3 == 1 else problem, plan


def _of_draft(rng: random.Random, seed: int) -> tuple[Problem, Plan]:
    """Stages with replicas, recomputation, hosts and micro-batches of several sizes, on nodes."""
    options = {"objective": rng.choice([Objective.ITERATION, Objective.MAKESPAN]), "memory": float("inf")}
    problem = random_two_level_problem(seed, 7, pipeline=rng.choice(PIPELINES), contiguity=Contiguity.NONE, **options)
    problem = replace(problem, micro_batches=None)
    return problem, realise(problem, random_draft(rng, problem))


def _of_placement(rng: random.Random, seed: int) -> tuple[Problem, Plan]:
    """Any placement, some of it replicated, under every execution and objective."""
    problem = random_problem(
        seed, 7, pipeline=rng.choice(PIPELINES), contiguity=Contiguity.NONE, memory=float("inf"), micro_batches=None
    )
    problem = replace(problem, max_replicas=3)
    placement = random_placement(rng, problem)
    gpus = problem.cluster.accelerators
    if len(gpus) > 1 and rng.random() < 0.4:
        group = tuple(rng.sample(gpus, rng.randint(2, len(gpus))))
        one = rng.choice(sorted(set(placement)))
        placement = [group if place == one else place for place in placement]
    return problem, assemble(problem, placement, rng.choice(problem.micro_batch_choices()))


def _traced(rng: random.Random, seed: int) -> tuple[Problem, Plan] | None:
    """Graphs as a trace makes them: several outputs, copies of sources, tied parameters, single operators."""
    case = random_traced_plan(seed // 4)
    if case is None:
        return None
    problem, plan, _ = case
    return replace(problem, transfers=rng.choice(list(Transfers))), plan


def _other_costs(rng: random.Random, problem: Problem) -> Problem:
    """The same question with costs stated in another way."""
    if rng.random() < 0.2 and all(len(group) == 1 for group in problem.graph.messages):
        problem = replace(problem, transfer_s=tuple(float(rng.randint(0, 3)) for _ in problem.graph.tensors))
    elif rng.random() < 0.2:
        problem = replace(problem, cluster=_one_wire(problem.cluster))
    if rng.random() < 0.15:
        problem = replace(problem, stated_bytes=tuple(float(rng.randint(0, 5)) for _ in problem.graph.operators))
    if rng.random() < 0.3:
        problem = replace(problem, compute=_with_points(rng, problem))
    if rng.random() < 0.15:
        problem = _another_kind(problem)
    if rng.random() < 0.1:
        problem = replace(problem, training=False)
    return problem


def _one_wire(cluster: Cluster) -> Cluster:
    links = tuple(replace(link, resource="bus" if link.src % 2 else link.resource) for link in cluster.links)
    return Cluster(cluster.devices, links)


def _with_points(rng: random.Random, problem: Problem) -> ComputeTable:
    """Times that do not grow in proportion to the samples."""
    points = (1, 2, 4, 8)
    growth = np.array([1.0, 1.5, 2.5, 4.5]) * rng.choice([1.0, 0.3])
    one = {kind: table[:, :1] for kind, table in problem.compute.seconds.items()}
    return ComputeTable(points, {kind: table * growth for kind, table in one.items()})


def _another_kind(problem: Problem) -> Problem:
    """The last accelerator is of a kind of its own, half as fast."""
    last = problem.cluster.accelerators[-1]
    devices = tuple(replace(d, kind="slow") if i == last else d for i, d in enumerate(problem.cluster.devices))
    kind = problem.cluster.devices[last].kind
    seconds = {**problem.compute.seconds, "slow": problem.compute.seconds[kind] * 2}
    cluster = Cluster(devices, problem.cluster.links)
    return replace(problem, cluster=cluster, compute=ComputeTable(problem.compute.samples, seconds))
