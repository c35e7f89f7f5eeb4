"""Which stages are joined, and which gradients of parameters become part of a whole backward."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.runner.scripts.channels import gradients_of
from explorer.runner.scripts.segments import Layout, lay_out
from solvers.errors import RunError
from solvers.plan.plan import Plan, Stage, parse_action
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Execution, Objective, Problem
from tests.instances import problem, training_graph

CHAIN = [(0, 1), (1, 2), (2, 3)]


def apart_graph(edges: list[tuple[int, int]], count: int, without_inputs: str = "") -> OpGraph:
    """`training_graph` with gradients of parameters, a.W, and an update, a.U, of every operator; those named have
    no gradient of inputs."""
    fused = training_graph(edges, count, nbytes=1.0, param_bytes=1.0)
    operators = list(fused.operators)
    tensors = list(fused.tensors)
    for o in range(count):
        weight = len(operators)
        name = operators[o].name
        operators.append(Operator(f"{name}.W", phase=Phase.BACKWARD_WEIGHT, forward_of=o))
        operators.append(Operator(f"{name}.U", phase=Phase.UPDATE, forward_of=o))
        tensors = [replace(t, consumers=(*t.consumers, weight)) if count + o in t.consumers else t for t in tensors]
        tensors.append(Tensor(weight, (weight + 1,)))
    gone = {count + o for o in range(count) if operators[o].name in without_inputs}
    remaining = [o for o in range(len(operators)) if o not in gone]
    number = {o: i for i, o in enumerate(remaining)}
    return OpGraph(
        tuple(operators[o] for o in remaining),
        tuple(
            replace(t, producer=number[t.producer], consumers=tuple(number[c] for c in t.consumers if c not in gone))
            for t in tensors
            if t.producer not in gone
        ),
    )


def layout(graph: OpGraph, places: str, order: list[str], **options: object) -> Layout:
    """places: the device of every forward operator, which is a stage of its own with its mirrors."""
    options.setdefault("objective", Objective.MAKESPAN)
    gpus = 1 + max(map(int, places))
    p = problem(graph, [1.0] * len(graph), gpus, bandwidth=10.0, mini_batch=2, **options)
    stages = tuple(Stage(mirrored(graph, (o,)), (int(device),), 2) for o, device in enumerate(places))
    plan = Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in order))
    return lay_out(p, plan, gradients_of(graph))


def mirrored(graph: OpGraph, forward: tuple[int, ...]) -> tuple[int, ...]:
    return (*forward, *(o for o, operator in enumerate(graph.operators) if operator.forward_of in forward))


def joined(made: Layout) -> list[tuple[int, ...]]:
    return [segment.stages for segment in made.segments]


def steps(made: Layout) -> list[str]:
    return [" ".join(map(str, row)) for row in made.order]


def test_operators_of_one_device_become_one_segment() -> None:
    made = layout(training_graph(CHAIN, 4, nbytes=1.0), "0000", ["0F0 1F0 2F0 3F0 3I0 2I0 1I0 0I0"])
    assert joined(made) == [(0, 1, 2, 3)]
    assert steps(made) == ["0F0 0B0"]
    assert made.segments[0].operators == (0, 1, 2, 3)


def test_a_segment_ends_after_an_operator_whose_output_crosses() -> None:
    graph = training_graph([(0, 1), (0, 2), (1, 2)], 3, nbytes=1.0)
    made = layout(graph, "001", ["0F0 1F0 1I0 0I0", "2F0 2I0"])
    assert joined(made) == [(0,), (1,), (2,)]


def test_a_segment_begins_with_an_operator_that_reads_what_crosses() -> None:
    graph = training_graph([(0, 2), (1, 2)], 3, nbytes=1.0)
    made = layout(graph, "100", ["1F0 2F0 2I0 1I0", "0F0 0I0"])
    assert joined(made) == [(0,), (1,), (2,)]


def test_operators_with_another_backward_between_are_not_joined() -> None:
    graph = training_graph([(3, 2)], 4, nbytes=1.0)
    order = ["0F0 1F0 2F0 1I0 2I0 0I0", "3F0 3I0"]
    assert joined(layout(graph, "0001", order)) == [(0,), (1,), (2,), (3,)]
    assert joined(layout(graph, "0001", ["0F0 1F0 2F0 1I0 0I0 2I0", "3F0 3I0"])) == [(0, 1), (2,), (3,)]


def test_a_gradient_that_crosses_keeps_apart_what_need_not_wait_for_it() -> None:
    """c reads b on another device; in the backward a comes before b, and so before the gradient from c."""
    graph = training_graph([(1, 2)], 3, nbytes=1.0)
    assert joined(layout(graph, "001", ["0F0 1F0 1I0 0I0", "2F0 2I0"])) == [(0, 1), (2,)]
    assert joined(layout(graph, "001", ["0F0 1F0 0I0 1I0", "2F0 2I0"])) == [(0,), (1,), (2,)]


def test_a_gradient_for_another_device_is_sent_as_soon_as_it_is_made() -> None:
    """b reads a of another device; c is independent of both."""
    graph = training_graph([(0, 1)], 3, nbytes=1.0)
    assert joined(layout(graph, "100", ["1F0 2F0 2I0 1I0", "0F0 0I0"])) == [(0,), (1, 2)]
    assert joined(layout(graph, "100", ["1F0 2F0 1I0 2I0", "0F0 0I0"])) == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("1I0 1W0 1U 0I0 0W0 0U", "0B0 0U"),
        ("1I0 0I0 1W0 0W0 1U 0U", "0B0 0U"),
        ("1W0 1I0 0W0 0I0 1U 0U", "0B0 0U"),
    ],
)
def test_gradients_of_parameters_are_made_with_those_of_inputs_where_nothing_comes_between(
    order: str, expected: str
) -> None:
    made = layout(apart_graph([(0, 1)], 2), "00", ["0F0 1F0 " + order])
    assert steps(made) == ["0F0 " + expected]


@pytest.mark.parametrize(
    ("backward", "segments", "expected"),
    [
        ("2I0 2W0 1I0 0I0 1W0 0W0", [(0, 1), (2,), (3,)], "0F0 1F0 1B0 0B0 0U 1U"),
        ("1I0 0I0 2I0 2W0 1W0 0W0", [(0, 1), (2,), (3,)], "0F0 1F0 0I0 1B0 0W0 0U 1U"),
        ("1I0 0I0 2I0 1W0 2W0 0W0", [(0,), (1,), (2,), (3,)], "0F0 1F0 2F0 1I0 0I0 2I0 1W0 2W0 0W0 0U 1U 2U"),
        ("1I0 2I0 2W0 0I0 1W0 0W0", [(0,), (1,), (2,), (3,)], "0F0 1F0 2F0 1I0 2B0 0I0 1W0 0W0 0U 1U 2U"),
        ("1W0 2I0 2W0 1I0 0I0 0W0", [(0,), (1,), (2,), (3,)], "0F0 1F0 2F0 1I0 2B0 1W0 0B0 0U 1U 2U"),
    ],
)
def test_operators_are_joined_where_both_parts_of_their_backwards_follow_one_another(
    backward: str, segments: list[tuple[int, ...]], expected: str
) -> None:
    """a -> b, and c, which reads d of the other device, after them."""
    graph = apart_graph([(0, 1), (3, 2)], 4)
    made = layout(graph, "0001", [f"0F0 1F0 2F0 {backward} 0U 1U 2U", "3F0 3I0 3W0 3U"])
    assert joined(made) == segments
    assert steps(made)[0] == expected


def test_the_one_update_of_joined_operators_is_where_their_last_one_was() -> None:
    graph = apart_graph([(0, 1), (3, 2)], 4)
    made = layout(graph, "0001", ["0F0 1F0 2F0 1I0 1W0 0I0 0W0 1U 2I0 2W0 2U 0U", "3F0 3I0 3W0 3U"])
    assert steps(made)[0] == "0F0 1F0 0B0 1B0 1U 0U"


def test_an_operator_without_gradients_of_inputs_keeps_apart_what_need_not_wait_for_its_own() -> None:
    """b, which only has parameters, is read on the other device; a can make its gradients before that comes back."""
    graph = apart_graph([(1, 2)], 3, without_inputs="b")
    assert joined(layout(graph, "001", ["0F0 1F0 1W0 0I0 0W0 0U 1U", "2F0 2I0 2W0 2U"])) == [(0, 1), (2,)]
    assert joined(layout(graph, "001", ["0F0 1F0 0I0 0W0 1W0 0U 1U", "2F0 2I0 2W0 2U"])) == [(0,), (1,), (2,)]


def test_gradients_of_parameters_alone_are_a_whole_backward() -> None:
    graph = apart_graph([(0, 1)], 2, without_inputs="a")
    made = layout(graph, "01", ["0F0 0W0 0U", "1F0 1I0 1W0 1U"])
    assert steps(made) == ["0F0 0B0 0U", "1F0 1B0 1U"]


def pipeline(order: list[str], *, recompute: bool = False) -> list[str]:
    """a, b on device 0 and c, d on device 1, two micro-batches of a sample."""
    graph = apart_graph(CHAIN, 4)
    p = problem(graph, [1.0] * len(graph), 2, mini_batch=2, micro_batches=2, recompute=recompute)
    stages = tuple(Stage(mirrored(graph, pair), (d,), 1, 2, recompute) for d, pair in enumerate([(0, 1), (2, 3)]))
    made = lay_out(p, Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in order)), ())
    assert joined(made) == [(0,), (1,)]
    return steps(made)


ZERO_BUBBLE = ["0F0 0F1 0I0 0I1 0W0 0W1 0U", "1F0 1I0 1F1 1I1 1W0 1W1 1U"]


def test_in_a_pipeline_segments_are_stages_and_late_gradients_of_parameters_stay_late() -> None:
    assert pipeline(ZERO_BUBBLE) == ZERO_BUBBLE
    assert pipeline(["0F0 0F1 0I0 0W0 0I1 0W1 0U", "1F0 1F1 1I0 1W0 1I1 1W1 1U"]) == [
        "0F0 0F1 0B0 0B1 0U",
        "1F0 1F1 1B0 1B1 1U",
    ]


def test_a_stage_that_recomputes_makes_all_gradients_at_once() -> None:
    assert pipeline(ZERO_BUBBLE, recompute=True) == ["0F0 0F1 0B0 0B1 0U", "1F0 1B0 1F1 1B1 1U"]


def test_a_stage_of_several_operators_in_a_single_pass_is_cut_where_tensors_cross() -> None:
    """a and c are one stage, b between them is on the other device."""
    graph = training_graph([(0, 1), (1, 2)], 3, nbytes=1.0)
    p = problem(graph, [1.0] * 6, 2, mini_batch=2, objective=Objective.MAKESPAN)
    stages = (Stage(mirrored(graph, (0, 2)), (0,), 2), Stage(mirrored(graph, (1,)), (1,), 2))
    order = ["0F0 0B0", "1F0 1B0"]
    made = lay_out(p, Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in order)), gradients_of(graph))
    assert [(s.operators, s.stages) for s in made.segments] == [((0,), (0,)), ((2,), (0,)), ((1,), (1,))]


def test_calls_stay_whole_and_cpus_run_what_is_ready() -> None:
    graph = training_graph(CHAIN, 4, nbytes=1.0)
    devices = (Device("GPU", "gpu"), Device("CPU", "cpu"))
    table = problem(graph, [1.0] * 8, 1, cpus=1).compute
    assert isinstance(table, ComputeTable)
    p = Problem(
        graph,
        uniform_cluster(devices, 10.0),
        table,
        objective=Objective.MAKESPAN,
        execution=Execution.CALL,
    )
    stages = (Stage(mirrored(graph, (1, 2)), (0,)), Stage(mirrored(graph, (0, 3)), (1,)))
    plan = Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in ["0F0 0B0", "1F0 1B0"]))
    made = lay_out(p, plan, gradients_of(graph))
    assert [(s.operators, s.stages) for s in made.segments] == [((1, 2), (0,)), ((0,), (1,)), ((3,), (1,))]
    assert made.unordered == frozenset({1})


def test_a_stage_without_forward_operators_is_refused() -> None:
    graph = training_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(graph, [1.0] * 4, 2)
    stages = (Stage((0, 1, 3), (0,)), Stage((2,), (1,)))
    plan = Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in ["0F0 0B0", "1B0"]))
    with pytest.raises(RunError, match="stage 1 holds no forward operator"):
        lay_out(p, plan, ())


def test_a_backward_away_from_its_forward_is_refused() -> None:
    graph = training_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(graph, [1.0] * 4, 2)
    stages = (Stage((0, 3), (0,)), Stage((1, 2), (1,)))
    plan = Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in ["0F0 0B0", "1F0 1B0"]))
    with pytest.raises(RunError, match='"b\'" is there without its forward operator'):
        lay_out(p, plan, ())


def test_replicas_that_cannot_share_a_micro_batch_are_refused() -> None:
    graph = training_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(graph, [1.0] * 4, 2, mini_batch=3)
    plan = Plan((Stage((0, 1, 2, 3), (0, 1), 3),), tuple((parse_action("0F0"), parse_action("0B0")) for _ in range(2)))
    with pytest.raises(RunError, match="2 replicas cannot share a micro-batch of 3"):
        lay_out(p, plan, ())
