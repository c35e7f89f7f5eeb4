"""Plans whose tensors are divided by chance over groups of processes."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import torch
from torch import nn

from explorer.question.models.example import join_example
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.model.construct import builder
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.rules import analyse
from solvers.errors import InvalidPlan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.problem import Contiguity, Pipeline, Problem
from tests.explorer.runner.plans import placed, random_places
from tests.explorer.tracing.sharding.captures import captured
from tests.explorer.tracing.sharding.members import any_labels


@cache
def both(model: str) -> tuple[Captured, Captured]:
    """A model at two batches."""
    with torch.device("meta"):
        made = builder(model, allow_model=True)()
    module, inputs = made[:2]
    assert isinstance(module, nn.Module)
    return captured(module, tuple(inputs), model.rpartition(":")[2])  # type: ignore[arg-type]


def by_chance(model: str, degree: int, seed: int) -> Workload | None:
    """What a member runs of a model whose calls are divided by chance; None where nothing can be divided."""
    small, large = both(model)
    choices = Choices(analyse(small), large, degree, whole_weights=True)
    labels = any_labels(choices, random.Random(seed))
    parts = [member_of(choices, labels, of) for of in (small, large)]
    if not any(node.target.startswith(COLLECTIVE) for node in parts[0].nodes):
        return None
    reference = join_example(model, tensor_parallel=degree)
    return build(*parts, reference=reference, training=True, tensor_parallel=degree)


def random_plan(model: str, degree: int, groups: int, seed: int, **settings: Any) -> tuple[Problem, Plan] | None:
    """Such a model on so many groups, each operator on one by chance, or on two that are replicas; None where nothing
    can be divided, or no placement was found that can be cut."""
    workload = by_chance(model, degree, seed)
    if workload is None:
        return None
    choose = random.Random(seed)
    given = {
        "mini_batch": 8, "micro_batches": choose.choice([1, 2, 4]), "max_replicas": 2, "contiguity": Contiguity.NONE,
        "pipeline": choose.choice([Pipeline.ONE_F_ONE_B, Pipeline.GPIPE, Pipeline.ZERO_BUBBLE]),
    } | settings  # fmt: skip
    problem = make_problem(workload, Settings(devices=degree * groups, devices_per_node=degree * groups, **given))
    assert problem.micro_batches is not None
    for _ in range(50):  # those that cannot be cut are thrown again
        places = random_places(problem, groups, choose) if groups > 1 else [0] * len(problem.graph)
        forward = sum(operator.forward_of is None for operator in problem.graph.operators)
        if groups == 2 and choose.random() < 0.3:
            places = [(0, 1)] * forward
        try:
            plan = placed(problem, places[:forward], problem.micro_batches)
        except InvalidPlan:
            continue
        if len(plan.devices_used()) == groups:
            return problem, plan
    return None
