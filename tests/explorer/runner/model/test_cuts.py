"""Where micro-batches differ, tensors are cut into samples, or refused where that would mix them."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from explorer.question.loading import load_callable
from explorer.runner.model.cuts import Cuts, check_cuts
from explorer.runner.model.program import Program, trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import hold
from explorer.runner.scripts.script import Channel, Piece, Script, Segment
from solvers.errors import RunError
from tests.explorer.runner.model.in_parts import difference

NAME = "tests.explorer.runner.model.models:tokens_first"


@lru_cache(maxsize=1)
def program() -> Program:
    graph = load_callable(NAME).graph
    return trace_for_run(NAME, training=True, dtype=None, graph=graph, samples=[4, 8], allow_model=True)


def tensor_of(operator: str) -> int:
    index = load_callable_names()[operator]
    return next(p for p, edge in enumerate(program().edges) if edge.producer == index and edge.consumers)


@lru_cache(maxsize=1)
def load_callable_names() -> dict[str, int]:
    return load_callable(NAME).graph.index_of()


@pytest.mark.parametrize(
    ("operator", "dim"),
    [("first/linear", 0), ("sigmoid", 0), ("second/linear", None), ("mean", None), ("sigmoid#2", 0)],
)
def test_the_dimension_that_holds_the_samples_is_detected(operator: str, dim: int | None) -> None:
    assert program().batch_dim(tensor_of(operator)) == dim


@pytest.mark.parametrize(
    ("operator", "why"),
    [("mean", "is one for all samples"), ("flatten", "has the samples inside of dimension 0"), ("sigmoid#2", "inside")],
)
def test_what_cannot_be_cut_into_samples_is_refused(operator: str, why: str) -> None:
    with pytest.raises(RunError, match=f"{why}.*equal micro-batches"):
        Cuts(program()).check(tensor_of(operator))


def test_numbers_of_samples_are_those_of_one_micro_batch() -> None:
    name = "tests.explorer.runner.model.models:numbered"
    graph = load_callable(name).graph
    numbered = trace_for_run(name, training=True, dtype=None, graph=graph, samples=[4, 8], allow_model=True)
    tensors = {graph.operators[edge.producer].name: tensor for tensor, edge in enumerate(numbered.edges)}
    with pytest.raises(RunError, match=r"counts the samples of a micro-batch.*equal micro-batches"):
        Cuts(numbered).check(tensors["mul"])
    for operator in ("first/linear", "mul#2", "ones"):
        Cuts(numbered).check(tensors[operator])


@pytest.mark.parametrize("operator", ["first/linear", "sigmoid", "second/linear"])
def test_a_tensor_of_8_samples_is_that_of_4_and_of_the_other_4(operator: str) -> None:
    tensor = tensor_of(operator)
    Cuts(program()).check(tensor)
    operators = range(program().edges[tensor].producer + 1)
    held = hold(NAME, program().parameters_of(operators), seed=1, dtype=None, device="cpu", allow_model=True)
    (given,) = make_samples(NAME, 8, seed=1, dtype=None, device="cpu", allow_model=True)

    def made(samples: torch.Tensor) -> torch.Tensor:
        segment = program().segment(operators, len(samples), held, sends=[tensor])
        output: torch.Tensor = segment.module(*(samples for _ in segment.inputs))[0]
        return output.detach()

    whole, halves = made(given), [made(given[:4]), made(given[4:])]
    dim = program().batch_dim(tensor)
    joined = halves[0] if dim is None else torch.cat(halves, dim)
    assert difference(joined, whole) < 1e-6


def test_a_script_is_refused_only_where_its_micro_batches_differ() -> None:
    tensor = tensor_of("flatten")

    def script(*sizes: int) -> Script:
        segments = tuple(Segment((position,), (position,), size, (position,)) for position, size in enumerate(sizes))
        pieces = tuple(Piece(i * 4 // sizes[0], i * 4 // sizes[1], i * 4, 4) for i in range(8 // 4))
        channel = Channel(0, 0, 1, (1,), (tensor,), (True,), pieces)
        return Script(segments, (channel,), (0, 1), ((), ()), 8, True)

    check_cuts(program(), script(4, 4))
    with pytest.raises(RunError, match="cannot be cut"):
        check_cuts(program(), script(8, 4))
    with pytest.raises(RunError, match="cannot be cut"):
        check_cuts(program(), script(4, 8))
