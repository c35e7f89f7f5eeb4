"""Bounds of chains of devices: by hand, below every plan of small graphs, and what they know that averages do not."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.chain import chain_bound_s
from solvers.bounds.combinatorial import lower_bound_s
from solvers.bounds.iteration import iteration_bound_s
from solvers.evaluation.evaluate import judge
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Pipeline, Problem
from tests.instances import GPU, forward_graph, problem, training_graph
from tests.oracle.stage_oracle import best_by_force
from tests.solvers.bounds.drafted import ROUNDING, assert_no_draft_beats

CLOSE = 2e-3
"""The least time is found to a thousandth."""


def chain(work: list[float], nbytes: list[float], gpus: int, micro_batches: int, **options: object) -> Problem:
    """Operators in a row, trained: backwards as long as forwards; bytes of the tensor after each at 1 byte/s."""
    count = len(work)
    graph = training_graph([(i, i + 1) for i in range(count - 1)], count, 1.0)
    sizes = [
        nbytes[min(t.producer % count, t.consumers[0] % count)] if t.nbytes.per_sample else 0.0 for t in graph.tensors
    ]
    tensors = tuple(replace(t, nbytes=Amount(0.0, size)) for t, size in zip(graph.tensors, sizes, strict=True))
    samples = {"mini_batch": micro_batches, "micro_batches": micro_batches, **options}
    return problem(replace(graph, tensors=tensors), [*work, *work], gpus, **samples)


def test_an_operator_is_not_cut_in_two():
    """Three of 4 micro-batches of 2 s each on two devices: the one with two of them works for 16 s."""
    p = chain([1, 1, 1], [0, 0], 2, 4)
    assert iteration_bound_s(p, (4,)) < 15
    assert lower_bound_s(p) == pytest.approx(16, rel=CLOSE)
    assert solve(p, "brute-force").objective_s >= 16


def test_beyond_a_cut_nobody_works_before_it_has_been_reached_and_passed():
    """Two of 4 micro-batches of 2 s. The second device begins after 1 s and 0.5 s on the way, and ends as long before
    the end: 8 + 3."""
    p = chain([1, 1], [0.5], 2, 4)
    assert lower_bound_s(p) == pytest.approx(11, rel=CLOSE)
    assert best_by_force(p) == pytest.approx(11)


def test_one_device_more_is_one_cut_more():
    """Six of 4 micro-batches of 2 s: on two devices 3 of them and 2 x 3 s of way; on three 2 and 2 x 4."""
    work, nbytes = [1.0] * 6, [0.0] * 5
    fields = {gpus: lower_bound_s(chain(work, nbytes, gpus, 4)) for gpus in (1, 2, 3)}
    assert fields[1] == pytest.approx(48)
    assert fields[2] > fields[3]
    for gpus in (2, 3):
        assert fields[gpus] <= solve(chain(work, nbytes, gpus, 4), "brute-force").objective_s * ROUNDING


def test_a_tensor_too_large_keeps_all_between_its_ends_on_one_device():
    """a is read by d too, at 30 s for all samples: a, b, c and d are together, with 4 x 8 s or more."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    tensors = (Tensor(0, (1, 3), Amount(0, 20.0)), *graph.tensors[1:])
    p = problem(replace(graph, tensors=tensors), [1, 3, 3, 1, 1], 5, mini_batch=4, micro_batches=4, training=False)
    assert lower_bound_s(p) >= 4 * 8 * (1 - CLOSE)
    assert iteration_bound_s(p, (4,)) < 4 * 8
    assert lower_bound_s(p) <= solve(p, "brute-force").objective_s * ROUNDING


def with_gradients_of_parameters(graph: OpGraph) -> OpGraph:
    """Every forward operator gets one operator more, which reads what its backward reads."""
    operators, tensors = list(graph.operators), [list(t.consumers) for t in graph.tensors]
    for position, spec in enumerate(graph.operators):
        if spec.phase is Phase.BACKWARD_INPUT:
            operators.append(Operator(f"{spec.name} W", phase=Phase.BACKWARD_WEIGHT, forward_of=spec.forward_of))
            for readers in tensors:
                if position in readers:
                    readers.append(len(operators) - 1)
    changed = (replace(t, consumers=tuple(readers)) for t, readers in zip(graph.tensors, tensors, strict=True))
    return OpGraph(tuple(operators), tuple(changed))


def test_gradients_of_parameters_are_on_the_way_back_where_backwards_are_whole():
    """Two of 4 micro-batches of 3 s; beyond the cut 12 s, 1 s before and 2 s after. With gradients of parameters put
    off 1 s after."""
    graph = with_gradients_of_parameters(training_graph([(0, 1)], 2))
    p = problem(graph, [1] * 6, 2, mini_batch=4, micro_batches=4)
    assert lower_bound_s(p) == pytest.approx(15, rel=CLOSE)
    assert solve(p, "brute-force").objective_s == pytest.approx(15)
    parts = replace(p, pipeline=Pipeline.ZERO_BUBBLE)
    assert lower_bound_s(parts) < 15
    best = solve(parts, "brute-force")
    assert lower_bound_s(parts) <= best.objective_s * ROUNDING < 15
    assert check(p, best.plan)[0].endswith("is a part of a backward, and the pipeline kfkb has whole ones")
    assert judge(p, best.plan).violation == "backwards run in two parts, which the pipeline kfkb does not"
    assert solve(p, "brute-force", start=best.plan).objective_s == pytest.approx(15)


def test_it_tells_nothing_where_sets_may_be_any():
    p = replace(chain([1, 1], [0.5], 2, 4), contiguity=Contiguity.NONE)
    assert chain_bound_s(p, (4,), 1.25) == 1.25
    assert chain_bound_s(replace(p, contiguity=Contiguity.ACYCLIC, max_replicas=2), (4,), 1.25) == 1.25


def test_it_proves_no_more_than_is_needed():
    p = chain([1, 1], [0.5], 2, 4)
    assert chain_bound_s(p, (4,), 8.0, 9.0) == 9.0
    assert chain_bound_s(p, (4,), 9.0, 8.0) == 8.0


def in_a_row(seed: int) -> Problem:
    """A few operators in a row, some read further down too, with tensors of all sizes; half of them with gradients of
    parameters of their own, a fifth short of memory."""
    rng = random.Random(f"row {seed}")
    count, gpus = rng.randint(3, 4), rng.randint(2, 3)
    skips = [(u, v) for u in range(count) for v in range(u + 2, count) if rng.random() < 0.2]
    graph = training_graph([*((i, i + 1) for i in range(count - 1)), *skips], count, 1.0, 1.0, 1.0)
    sizes = [rng.choice((0.1, 1.0, 1.0, 4.0)) * rng.uniform(0.5, 2.0) for _ in range(count)]
    made = [min(t.producer % count, t.consumers[0] % count) for t in graph.tensors]
    tensors = tuple(
        replace(t, nbytes=Amount(0.0, sizes[maker] if t.nbytes.per_sample else 0.0))
        for t, maker in zip(graph.tensors, made, strict=True)
    )
    graph = replace(graph, tensors=tensors)
    work = np.array([rng.choice((0.1, 1.0, 1.0)) * rng.uniform(0.5, 2.0) for _ in range(count)])
    work = np.concatenate([work, rng.choice((1.0, 2.0)) * work])
    if seed % 2:
        graph, work = with_gradients_of_parameters(graph), np.concatenate([work, work[:count]])
    points = (1, 2, 4, 8)
    slow = rng.choice((0.0, 0.5, 2.0)) * np.minimum(work, 1.0)
    table = ComputeTable(points, {GPU: np.stack([slow + work * size for size in points], axis=1)})
    held = rng.uniform(12.0, 40.0) if seed % 5 == 0 else float("inf")
    options = {"mini_batch": 8, "micro_batches": None}
    p = problem(graph, work.tolist(), gpus, memory=held, bandwidth=rng.choice((0.5, 1.0, 2.0, 8.0)), **options)
    return replace(p, compute=table)


@pytest.mark.parametrize("seed", range(150))
def test_no_dag_of_stages_beats_it(seed):
    """Every partition and number of micro-batches of graphs of a few operators; a part of them short of memory."""
    p = in_a_row(seed)
    assert lower_bound_s(p) <= best_by_force(p, most_slack=1) * ROUNDING


@pytest.mark.parametrize("seed", range(60))
def test_no_pipeline_beats_it(seed):
    rng = random.Random(f"chain {seed}")
    p = replace(in_a_row(seed), pipeline=rng.choice(list(Pipeline)), micro_batches=4, recompute=True)
    bound_s = lower_bound_s(replace(p, micro_batches=None))
    assert_no_draft_beats(bound_s, p, rng)


def test_it_often_says_more_than_averages():
    """Of the same graphs; where it did not, nothing above would be tested."""
    more = 0
    for seed in range(60):
        p = in_a_row(seed)
        plain = min(iteration_bound_s(p, (count,)) for count in p.micro_batch_choices())
        more += lower_bound_s(p) > plain * 1.02
    assert more >= 20
