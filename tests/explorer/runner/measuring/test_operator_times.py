"""Times of operators: every moment belongs to one of them, and watching changes no result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
import torch
from torch import Tensor, fx, nn

from explorer.question.loading import load
from explorer.runner.measuring.attribution import OUTSIDE, attribute, divide, settle
from explorer.runner.measuring.instrument import CpuClock, Ownership, mark_costs, marked, marked_backward, walk
from explorer.runner.measuring.operator_times import (
    IN_FLIGHT,
    Subject,
    measure,
    step_overhead,
    update_times,
    whole,
)
from explorer.runner.measuring.place import probe, variation
from explorer.runner.model.program import trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import hold
from solvers.problem.graph import Phase

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ticking() -> CpuClock:
    """Every look at this clock takes a second, and nothing else any time."""
    seconds = count()
    return CpuClock(lambda: float(next(seconds)))


def test_time_belongs_to_the_mark_before_it() -> None:
    marks = [(0, 10.0), (1, 11.0), (0, 14.0)]
    assert attribute(marks, 16.0, 3) == [3.0, 3.0, 0.0]
    assert attribute(marks, 16.0, 3, mark_s=0.5) == [2.0, 2.5, 0.0]
    assert attribute(marks, 16.0, 3, mark_s=1.5) == [0.5, 1.5, 0.0]


def test_what_belongs_to_nobody_is_shared_out_and_nothing_is_lost() -> None:
    marks = [(OUTSIDE, 0.0), (0, 3.0), (1, 4.0), (1, 6.0)]
    assert attribute(marks, 7.0, 2) == [2.0, 5.0]
    assert attribute([(OUTSIDE, 0.0)], 7.0, 2) == [0.0, 0.0]


def test_the_lower_quartile_of_each_operator_counts() -> None:
    rows = [[1.0, 40.0], [2.0, 30.0], [3.0, 20.0], [4.0, 10.0], [100.0, 50.0]]
    assert settle(rows) == ([2.0, 20.0], [0.5, 0.5])
    assert settle([[3.0], [5.0]]) == ([3.5], [pytest.approx(4 / 3.5 - 1)])
    assert settle([[0.0]]) == ([0.0], [0.0])


def test_a_total_is_divided_as_the_times_alone_are() -> None:
    assert divide(10.0, (1.0, 3.0), (1.0, 1.0)) == [2.5, 7.5]
    assert divide(10.0, (0.0, 0.0), (4.0, 1.0)) == [8.0, 2.0]
    assert divide(10.0, (0.0, 0.0), (0.0, 0.0)) == [5.0, 5.0]


def small() -> tuple[fx.GraphModule, dict[str, int], Tensor]:
    """Two linear layers with a ReLU between: three operators."""
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    owner = {node.name: i for i, node in enumerate(n for n in module.graph.nodes if n.op == "call_module")}
    return module, owner, torch.ones(3, 4)


def test_the_marks_of_a_forward_are_its_operators_in_order() -> None:
    module, owner, given = small()
    clock = ticking()
    watched = marked(module, owner, clock)
    clock.start()
    assert torch.equal(watched(given), module(given))
    assert clock.stop() == ([(0, 0.0), (1, 1.0), (2, 2.0)], 3.0)


def test_calls_of_one_operator_and_those_of_none_need_no_mark() -> None:
    module, owner, given = small()
    clock = ticking()
    watched = marked(module, {name: 7 for name, i in owner.items() if i != 1}, clock)
    clock.start()
    watched(given)
    assert clock.stop() == ([(7, 0.0)], 1.0)


def test_a_node_of_the_backward_belongs_to_the_call_that_made_it() -> None:
    module, owner, given = small()
    looker = Ownership(module, owner)
    output = looker.run(given)
    assert [looker.made_by[node] for node in walk([output]) if "Accumulate" not in node.name()] == [2, 1, 0, 0, 2]
    operators = [looker.made_by[node] for node in walk([output])]
    clock = ticking()
    again = module(given)
    marks, _ = marked_backward([again], [torch.ones_like(again)], operators, clock)
    assert marks[0][0] == OUTSIDE
    first = {operator: at for at, (operator, _) in reversed(list(enumerate(marks)))}
    assert first[2] < first[1] < first[0]
    assert len(marks) == 1 + len(operators)


def test_a_backward_of_another_shape_is_not_taken_for_the_one_looked_at() -> None:
    module, _, given = small()
    output = module(given)
    with pytest.raises(ValueError, match="nodes"):
        marked_backward([output], [torch.ones_like(output)], [0], ticking())


def test_marks_take_what_they_take() -> None:
    forward, backward = mark_costs(CPU, ticking(), repeats=1, length=10)
    assert forward == pytest.approx(1.0)
    assert backward == pytest.approx(1.1)  # 11 nodes, one of them that of the start, in a chain of 10


def subject_of(name: str, samples: int, *, training: bool = True) -> Subject:
    graph = load(name, training=training).graph
    program = trace_for_run(name, training=training, dtype=None, graph=graph, samples=[samples])
    forwards = range(len(program.folded.groups))
    held = hold(name, program.parameters_of(forwards), seed=0, dtype=program.dtype, device=CPU)
    segment = program.segment(forwards, samples, held)
    given = make_samples(name, samples, seed=0, dtype=program.dtype, device=CPU)
    group_of = {program.captured.nodes[m].name: g for g, group in enumerate(program.folded.groups) for m in group}
    owner = {
        node.name: group_of[node.meta["call"]]
        for node in segment.module.graph.nodes
        if node.meta.get("call") in group_of
    }
    return Subject(graph, segment.module, tuple(given[i.position] for i in segment.inputs), owner, samples, CPU)


@pytest.mark.parametrize("name", ["gpt-small", "resnet50-small"])
def test_every_operator_of_a_model_is_timed_and_gradients_stay_the_same(name: str) -> None:
    subject = subject_of(name, 4)
    parameters = list(subject.module.parameters())

    def gradients() -> list[Tensor]:
        cloned = [p.grad.clone() for p in parameters if p.grad is not None]
        for parameter in parameters:
            parameter.grad = None
        return cloned

    whole(subject)
    once = gradients()
    measured = measure(subject, 0.0)
    times = IN_FLIGHT + 1  # gradients are dropped before two micro-batches without marks and one with them
    for together, each in zip(gradients(), once, strict=True):
        torch.testing.assert_close(together / times, each, rtol=1e-3, atol=1e-5)
    for operator, seconds in zip(subject.graph.operators, measured.seconds, strict=True):
        assert (seconds > 0) == (operator.phase is not Phase.UPDATE), operator.name
    assert measured.unclaimed_s == 0.0
    assert measured.forward_s > 0
    assert measured.backward_s > 0
    parts = measured.total(subject.graph, forward=True) + measured.total(subject.graph, forward=False)
    assert parts == pytest.approx(sum(measured.seconds))


def test_inference_has_no_backward() -> None:
    subject = subject_of("gpt-small", 2, training=False)
    measured = measure(subject, 0.0)
    assert measured.backward_s == 0.0
    assert all(seconds > 0 for seconds in measured.seconds)


def test_an_update_is_divided_among_the_operators_whose_parameters_it_is_for() -> None:
    large, small_one = nn.Parameter(torch.zeros(400_000)), nn.Parameter(torch.zeros(10))
    of_operator = {"a/update": [large], "b/update": [small_one], "c/update": [small_one]}
    seconds = update_times(of_operator, torch.optim.Adam, CPU)
    assert list(seconds) == list(of_operator)
    assert seconds["a/update"] > seconds["b/update"] > 0
    assert seconds["b/update"] == seconds["c/update"]
    assert update_times({"a/update": []}, torch.optim.Adam, CPU) == {"a/update": 0.0}


def test_noise_is_the_variation_of_the_faster_half() -> None:
    assert variation([1.0, 1.0, 1.0, 9.0, 5.0, 7.0]) == 0.0
    assert variation([1.0, 3.0, 50.0, 50.0]) == pytest.approx(0.5)
    assert variation([]) == 0.0
    seconds = count()
    assert probe(repeats=4, now=lambda: float(next(seconds))) == 0.0


def test_calling_a_segment_takes_some_time_beside_its_operators() -> None:
    assert 0.0 <= step_overhead(CPU) < 1.0


def test_an_update_is_timed_after_what_comes_before_it_in_a_step() -> None:
    passes: list[int] = []
    parameter = nn.Parameter(torch.zeros(10))
    update_times({"a/update": [parameter]}, torch.optim.SGD, CPU, repeats=3, between=lambda: passes.append(1))
    assert len(passes) == 4  # the first step, which makes the states, is not counted but comes after a pass, too


def test_adam_steps_a_table_with_a_sparse_gradient() -> None:
    table = nn.Embedding(50, 4, sparse=True)
    table(torch.tensor([1, 3])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    times = update_times({"table/update": [table.weight]}, torch.optim.Adam, torch.device("cpu"), repeats=1)
    assert times["table/update"] > 0
