"""What a stage holds while the gradients of its parameters wait."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation import unit_bytes
from solvers.evaluation.lower import lower
from solvers.evaluation.simulation import simulate
from solvers.evaluation.tasks import F, I
from solvers.plan.plan import Plan, Stage, parse_action
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Optimizer, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.explorer.runner.scripts.random_plans import GPU, random_traced_problem
from tests.oracle.compare import disagreement


def example() -> tuple[Problem, Plan]:
    """A source on device 0; a product, an activation, a product and a loss on device 1. The example in docs/memory.md.

    Tensors have 4, 6, 6, 8 and 1 bytes a sample; the products save what they read (4 and 6), the activation 6, the
    loss 8. Two micro-batches of a sample; every operator takes 1 s, transfers none.
    """
    names, saved = ("source", "up", "gelu", "down", "loss"), (0, 4, 6, 6, 8)
    made, products = (4, 6, 6, 8, 1), (0, 1, 3)
    operators = [Operator(name, saved_bytes=Amount(per_sample=s)) for name, s in zip(names, saved, strict=True)]
    back, weight = {}, {}
    for o in reversed(range(5)):
        if o:
            back[o] = len(operators)
            operators.append(Operator(f"{names[o]}/I", phase=Phase.BACKWARD_INPUT, forward_of=o))
        if o in products:
            weight[o] = len(operators)
            operators.append(Operator(f"{names[o]}/W", phase=Phase.BACKWARD_WEIGHT, forward_of=o))
    tensors = [Tensor(o, (o + 1,), Amount(per_sample=made[o])) for o in range(4)]
    for o in range(1, 5):
        readers = tuple(part[o - 1] for part in (back, weight) if o - 1 in part)
        tensors.append(Tensor(back[o], readers, Amount(per_sample=made[o - 1])))
    graph = OpGraph(tuple(operators), tuple(tensors))
    seconds = ComputeTable((1,), {GPU: np.ones((len(operators), 1))})
    cluster = uniform_cluster((Device("GPU 0", GPU), Device("GPU 1", GPU)), 1e9, 0.0)
    problem = Problem(
        graph, cluster, seconds, pipeline=Pipeline.ZERO_BUBBLE, mini_batch=2, micro_batches=2, optimizer=Optimizer.NONE
    )
    first = tuple(o for o, operator in enumerate(graph.operators) if o == 0 or operator.forward_of == 0)
    rest = tuple(o for o in graph.topological_order if o not in first)
    order = ("0F0", "0F1", "0W0", "0W1"), ("1F0", "1I0", "1F1", "1I1", "1W0", "1W1")
    rows = tuple(tuple(parse_action(text) for text in row) for row in order)
    return problem, Plan((Stage(first, (0,), 1), Stage(rest, (1,), 1)), rows, "zero-bubble")


def test_the_example_by_hand() -> None:
    """Of each micro-batch 4 + 6 + 6 wait for W, 8 of the loss for I; I leaves the gradients of up (6) and down (8)."""
    problem, plan = example()
    lowered = lower(problem, plan, Objective.ITERATION)
    sizes = unit_bytes.unit_bytes(problem, plan, lowered.units)
    of = {(s, k): (sizes.saved[u], sizes.until_next[u]) for u, (s, k) in
          enumerate(zip(lowered.units.stage.tolist(), lowered.units.kind.tolist(), strict=True))}  # fmt: skip
    assert of[1, F] == (16.0, 8.0)
    assert of[1, I] == (0.0, 14.0)
    schedule = simulate(problem, plan)
    # when the second I runs: both micro-batches' 16 and 14, the 8 of its own loss, and 4 received for each
    assert schedule.peak_bytes()[1] == 2 * (16 + 14) + 8 + 2 * 4
    assert verify(problem, plan, schedule) == ()
    assert not disagreement(problem, plan, Objective.ITERATION)


def chains(count: int) -> list[tuple[Problem, Plan]]:
    """Random graphs as traces make them, cut once or twice in the order of the forward."""
    plans = []
    for seed in range(count):
        rng = random.Random(seed)
        problem, _ = random_traced_problem(rng, pipeline=Pipeline.ZERO_BUBBLE, contiguity=Contiguity.NONE)
        cuts = sorted(rng.choices(range(1, len(problem.graph)), k=2))
        place: list[tuple[int, ...]] = [()] * len(problem.graph)
        for group in together(problem.graph):
            for o in group:
                forward = problem.graph.operators[group[0]].forward_of
                at = group[0] if forward is None else forward
                place[o] = (sum(at >= cut for cut in cuts) % 2,)
        try:
            plans.append((problem, assemble(problem, place, 2)))
        except InvalidPlan:
            continue
    return plans


def noticed(cases: list[tuple[Problem, Plan]]) -> list[bool]:
    """Whether both verify and the oracle tell each of them otherwise."""
    return [bool(verify(*case, simulate(*case))) and bool(disagreement(*case, Objective.ITERATION)) for case in cases]


def holding(cases: list[tuple[Problem, Plan]], kind: int) -> list[tuple[Problem, Plan]]:
    selected = []
    for case in cases:
        units = lower(*case, Objective.ITERATION).units
        if unit_bytes.unit_bytes(*case, units).until_next[units.kind == kind].any():
            selected.append(case)
    return selected


def test_three_implementations_agree_on_random_graphs() -> None:
    cases = chains(150)
    for case in cases:
        assert verify(*case, simulate(*case)) == ()
        assert not disagreement(*case, Objective.ITERATION)
    assert min(len(holding(cases, kind)) for kind in (F, I)) > 20


@pytest.mark.parametrize("kind", [F, I])
def test_a_fault_in_what_is_held_between_the_parts_is_noticed(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it changes what a device holds at some time, which is wherever it is more than nothing."""
    cases = holding(chains(60), kind)
    assert len(cases) > 5
    true = unit_bytes.held_until_next

    def halved(flow, units, share, parted):  # type: ignore[no-untyped-def]
        return np.where(units.kind == kind, 0.5, 1.0) * true(flow, units, share, parted)

    monkeypatch.setattr(unit_bytes, "held_until_next", halved)
    assert all(noticed(cases))
