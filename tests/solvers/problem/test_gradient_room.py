"""What a new gradient and an update need while they are made, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import MemoryModel, Settings
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.problem.gradient_room import with_gradient_room
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Objective, Optimizer, Precision, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import problem

WEIGHT, BIG = 8.0, 20.0
FORWARD, LARGER = 0, 1
GRAPH = OpGraph(
    (
        Operator("a", param_bytes=WEIGHT, saved_bytes=Amount(0.0, 3.0)),
        Operator("b", param_bytes=BIG, saved_bytes=Amount(0.0, 5.0)),
        Operator("b/in", phase=Phase.BACKWARD_INPUT, forward_of=1, workspace_bytes=Amount(0.0, 1.0)),
        Operator("b/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=1),
        Operator("a/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
        Operator("b/update", phase=Phase.UPDATE, forward_of=1),
        Operator("a/update", phase=Phase.UPDATE, forward_of=0),
    ),
    (
        Tensor(0, (1,), Amount(0.0, 2.0), (1,), "bfloat16"),
        Tensor(1, (2, 3)),
        Tensor(0, (4,)),
        Tensor(2, (4,), Amount(0.0, 2.0)),
        Tensor(3, (5,), Amount(BIG)),
        Tensor(4, (6,), Amount(WEIGHT)),
    ),
)


def asked(micro_batches: int | None = 2, **options: object) -> Problem:
    return problem(GRAPH, [1.0] * len(GRAPH), 1, mini_batch=4, micro_batches=micro_batches, **options)


def room(p: Problem) -> dict[str, float]:
    return {o.name: o.workspace_bytes.fixed for o in with_gradient_room(p).graph.operators if o.workspace_bytes.fixed}


GRADIENTS = {"b/weight": BIG, "a/weight": WEIGHT}
ROOTS = {"b/update": 2 * BIG, "a/update": 2 * WEIGHT}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, GRADIENTS | ROOTS),
        ({"micro_batches": None}, GRADIENTS | ROOTS),  # a planner may take several
        ({"micro_batches": 1}, ROOTS),
        ({"objective": Objective.MAKESPAN}, ROOTS),
        ({"optimizer": Optimizer.ADAMW}, GRADIENTS | ROOTS),
        ({"optimizer": Optimizer.SGD}, GRADIENTS),
        ({"optimizer": Optimizer.MOMENTUM}, GRADIENTS),
        ({"optimizer": Optimizer.ADAFACTOR}, GRADIENTS | {"b/update": BIG, "a/update": WEIGHT}),
        ({"optimizer": Optimizer.NONE}, {}),
        ({"training": False}, {}),
        ({"stated_bytes": (1.0,) * 7}, {}),
        ({"precision": Precision.MIXED}, GRADIENTS | {"b/update": 4 * BIG, "a/update": 4 * WEIGHT}),
        ({"zero": 1, "micro_batches": 1}, {}),
        ({"zero": 2, "micro_batches": 1}, GRADIENTS),
    ],
)
def test_room_follows_what_is_asked_for(options: dict[str, object], expected: dict[str, float]) -> None:
    assert room(asked(**options)) == expected  # type: ignore[arg-type]


def test_a_peak_counted_by_hand() -> None:
    """28 bytes of parameters four times (Adam). Two micro-batches of 2 samples, one in flight: 16 saved by each, and
    20 while b's gradient is added. The update needs 40 with nothing saved, which is more."""
    p = with_gradient_room(asked())
    plan = assemble(p, [(0,)] * len(GRAPH), 2)
    assert simulate(p, plan).peak_bytes() == (4 * 28 + 40,)
    assert verify(p, plan, simulate(p, plan)) == ()
    sgd = with_gradient_room(asked(optimizer=Optimizer.SGD))
    assert simulate(sgd, plan).peak_bytes() == (2 * 28 + 16 + 20,)
    assert verify(sgd, plan, simulate(sgd, plan)) == ()


def test_what_is_not_room_stays_and_the_graph_is_the_same_by_name() -> None:
    p = asked()
    found = with_gradient_room(p).graph
    changed = {o.name for o, was in zip(found.operators, GRAPH.operators, strict=True) if o != was}
    assert changed == {*GRADIENTS, *ROOTS}
    assert found.tensors == GRAPH.tensors
    assert graph_hash(found) == graph_hash(GRAPH)
    other = replace(GRAPH.operators[2], workspace_bytes=Amount(0.0, 2.0))
    assert graph_hash(OpGraph((*GRAPH.operators[:2], other, *GRAPH.operators[3:]), GRAPH.tensors)) != graph_hash(GRAPH)


def test_questions_about_one_model_share_one_graph() -> None:
    """All that is derived from a graph is derived once."""
    p = asked()
    assert with_gradient_room(p).graph is with_gradient_room(replace(p, mini_batch=8)).graph
    assert with_gradient_room(p).graph is not with_gradient_room(replace(p, optimizer=Optimizer.SGD)).graph
    assert with_gradient_room(replace(p, optimizer=Optimizer.SGD, micro_batches=1)).graph is GRAPH


def test_a_question_has_it_but_where_sizes_are_static() -> None:
    workload = Workload(GRAPH, "two")
    settings = Settings(devices=1, mini_batch=4, micro_batches=2)
    assert room(make_problem(workload, settings)) != {}
    assert make_problem(workload, settings).graph == with_gradient_room(asked()).graph
    static = make_problem(workload, replace(settings, memory_model=MemoryModel.STATIC))
    assert static.graph == GRAPH
