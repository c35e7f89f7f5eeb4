"""Seeded random plans of every sort that the engine knows, and their schedules from `simulate`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from solvers.errors import PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster, Device, Wires, two_level_cluster, uniform_cluster
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from solvers.verify.structure import structure
from tests.instances import GPU
from tests.random_problems import random_draft, random_problem, trained_somehow, with_random_regions

SORTS = ("pipeline", "operator pass", "call pass")


@dataclass(frozen=True, eq=False)
class Case:
    """A valid plan of one of SORTS, for one transfer model."""

    sort: str
    problem: Problem
    plan: Plan


def random_case(seed: int, sort: str, transfers: Transfers) -> Case | None:
    """A case drawn from a seed; None where the draw gives no plan that runs."""
    rng = random.Random(f"{seed} {sort} {transfers}")
    problem = _problem(rng, seed, sort, transfers)
    try:
        if sort == "pipeline" and rng.random() < 0.5:
            return Case(sort, problem, realise(problem, random_draft(rng, problem)))
        micro_batches = rng.choice(problem.micro_batch_choices()) if sort == "pipeline" else 1
        return Case(sort, problem, assemble(problem, _placement(rng, problem, sort), micro_batches))
    except PlacementError:
        return None  # stages that wait for each other, too few devices, no link


@cache
def valid_cases(sort: str, transfers: Transfers, seeds: int, first: int = 0) -> tuple[Case, ...]:
    """The cases of ``seeds`` seeds that are placed as the problem allows and do not deadlock."""
    drawn = (random_case(seed, sort, transfers) for seed in range(first, first + seeds))
    return tuple(case for case in drawn if case is not None and _runs(case))


def _runs(case: Case) -> bool:
    if structure(case.problem, case.plan):
        return False
    try:
        simulate(case.problem, case.plan)
    except PlacementError:
        return False
    return True


def _problem(rng: random.Random, seed: int, sort: str, transfers: Transfers) -> Problem:
    training = rng.random() < 0.7
    problem = random_problem(
        seed,
        7,
        training=training,
        objective=Objective.ITERATION if sort == "pipeline" else Objective.MAKESPAN,
        execution=Execution.CALL if sort == "call pass" else Execution.OPERATOR,
        transfers=transfers,
        contiguity=Contiguity.NONE,
        pipeline=rng.choice([each for each in Pipeline if each is not Pipeline.K_F_K_B]),  # 1F1B's orders here
        mini_batch=rng.choice([4, 8]),
        micro_batches=None,
        memory=float("inf"),
        max_replicas=3,
        recompute=rng.random() < 0.5,
        mixed_micro_batches=rng.random() < 0.5,
    )
    problem = replace(_costs(rng, problem), cluster=_cluster(rng, problem.cluster))
    if rng.random() < 0.15:
        each = [0.25 * rng.randint(0, 8) for _ in problem.graph.tensors]
        for group in problem.graph.messages:  # what travels as one takes as long
            for tensor in group:
                each[tensor] = each[group[0]]
        problem = replace(problem, transfer_s=tuple(each))
    if rng.random() < 0.1:
        problem = replace(problem, stated_bytes=tuple(float(rng.randint(1, 9)) for _ in problem.graph.operators))
    problem = trained_somehow(problem, seed)
    return with_random_regions(problem, seed) if seed % 3 == 0 else problem


def _cluster(rng: random.Random, drawn: Cluster) -> Cluster:
    """Up to four accelerators of one or two kinds in one or two nodes, on links of their own or shared wires."""
    count = rng.randint(2, 4)
    kinds = [GPU, rng.choice([GPU, "other"])]
    nodes = rng.choice([1, 1, 2])
    gpus = [
        Device(f"GPU {i}", kinds[i % 2], node=i * nodes // count, concurrency=rng.choice([1] * 15 + [None]))
        for i in range(count)
    ]
    devices = (*gpus, *(device for device in drawn.devices if device.is_cpu))
    wires, latency = rng.choice(list(Wires)), rng.choice([0.0, 0.25])
    fast, slow = rng.choice([1.0, 2.0, 10.0]), rng.choice([0.5, 2.0])
    if nodes == 1:
        return uniform_cluster(devices, fast, latency, wires)
    return two_level_cluster(devices, fast, latency, slow, 2 * latency, wires)


def _costs(rng: random.Random, problem: Problem) -> Problem:
    """Times for all kinds; of some problems at several batch sizes."""
    takes = np.ones((len(problem.graph), 1))
    if rng.random() < 0.2:  # views and the like take no time
        takes[rng.sample(range(len(takes)), len(takes) // 2)] = 0.0
    tables = {kind: table * takes for kind, table in problem.compute.seconds.items()}
    first = tables[GPU]
    tables["other"] = first * rng.choice([1.0, 2.5])
    if "cpu" not in tables:
        tables["cpu"] = first * 3
    if rng.random() < 0.7:
        return replace(problem, compute=ComputeTable((1,), tables))
    grown = {kind: np.concatenate([table, table * 1.5, table * 5.0], axis=1) for kind, table in tables.items()}
    return replace(problem, compute=ComputeTable((1, 2, 8), grown))


def _placement(rng: random.Random, problem: Problem, sort: str) -> list[tuple[int, ...]]:
    """Devices for every operator, co-located ones together; groups of replicas in pipelines."""
    accelerators = list(problem.cluster.accelerators)
    places: list[tuple[int, ...]] = [(device,) for device in range(len(problem.cluster))]
    if sort == "pipeline" and rng.random() < 0.4:
        places += [tuple(accelerators[:2]), tuple(accelerators[-2:]), tuple(accelerators[:2])]
    chosen: list[tuple[int, ...]] = [()] * len(problem.graph)
    for group in together(problem.graph):
        place = rng.choice(places)
        for operator in group:
            chosen[operator] = place
    return chosen
