"""What a new gradient and an update need while they are made, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import MemoryModel, Settings
from solvers.errors import InvalidProblem
from solvers.evaluation.memory_parts import hosted_states_bytes, memory_parts
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.problem.gradient_room import PIECE_BYTES, states_on_hosts, with_gradient_room
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Objective, Optimizer, Precision, Problem
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import GPU, problem

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


def trained(micro_batches: int | None = 2, **options: object) -> Problem:
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
def test_room_follows_the_settings(options: dict[str, object], expected: dict[str, float]) -> None:
    assert room(trained(**options)) == expected  # type: ignore[arg-type]


def test_a_peak_counted_by_hand() -> None:
    """28 bytes of parameters four times (Adam). Two micro-batches of 2 samples, one in flight: 16 saved by each, and
    20 while b's gradient is added. The update needs 40 with nothing saved, which is more."""
    p = with_gradient_room(trained())
    plan = assemble(p, [(0,)] * len(GRAPH), 2)
    assert simulate(p, plan).peak_bytes() == (4 * 28 + 40,)
    assert verify(p, plan, simulate(p, plan)) == ()
    sgd = with_gradient_room(trained(optimizer=Optimizer.SGD))
    assert simulate(sgd, plan).peak_bytes() == (2 * 28 + 16 + 20,)
    assert verify(sgd, plan, simulate(sgd, plan)) == ()


def hosted(size: float, bytes_per_s: float, **options: object) -> Problem:
    """Two operators of one and two times so many bytes, whose updates take 1 s each."""
    operators = [replace(o, param_bytes=size * (i + 1)) if i < 2 else o for i, o in enumerate(GRAPH.operators)]
    graph, seconds = replace(GRAPH, operators=tuple(operators)), [0.25] * len(GRAPH)  # a sample
    p = problem(graph, seconds, 1, mini_batch=4, micro_batches=2, **options)  # type: ignore[arg-type]
    return with_gradient_room(states_on_hosts(p, {GPU: bytes_per_s}))


def test_states_on_hosts_counted_by_hand() -> None:
    """Small parameters: what comes, 2 x 8 and 2 x 16 bytes at 4 bytes a second, takes 4 and 8 s, and as long back, with
    an update of 1 s between. Held are parameters and gradients, 2 x 24; an update of the larger has three pieces of 32
    bytes and Adam's own 32."""
    p = hosted(8.0, 4.0)
    assert p.compute.at(GPU, 4).tolist() == [1.0] * 5 + [17.0, 9.0]
    plan = assemble(p, [(0,)] * len(GRAPH), 2)
    simulation = simulate(p, plan)
    assert simulation.makespan_s == 5 + 17 + 9
    assert simulation.peak_bytes() == (2 * 24 + 3 * 32 + 32,)
    assert hosted_states_bytes(p, plan) == (2 * 24,)
    assert verify(p, plan, simulation) == ()
    assert memory_parts(p, plan, simulation.peak_bytes())[0].keys() == {
        "parameters", "gradients", "activations, workspace and buffers"
    }  # fmt: skip


@pytest.mark.parametrize(("precision", "times"), [(Precision.PURE, 2), (Precision.MIXED, 6)])
def test_large_states_come_in_pieces(precision: Precision, times: int) -> None:
    """10 and 20 pieces of Adam's two states, or of a master, 2 of 16 bits wide, and states, 4: 9 and 19 come after the
    first, while 1 s is computed, and the last goes; three are there, and of parameters a piece's worth is updated."""
    size = 10 * PIECE_BYTES / times
    p = hosted(size, 5 * PIECE_BYTES, precision=precision)
    assert p.compute.at(GPU, 4)[5:] == pytest.approx([0.2 + 3.8 + 0.2, 0.2 + 1.8 + 0.2])
    fast = hosted(size, 1000 * PIECE_BYTES, precision=precision)
    assert fast.compute.at(GPU, 4)[5:] == pytest.approx([1.002, 1.002])
    wide = 2 if precision is Precision.PURE else 4
    assert p.graph.operators[5].workspace_bytes.fixed == pytest.approx((3 + wide / times) * PIECE_BYTES)
    plan = assemble(p, [(0,)] * len(GRAPH), 2)
    assert verify(p, plan, simulate(p, plan)) == ()
    stays = replace(p, state_links={})
    assert simulate(stays, plan).peak_bytes()[0] - simulate(p, plan).peak_bytes()[0] == pytest.approx(3 * size * times)
    assert verify(stays, plan, simulate(p, plan))


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": Optimizer.SGD}, {"optimizer": Optimizer.NONE}, {"optimizer": Optimizer.ADAFACTOR},
        {"training": False}, {"stated_bytes": (1.0,) * 7}, {"zero": 1},
    ],
)  # fmt: skip
def test_states_that_cannot_be_on_hosts_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidProblem, match="--offload-optimizer"):
        states_on_hosts(trained(**options), {GPU: 1.0})  # type: ignore[arg-type]


UNROLLED = OpGraph(
    (
        Operator("step", param_bytes=WEIGHT + 2.0, saved_bytes=Amount(0.0, 3.0), colocation="cell"),
        Operator("step#2", saved_bytes=Amount(0.0, 3.0), colocation="cell"),
        Operator("step#3", saved_bytes=Amount(0.0, 3.0), colocation="cell"),
        Operator("head", param_bytes=BIG, saved_bytes=Amount(0.0, 5.0)),
        Operator("head/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=3),
        Operator("step#3/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=2),
        Operator("step#2/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=1),
        Operator("step/weight", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
        Operator("head/update", phase=Phase.UPDATE, forward_of=3),
        Operator("step/update", phase=Phase.UPDATE, forward_of=0),
    ),
    (
        Tensor(0, (1, 7)), Tensor(1, (2, 6)), Tensor(2, (3, 5)), Tensor(3, (4,)),
        Tensor(4, (5,)), Tensor(5, (6,)), Tensor(6, (7,)),
        Tensor(4, (8,), Amount(BIG)),
        *(Tensor(o, (9,), Amount(WEIGHT + 2.0 if o == 7 else 1.0)) for o in (5, 6, 7)),
    ),
)  # fmt: skip
"""A cell of three steps, and a head. All read the weight; a bias of 2 and what later steps do not read is the first
step's alone: of what the three make, all but the largest is 2."""


def unrolled(micro_batches: int | None = 2, **options: object) -> Problem:
    return problem(UNROLLED, [1.0] * len(UNROLLED), 1, mini_batch=4, micro_batches=micro_batches, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"step": 2.0}),
        ({"micro_batches": None}, {"step": 2.0}),
        ({"precision": Precision.MIXED}, {"step": 2.0}),
        ({"optimizer": Optimizer.SGD}, {"step": 2.0}),
        ({"zero": 1}, {"step": 2.0}),
        ({"micro_batches": 1}, {}),
        ({"zero": 2, "micro_batches": 1}, {"step": 2.0}),
        ({"objective": Objective.MAKESPAN}, {}),
        ({"optimizer": Optimizer.NONE}, {}),
        ({"training": False}, {}),
        ({"stated_bytes": (1.0,) * 10}, {}),
    ],
)
def test_gradients_of_what_several_operators_read_are_summed_apart(
    options: dict[str, object], expected: dict[str, float]
) -> None:
    p = with_gradient_room(unrolled(**options))  # type: ignore[arg-type]
    assert {o.name: o.gradient_sum_bytes for o in p.graph.operators if o.gradient_sum_bytes} == expected
    assert with_gradient_room(p).graph.operators[0] == p.graph.operators[0]
    assert graph_hash(p.graph) == graph_hash(UNROLLED)


def test_no_more_is_summed_apart_than_is_trained() -> None:
    """Three steps that read all of the weight make three gradients of it: the sum is one."""
    tensors = tuple(replace(t, nbytes=Amount(WEIGHT)) if t.consumers == (9,) else t for t in UNROLLED.tensors)
    all_read = OpGraph((replace(UNROLLED.operators[0], param_bytes=WEIGHT), *UNROLLED.operators[1:]), tensors)
    p = with_gradient_room(problem(all_read, [1.0] * len(all_read), 1, mini_batch=4, micro_batches=2))
    assert p.graph.operators[0].gradient_sum_bytes == WEIGHT


@pytest.mark.parametrize(("zero", "gradients"), [(0, 30.0), (1, 30.0), (2, 15.0)])
def test_a_peak_with_a_sum_apart_counted_by_hand(zero: int, gradients: float) -> None:
    """30 bytes of parameters, with SGD twice, on 2 replicas that take a sample each of micro-batches of 2: 14 saved,
    20 while the head's gradient is added, and 2 of the sum, which both hold whole whatever they share."""
    p = replace(unrolled(optimizer=Optimizer.SGD, zero=zero), cluster=problem(UNROLLED, [1.0] * 10, 2).cluster)
    p = with_gradient_room(replace(p, max_replicas=2))
    plan = assemble(p, [(0, 1)] * len(UNROLLED), 2)
    schedule = simulate(p, plan)
    assert schedule.peak_bytes() == (30 + gradients + 2 + 14 + 20,) * 2
    assert verify(p, plan, schedule) == ()
    assert memory_parts(p, plan, schedule.peak_bytes())[0]["gradients"] == gradients + 2


def test_a_schedule_without_the_sum_is_refused() -> None:
    p = with_gradient_room(unrolled(optimizer=Optimizer.SGD))
    spoiled = replace(p, graph=OpGraph(
        tuple(replace(o, gradient_sum_bytes=0.0) for o in p.graph.operators), p.graph.tensors
    ))  # fmt: skip
    plan = assemble(p, [(0,)] * len(UNROLLED), 2)
    assert verify(p, plan, simulate(p, plan)) == ()
    assert verify(p, plan, simulate(spoiled, plan)) == ("device 0: 60.0 bytes are held throughout, expected 62.0",)


def test_what_is_not_room_stays_and_the_graph_is_the_same_by_name() -> None:
    p = trained()
    graph = with_gradient_room(p).graph
    changed = {o.name for o, was in zip(graph.operators, GRAPH.operators, strict=True) if o != was}
    assert changed == {*GRADIENTS, *ROOTS}
    assert graph.tensors == GRAPH.tensors
    assert graph_hash(graph) == graph_hash(GRAPH)
    other = replace(GRAPH.operators[2], workspace_bytes=Amount(0.0, 2.0))
    assert graph_hash(OpGraph((*GRAPH.operators[:2], other, *GRAPH.operators[3:]), GRAPH.tensors)) != graph_hash(GRAPH)


def test_questions_about_one_model_share_one_graph() -> None:
    """All that is derived from a graph is derived once."""
    p = trained()
    assert with_gradient_room(p).graph is with_gradient_room(replace(p, mini_batch=8)).graph
    assert with_gradient_room(p).graph is not with_gradient_room(replace(p, optimizer=Optimizer.SGD)).graph
    assert with_gradient_room(replace(p, optimizer=Optimizer.SGD, micro_batches=1)).graph is GRAPH


def test_a_question_has_it_but_where_sizes_are_static() -> None:
    workload = Workload(GRAPH, "two")
    settings = Settings(devices=1, mini_batch=4, micro_batches=2)
    assert room(make_problem(workload, settings)) != {}
    assert make_problem(workload, settings).graph == with_gradient_room(trained()).graph
    static = make_problem(workload, replace(settings, memory_model=MemoryModel.STATIC))
    assert static.graph == GRAPH
