"""Heads and tails through what shares a device or is sent, and backwards that wait for the way there and back."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds import chain
from solvers.bounds.combinatorial import lower_bound_s
from solvers.bounds.paths import heads_and_tails_s
from solvers.bounds.series import series_heads_and_tails_s
from solvers.problem.graph import Amount, OpGraph
from solvers.problem.problem import Pipeline, Problem
from tests.instances import GPU, forward_graph, problem, training_graph
from tests.oracle.stage_oracle import best_by_force
from tests.solvers.bounds.drafted import ROUNDING, assert_no_draft_beats
from tests.solvers.bounds.test_chain_bound import CLOSE, with_gradients_of_parameters
from tests.solvers.bounds.test_chain_bound import chain as in_a_chain

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("sent_s", "head_s", "tail_s"),
    [
        (10.0, 6.0, 6.0),  # all on one device
        (2.5, 5.5, 5.5),  # through the shorter branch and a tensor
        (0.5, 4.0, 4.0),  # the longer branch
    ],
)
def test_branches_share_a_device_or_one_tensor_is_sent(sent_s, head_s, tail_s):
    """1 s, branches of 2 and 3 s, 1 s."""
    graph = forward_graph(DIAMOND, 4)
    graph = replace(graph, tensors=tuple(replace(t, nbytes=Amount(0.0, sent_s)) for t in graph.tensors))
    p = problem(graph, [1, 2, 3, 1], 2, mini_batch=1, micro_batches=1, training=False)
    head, tail = series_heads_and_tails_s(p, np.array([1.0, 2.0, 3.0, 1.0]), 1)
    assert head.tolist() == pytest.approx([0.0, 1.0, 1.0, head_s])
    assert tail.tolist() == pytest.approx([tail_s, 1.0, 1.0, 0.0])


def test_a_tensor_beside_a_longer_way_is_no_branch():
    """a is read by c too: c waits for b alone."""
    p = problem(forward_graph([(0, 1), (1, 2), (0, 2)], 3, 9.0), [1, 1, 1], 2, mini_batch=1, training=False)
    head, _ = series_heads_and_tails_s(p, np.ones(3), 1)
    assert head.tolist() == [0.0, 1.0, 2.0]


def test_backwards_wait_for_the_way_there_and_back():
    """An operator of 3 s a pass before three of 1 s: the first backward begins after 9 s, both take 6.
    The best plan loses another second where the two micro-batches meet."""
    p = in_a_chain([3, 1, 1, 1], [0, 0, 0], 4, 2)
    assert lower_bound_s(p) == pytest.approx(15, rel=CLOSE)
    assert best_by_force(p) == pytest.approx(16)


def branching(seed: int) -> Problem:
    """One operator, two or three branches and what joins them, often one more after it; times and tensors of all sizes,
    few micro-batches. Every second one with gradients of parameters of its own."""
    rng = random.Random(f"branching {seed}")
    graph, work = _branching_graph(rng)
    if seed % 2:
        of_parameters = rng.choice((0.5, 1.0)) * work[: len(work) // 2]
        graph, work = with_gradients_of_parameters(graph), np.concatenate([work, of_parameters])
    count = rng.choice((1, 2, 3, 4))
    options = {"mini_batch": count, "micro_batches": count, "bandwidth": rng.choice((0.25, 1.0, 4.0))}
    return problem(graph, work.tolist(), rng.randint(2, 3), **options)


def _branching_graph(rng: random.Random) -> tuple[OpGraph, np.ndarray]:
    branches = rng.choice((2, 3))
    join = branches + 1
    edges = [edge for branch in range(1, join) for edge in ((0, branch), (branch, join))]
    edges += [(join, join + 1)] * (rng.random() < 0.7) + [(0, join)] * (rng.random() < 0.3)
    count = 1 + max(v for _, v in edges)
    graph = training_graph(edges, count, 1.0, 1.0, 1.0)
    sizes = [rng.choice((0.1, 1.0, 4.0)) * rng.uniform(0.5, 2.0) for _ in range(count)]
    made = [min(t.producer % count, t.consumers[0] % count) for t in graph.tensors]
    tensors = tuple(
        replace(t, nbytes=Amount(0.0, sizes[maker] if t.nbytes.per_sample else 0.0))
        for t, maker in zip(graph.tensors, made, strict=True)
    )
    work = np.array([rng.choice((0.2, 1.0, 1.0)) * rng.uniform(0.5, 2.0) for _ in range(count)])
    work[rng.choice((0, count - 1))] *= rng.choice((1.0, 3.0, 6.0))
    return replace(graph, tensors=tensors), np.concatenate([work, rng.choice((1.0, 2.0, 4.0)) * work])


def through_s(p: Problem, plain: bool = False) -> float:
    """The longest way of one micro-batch, as is known of any plan."""
    seconds = p.compute.at(GPU, p.mini_batch // p.micro_batches)
    if plain:
        head, tail = heads_and_tails_s(p.graph, seconds, whole=p.whole_backwards)
    else:
        head, tail = series_heads_and_tails_s(p, seconds, p.micro_batches)
    return float((head + seconds + tail).max())


@pytest.mark.parametrize("seed", range(100))
def test_no_plan_of_branches_beats_it(seed):
    """Every partition of small graphs with branches."""
    p = branching(seed)
    best_s = best_by_force(p, most_slack=1)
    assert lower_bound_s(p) <= best_s * ROUNDING
    assert through_s(p) <= best_s * ROUNDING


@pytest.mark.parametrize("seed", range(40))
def test_no_pipeline_of_branches_beats_it(seed):
    rng = random.Random(f"branching pipeline {seed}")
    p = replace(branching(seed), pipeline=rng.choice(list(Pipeline)), recompute=True)
    assert_no_draft_beats(max(lower_bound_s(p), through_s(p)), p, rng)


def test_each_often_says_more(monkeypatch):
    """Of the same graphs; where it did not, nothing above would be tested."""
    longer = [through_s(branching(seed)) > through_s(branching(seed), plain=True) * 1.02 for seed in range(100)]
    assert sum(longer) >= 20
    turning_s = np.array([lower_bound_s(branching(seed)) for seed in range(100)])
    monkeypatch.setattr(chain._Chain, "turning", lambda _: None)
    straight_s = np.array([lower_bound_s(branching(seed)) for seed in range(100)])
    assert (turning_s > straight_s * 1.01).sum() >= 5
