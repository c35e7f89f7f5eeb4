"""A model in segments computes what it computes whole: outputs, and the gradient of every parameter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from unittest.mock import patch

import pytest
import torch

import explorer.runner.model.program
from demo_models import MODELS
from explorer.question.loading import load_callable
from explorer.runner.model.program import Program, trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import hold
from explorer.tracing import trace_demo
from solvers.errors import RunError
from solvers.problem.graph import Operator, OpGraph, Tensor
from tests.explorer.runner.model.in_parts import (
    difference,
    gradients_of,
    largest_difference,
    random_groups,
    run,
    segments_of,
)
from tests.reproductions.whole_model import whole_model

HERE = "tests.explorer.runner.model.models"
DEMOS = [name for name in MODELS if name.endswith("-small")]
ODD = [f"{HERE}:{name}" for name in ("in_place", "tied", "blocks", "several", "shared", "tokens_first")]
ROUNDING = {"float64": 1e-9, "float32": 1e-5}
"""Largest relative differences. Sums of gradients are taken in another order."""


HEAVY = ("nasnet-small", "inception-small")
"""One grouping at one batch."""


@cache
def graph_of(name: str) -> OpGraph:
    return (trace_demo(name) if name in MODELS else load_callable(name)).graph


@cache
def traced(name: str, *samples: int, dtype: str | None = "float64", without_dropout: bool = True) -> Program:
    """Planned in the dtype of the run. That it is the model that was planned is not looked at here, to trace once."""
    tensor = Tensor(0, (), shape=(1,), dtype=dtype or "float32")
    stand_in = OpGraph((Operator("any"),), (tensor,), samples=min(samples))
    with patch.object(explorer.runner.model.program, "check_same"):
        return trace_for_run(
            name, training=True, dtype=dtype, graph=stand_in, samples=samples, without_dropout=without_dropout,
            allow_model=True,
        )  # fmt: skip


def check(program: Program, name: str, dtype: str, samples: int, groups: list[list[list[int]]]) -> None:
    """Every grouping of the operators gives the outputs and gradients of the whole model."""
    names = program.parameters_of(range(len(program.folded.groups)))
    held = hold(name, names, seed=1, dtype=dtype, device="cpu", allow_model=True)
    whole = whole_model(name, seed=1, dtype=dtype, device="cpu", without_dropout=True, allow_model=True)
    given = make_samples(name, samples, seed=2, dtype=dtype, device="cpu", allow_model=True)
    expected = whole(*given)
    torch.autograd.backward([x.sum() for x in expected if x.requires_grad])
    right = gradients_of(whole.parameters)
    limit = ROUNDING[dtype]
    for grouping in groups:
        outputs = run(segments_of(program, grouping, samples, held), given)
        assert len(outputs) == len(expected)
        assert all(difference(x, y.detach()) <= limit for x, y in zip(outputs, expected, strict=True))
        assert largest_difference(gradients_of(held.parameters), right) <= limit


@pytest.mark.first(1)
@pytest.mark.parametrize("name", [*DEMOS, *ODD])
def test_segments_compute_what_the_whole_model_does(name: str) -> None:
    """In float64, at 2 and 4 samples: one of them is not the example's batch."""
    program = traced(name, 2, 4)
    few, many = random_groups(program, 1, 3), random_groups(program, 2, 12)
    check(program, name, "float64", 2, [many] if name in HEAVY else [few, many])
    if name not in HEAVY:
        check(program, name, "float64", 4, [many])


@pytest.mark.parametrize("name", ["dlrm-small", f"{HERE}:several"])
def test_at_any_number_of_samples(name: str) -> None:
    program = traced(name, 1, 3)
    for samples in program.sized:
        check(program, name, "float64", samples, [random_groups(program, 2, 6)])


@pytest.mark.parametrize("name", ["bert-small", "dlrm-small"])
def test_in_float32_they_differ_by_rounding_only(name: str) -> None:
    program = traced(name, 4, dtype="float32")
    check(program, name, "float32", 4, [random_groups(program, 3, 8)])


@pytest.mark.parametrize("name", ["gpt-small", f"{HERE}:several", f"{HERE}:blocks"])
def test_every_operator_may_be_a_segment(name: str) -> None:
    program = traced(name, 2, 4)
    check(program, name, "float64", 4, [[[operator] for operator in range(len(program.folded.groups))]])


def test_the_parameters_of_a_segment_are_those_of_the_rank_and_no_others() -> None:
    program = traced("gpt-small", 2, 4)
    count = len(program.folded.groups)
    first, second = range(count // 2), range(count // 2, count)
    names = program.parameters_of(second)
    assert not set(names) & set(program.parameters_of(first))
    held = hold("gpt-small", names, seed=1, dtype=program.dtype, device="cpu")
    segment = program.segment(second, 4, held)
    assert {id(p) for p in segment.module.parameters()} == {id(p) for p in held.parameters.values()}
    with pytest.raises(RunError, match=r"the parameter .* is not held by this rank"):
        program.segment(first, 4, held)


def test_a_tied_parameter_is_one_object_that_its_first_reader_owns() -> None:
    program = traced(f"{HERE}:tied", 2, 4)
    readers = program.readers["table.weight"]
    assert len(readers) == 2
    assert program.owned_by(readers[:1]) == ("table.weight",)
    assert program.owned_by(readers[1:]) == ()
    assert program.parameters_of(readers[1:]) == ("table.weight",)


def test_dropout_stays_where_it_is_requested() -> None:
    name = "rnnlm-small"
    program = traced(name, 4, without_dropout=False)
    groups = random_groups(program, 1, 4)
    held = hold(name, program.parameters_of(range(len(program.folded.groups))), seed=1, dtype="float64", device="cpu")
    given = make_samples(name, 4, seed=2, dtype="float64", device="cpu")
    segments = segments_of(program, groups, 4, held)
    assert run(segments, given) != run(segments, given)


def test_a_mini_batch_is_not_changed_by_a_model_that_works_in_place() -> None:
    name = f"{HERE}:in_place"
    program = traced(name, 2, 4)
    held = hold(name, program.parameters_of(range(99)), seed=1, dtype="float64", device="cpu", allow_model=True)
    given = make_samples(name, 4, seed=2, dtype="float64", device="cpu", allow_model=True)
    before = given[0].clone()
    run(segments_of(program, random_groups(program, 1, 3), 4, held), given)
    assert torch.equal(given[0], before)


def test_who_reads_a_tensor_before_it_is_changed_in_place_stays_with_who_changes_it() -> None:
    name = f"{HERE}:read_before"
    program = traced(name, 2, 4)
    index = graph_of(name).index_of()
    held = hold(name, program.parameters_of(range(99)), seed=1, dtype="float64", device="cpu", allow_model=True)
    with pytest.raises(RunError, match="changes it in place, so both must be in one stage"):
        program.segment([index["sign"]], 4, held)
    together = [index["mul"], index["sign"]]
    rest = [p for p in range(len(program.folded.groups)) if p not in together]
    check(program, name, "float64", 4, [[rest[:2], together, rest[2:]]])


def test_a_model_that_changed_since_it_was_planned_is_refused_with_what_differs() -> None:
    graph = graph_of("gpt-small")
    renamed = (replace(graph.operators[0], name="other"), *graph.operators[1:])
    with pytest.raises(RunError, match=r"another version of the model \(operator other of the plan is now"):
        trace_for_run("gpt-small", training=True, dtype=None, graph=replace_operators(graph, renamed), samples=[4])
    with pytest.raises(RunError, match="another version of the model"):
        trace_for_run("rnnlm-small", training=True, dtype=None, graph=graph, samples=[4])


def test_a_model_that_computes_in_another_dtype_than_its_parameters_is_the_one_that_was_planned() -> None:
    name = f"{HERE}:halved"
    graph = graph_of(name)
    assert [tensor.dtype for tensor in graph.tensors].count("bfloat16") > 4
    program = trace_for_run(name, training=True, dtype=None, graph=graph, samples=[2], allow_model=True)
    assert program.dtype is None


def replace_operators(graph: OpGraph, operators: tuple[object, ...]) -> OpGraph:
    return OpGraph(operators, graph.tensors, graph.samples, graph.name)  # type: ignore[arg-type]


def test_a_plan_in_another_dtype_and_batch_is_traced_in_those() -> None:
    graph = trace_demo("dlrm-small", dtype="bf16", batch=6).graph
    program = trace_for_run("dlrm-small", training=True, dtype=None, graph=graph, samples=[2])
    assert program.dtype is torch.bfloat16
    assert {entry.dtype for entry in segment_inputs(program)} == {torch.bfloat16, torch.int64}


def segment_inputs(program: Program) -> tuple[object, ...]:
    every = range(len(program.folded.groups))
    held = hold("dlrm-small", program.parameters_of(every), seed=1, dtype=program.dtype, device="cpu")
    return program.segment(every, 2, held).inputs


def test_in_inference_nothing_sends_a_gradient() -> None:
    graph = trace_demo("resnet50-small", training=False).graph
    program = trace_for_run("resnet50-small", training=False, dtype=None, graph=graph, samples=[3])
    assert not any(program.gradients)
    held = hold("resnet50-small", program.parameters_of(range(99)), seed=1, dtype=None, device="cpu")
    whole = whole_model("resnet50-small", seed=1, dtype=None, device="cpu", training=False)
    given = make_samples("resnet50-small", 3, seed=2, dtype=None, device="cpu")
    with torch.no_grad():
        (output,) = run(segments_of(program, random_groups(program, 1, 4), 3, held), given)
        assert difference(output, whole(*given)[0]) < 1e-6


def test_gradients_are_those_that_autograd_says() -> None:
    """Of integer tensors, of what is detached and of what no parameter was read for, there is none."""
    program = traced(f"{HERE}:blocks", 2, 4)
    assert all(senders <= set(edge.consumers) for senders, edge in zip(program.gradients, program.edges, strict=True))
    names = [operator.name for operator in graph_of(f"{HERE}:blocks").operators]
    none = {names[edge.producer] for edge in program.edges if edge.consumers and not edge.with_gradient}
    assert "max" in none
    assert "first/linear" not in none


@pytest.mark.parametrize("name", ["gpt-small", "gnmt-small", f"{HERE}:several", f"{HERE}:in_place"])
def test_segments_run_on_the_device_that_holds_the_parameters(name: str) -> None:
    """Nothing of the device on which the model was traced is left in them."""
    batch, program = 4, traced(name, 2, 4)
    names = program.parameters_of(range(len(program.folded.groups)))
    held = hold(name, names, seed=1, dtype="float64", device="meta", allow_model=True)
    given = make_samples(name, batch, seed=2, dtype="float64", device="meta", allow_model=True)
    outputs = run(segments_of(program, random_groups(program, 2, 12), batch, held), given)
    assert all(output.is_meta for output in outputs)
    assert all(parameter.grad is not None and parameter.grad.is_meta for parameter in held.parameters.values())
