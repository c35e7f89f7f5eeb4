"""Any placement that can be cut into stages runs: no order deadlocks."""

from __future__ import annotations

import random

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Action
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Contiguity, Execution, Objective, Pipeline
from solvers.schedules.assemble import assemble
from tests.instances import problem, training_graph
from tests.random_problems import colour_class_graph, random_placement


def coloured(names: str, edges: list[tuple[int, int]], groups: dict[str, str]) -> OpGraph:
    """Forward operators and mirrored backward ones that only a co-location group ties to them."""
    forward = [Operator(n, colocation=groups.get(n, n)) for n in names]
    backward = [Operator(f"{n}'", phase=Phase.BACKWARD_INPUT, colocation=groups.get(n, n)) for n in names]
    count = len(names)
    tensors = [Tensor(u, (v,), Amount(0, 1)) for u, v in edges]
    tensors += [Tensor(count + v, (count + u,), Amount(0, 1)) for u, v in edges]
    return OpGraph(tuple(forward + backward), tuple(tensors))


@pytest.mark.parametrize("pipeline", [Pipeline.GPIPE, Pipeline.ONE_F_ONE_B])
def test_co_located_operators_far_apart_get_their_backward_in_the_right_stage(pipeline):
    """a -> b -> c with a and c tied together on device 0 and b on 1: c' must run before b', a' after."""
    g = coloured("abc", [(0, 1), (1, 2)], {"a": "x", "c": "x"})
    p = problem(g, [1] * 6, 2, contiguity=Contiguity.NONE, mini_batch=4, micro_batches=4, pipeline=pipeline)
    plan = assemble(p, [(0,), (1,), (0,)] * 2, 4)
    assert [stage.operators for stage in plan.stages] == [(0, 3), (1, 4), (2, 5)]
    evaluate(p, plan)


def test_stages_whose_backward_flows_round_are_refused():
    """a -> b forward; a' -> b' and b' -> c' with a', c' on device 0: no single stage can hold both."""
    forward = [Operator(n) for n in "ab"]
    backward = [Operator(f"{n}'", phase=Phase.BACKWARD_INPUT, forward_of=i) for i, n in ((0, "a"), (1, "b"), (0, "c"))]
    g = OpGraph((*forward, *backward), (Tensor(0, (1,)), Tensor(2, (3,)), Tensor(3, (4,))))
    p = problem(g, [1] * 5, 2, contiguity=Contiguity.NONE)
    with pytest.raises(InvalidPlan, match="wait for each other's backward tensors"):
        assemble(p, [(0,), (1,), (0,), (1,), (0,)], 1)


@pytest.mark.parametrize("seed", range(100))
def test_every_assembled_plan_runs_under_every_objective(seed):
    rng = random.Random(seed)
    g = colour_class_graph(rng, rng.randint(2, 6))
    p = problem(
        g, [rng.randint(0, 4) for _ in g.operators], rng.randint(2, 3), contiguity=Contiguity.NONE,
        pipeline=rng.choice(list(Pipeline)), execution=rng.choice(list(Execution)), mini_batch=4, micro_batches=4,
        objective=rng.choice(list(Objective)),
    )  # fmt: skip
    for _ in range(3):
        try:
            plan = assemble(p, random_placement(rng, p), 4)
        except InvalidPlan:
            continue
        evaluate(p, plan)


def test_the_order_of_a_placement_with_many_stages_needs_few_looks(monkeypatch):
    """60 operators dealt out to 2 devices: an action is looked at when something it waits for has ended."""
    looks = 0

    class Counting(Action):
        def __hash__(self):
            nonlocal looks
            looks += 1
            return super().__hash__()

    monkeypatch.setattr("solvers.schedules.ordering.orders.Action", Counting)
    count, micro_batches = 60, 16
    g = training_graph([(i, i + 1) for i in range(count - 1)], count)
    p = problem(
        g, [1] * 2 * count, 2, contiguity=Contiguity.NONE, mini_batch=micro_batches, micro_batches=micro_batches
    )
    assemble(p, [(i % 2,) for i in range(count)] * 2, micro_batches)
    assert looks < 20 * 2 * count * micro_batches
