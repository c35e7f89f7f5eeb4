"""What training holds of every parameter, computed by hand for each optimizer and precision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash, graph_json
from solvers.formats.plan_json import read_plan, write_plan
from solvers.problem.graph import Operator, OpGraph
from solvers.problem.problem import Optimizer, Precision, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import problem, training_graph

PARAMETERS = 100.0
"""Of 2 bytes each; in a matrix of 10 by 10, whose sums by row and by column are 20 numbers."""
MATRIX = {"param_bytes": 2 * PARAMETERS, "factorable_bytes": 2 * (100.0 - 20.0)}


def one_matrix(**options: object) -> Problem:
    graph = training_graph([], 1)
    graph = OpGraph((replace(graph.operators[0], **MATRIX), *graph.operators[1:]), graph.tensors)
    return problem(graph, [2, 2], 2, **options)


BYTES_A_PARAMETER = {
    # weight + gradient + master + states
    (Optimizer.NONE, Precision.PURE): 2,
    (Optimizer.SGD, Precision.PURE): 2 + 2,
    (Optimizer.MOMENTUM, Precision.PURE): 2 + 2 + 2,
    (Optimizer.ADAM, Precision.PURE): 2 + 2 + 2 * 2,
    (Optimizer.ADAMW, Precision.PURE): 2 + 2 + 2 * 2,
    (Optimizer.ADAFACTOR, Precision.PURE): 2 + 2 + 2 * 0.2,
    (Optimizer.NONE, Precision.MIXED): 2,
    (Optimizer.SGD, Precision.MIXED): 2 + 2 + 4,
    (Optimizer.MOMENTUM, Precision.MIXED): 2 + 2 + 4 + 4,
    (Optimizer.ADAM, Precision.MIXED): 16,
    (Optimizer.ADAMW, Precision.MIXED): 16,
    (Optimizer.ADAFACTOR, Precision.MIXED): 2 + 2 + 4 + 4 * 0.2,
    (Optimizer.NONE, Precision.MIXED_FP32_GRADIENTS): 2,
    (Optimizer.SGD, Precision.MIXED_FP32_GRADIENTS): 2 + 4 + 4,
    (Optimizer.MOMENTUM, Precision.MIXED_FP32_GRADIENTS): 2 + 4 + 4 + 4,
    (Optimizer.ADAM, Precision.MIXED_FP32_GRADIENTS): 18,
    (Optimizer.ADAMW, Precision.MIXED_FP32_GRADIENTS): 18,
    (Optimizer.ADAFACTOR, Precision.MIXED_FP32_GRADIENTS): 2 + 4 + 4 + 4 * 0.2,
}


@pytest.mark.parametrize(("how", "expected"), BYTES_A_PARAMETER.items())
def test_bytes_of_a_parameter(how: tuple[Optimizer, Precision], expected: float) -> None:
    p = one_matrix(optimizer=how[0], precision=how[1])
    plan = assemble(p, [(0,), (0,)], 1)
    assert p.static_bytes().tolist() == [pytest.approx(expected * PARAMETERS), 0]
    assert evaluate(p, plan).static_bytes[0] == pytest.approx(expected * PARAMETERS)
    assert verify(p, plan, simulate(p, plan)) == ()


def test_every_optimizer_and_precision_is_counted() -> None:
    assert set(BYTES_A_PARAMETER) == {(o, p) for o in Optimizer for p in Precision}


def test_inference_holds_weights_alone() -> None:
    p = one_matrix(training=False, precision=Precision.MIXED)
    assert p.static_bytes().tolist() == [2 * PARAMETERS, 0]


@pytest.mark.parametrize(("precision", "seconds"), [(Precision.PURE, 200), (Precision.MIXED, 200),
                                                    (Precision.MIXED_FP32_GRADIENTS, 400)])  # fmt: skip
def test_replicas_add_up_gradients_as_wide_as_they_are(precision: Precision, seconds: float) -> None:
    """2 replicas with 1 sample each: F 0-2, B 2-4, then 2(r-1)/r = 1 time the gradients at 1 byte a second."""
    p = one_matrix(precision=precision, mini_batch=2, max_replicas=2)
    plan = assemble(p, [(0, 1), (0, 1)], 1)
    assert simulate(p, plan).makespan_s == 4 + seconds
    assert evaluate(p, plan).load_s == (2 + seconds / 2,) * 2
    assert verify(p, plan, simulate(p, plan)) == ()


def test_a_plan_file_keeps_the_precision_and_one_of_before_means_what_it_meant() -> None:
    p = one_matrix(precision=Precision.MIXED)
    plan = assemble(p, [(0,), (0,)], 1)
    assert read_plan(write_plan(p, plan)).problem.precision is Precision.MIXED
    before = write_plan(replace(p, precision=Precision.PURE), plan)
    assert '"precision"' not in before
    assert read_plan(before).problem.precision is Precision.PURE


def test_what_can_be_factored_is_written_and_leaves_the_graph_the_same_one() -> None:
    graph = one_matrix().graph
    plain = OpGraph((replace(graph.operators[0], factorable_bytes=0.0), *graph.operators[1:]), graph.tensors)
    assert graph_hash(graph) == graph_hash(plain)
    assert graph_json(graph)["operators"][0]["factorable_bytes"] == 160  # type: ignore[index]
    assert "factorable_bytes" not in graph_json(plain)["operators"][0]  # type: ignore[index]


@pytest.mark.parametrize("factorable", [-1.0, 3.5, float("nan")])
def test_no_more_can_be_factored_than_is_trained(factorable: float) -> None:
    with pytest.raises(InvalidProblem, match="factorable_bytes"):
        OpGraph((Operator("a", param_bytes=9.0, frozen_bytes=6.0, factorable_bytes=factorable),), ())
