"""Plans whose tensors are divided by chance over groups of processes."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

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
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import InvalidPlan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.problem.collectives import COLLECTIVE, Axis, is_outer
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


class Outer(NamedTuple):
    """An axis beside tensors, over so many inner groups."""

    axis: Axis
    degree: int = 2


def by_chance(model: str, degree: int, seed: int, outer: Outer | None = None) -> Workload | None:
    """What a member runs of a model whose calls are divided by chance; None where nothing can be divided. degree: over
    which tensors are, of each inner group where there is an outer axis."""
    parts, chance, again = both(model), random.Random(seed), outer is None or seed % 2 == 0
    if outer is not None:
        small, large = _divided(parts, chance, outer.degree, axis=outer.axis, again=degree)
        parts = to_divide_again(small, outer.degree), to_divide_again(large, outer.degree)
    made = _divided(parts, chance, degree, whole_weights=again)
    if not any(node.target.startswith(COLLECTIVE) for node in made[0].nodes):
        return None
    reference, members = join_example(model, tensor_parallel=degree), degree
    if outer is not None:
        reference = join_example(reference, **{f"{outer.axis.value}_parallel": outer.degree})
        members *= outer.degree
    return build(*made, reference=reference, training=True, tensor_parallel=members)


def _divided(
    parts: tuple[Captured, Captured], chance: random.Random, degree: int, **how: Any
) -> tuple[Captured, Captured]:
    """What one member runs, at both batches, but not divided along a token's choices of experts, nor along sorted rows
    a second time, which are not run."""
    small, large = parts
    choices = Choices(analyse(small), large, degree, **how)
    for name in small.values if choices.known.routes else ():
        choices.barred |= set(choices.leaves(name, 1)) if name.startswith("topk") else set()
    for name in choices.known.routes if small.outer is not None else ():
        choices.barred |= set(choices.leaves(name, 0))
    labels = dict(any_labels(choices, chance))
    if chance.random() < 0.5:  # else tokens round a ring are in one chunk a member
        across = (at for at in labels if is_outer(small.nodes[at].target))
        labels |= {at: choices.options[at][0] for at in across}
    return member_of(choices, labels, small), member_of(choices, labels, large)


def random_plan(
    model: str, degree: int, groups: int, seed: int, outer: Outer | None = None, **settings: Any
) -> tuple[Problem, Plan] | None:
    """Such a model on so many groups, each operator on one by chance, or on two that are replicas; None where nothing
    can be divided, or no placement was found that can be cut."""
    workload = by_chance(model, degree, seed, outer)
    if workload is None:
        return None
    choose = random.Random(seed)
    given = {
        "mini_batch": 8, "micro_batches": choose.choice([1, 2, 4]), "max_replicas": 2, "contiguity": Contiguity.NONE,
        "pipeline": choose.choice([Pipeline.ONE_F_ONE_B, Pipeline.GPIPE, Pipeline.ZERO_BUBBLE]),
    } | settings  # fmt: skip
    devices = workload.graph.tensor_parallel * groups
    problem = make_problem(workload, Settings(devices=devices, devices_per_node=devices, **given))
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
