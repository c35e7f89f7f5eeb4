"""Models whose ends share a device: what the folded question says, and that its plans are plans of the real one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers.pipelines.folded import Folded, enclosed_share, folded, late_ends
from solvers.pipelines.planners.tied_ends import TiedEnds
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.graph import Amount, OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.search.effort import Effort
from tests.instances import problem, training_graph


def tied(
    ties: list[set[int]], edges: list[tuple[int, int]], count: int, devices: int = 3, **options: object
) -> Problem:
    """A model in training whose forward operators in a tie share parameters; operator i takes i + 1 s a sample."""
    graph = training_graph(edges, count, nbytes=0.01, param_bytes=10.0)
    label = {i: f"tie {k}" for k, tie in enumerate(ties) for i in tie}
    operators = tuple(
        replace(o, colocation=label.get(i if o.forward_of is None else o.forward_of), flops=Amount(0.0, 1.0))
        for i, o in enumerate(graph.operators)
    )
    options.setdefault("objective", Objective.ITERATION)
    options.setdefault("contiguity", Contiguity.NONE)
    return problem(
        OpGraph(operators, graph.tensors, graph.samples, graph.name),
        [1 + i % 3 for i in range(len(operators))], devices, mini_batch=8, micro_batches=4, **options,
    )  # fmt: skip


def chain(count: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(count - 1)]


def names(graph: OpGraph, late: dict[int, int]) -> dict[int, int]:
    return {i: j for i, j in sorted(late.items()) if graph.operators[i].phase is Phase.FORWARD}


@pytest.mark.parametrize(
    ("ties", "edges", "count", "late"),
    [
        ([], chain(6), 6, {}),
        ([{0, 1}], chain(6), 6, {}),  # neighbours: nothing lies between
        ([{0, 5}], chain(6), 6, {5: 0}),
        ([{0, 2, 5}], chain(6), 6, {2: 0, 5: 0}),
        ([{0, 4}, {1, 3}], chain(6), 6, {3: 1, 4: 0}),
        ([{0, 1}], [(0, 2), (1, 2), (2, 3)], 4, {}),  # two inputs of an encoder and a decoder
        ([{0, 1, 4}], [(0, 2), (1, 3), (2, 3), (3, 4)], 5, {4: 0}),
    ],
)
def test_late_ends_are_those_that_others_come_before(ties, edges, count, late):
    graph = tied(ties, edges, count).graph
    assert names(graph, late_ends(graph)) == late
    assert (enclosed_share(graph) > 0) == bool(late)


def sums(question: Problem) -> dict[str, float]:
    """What a question's operators take, in all."""
    return {
        "seconds": sum(float(table.sum()) for table in question.compute.seconds.values()),
        "static": float(question.static_bytes().sum()),
        "saved": sum(o.saved_bytes.at(1) for o in question.graph.operators),
    }


def obeys(late: Folded, p: Problem) -> None:
    placement = {i: (i % 3,) for i in range(len(late.remaining))}
    groups = together(late.question.graph)
    for group in groups:
        placement |= dict.fromkeys(group, placement[group[0]])
    places = late.unfolded(placement)
    assert all(len({places[i] for i in group}) == 1 for group in together(p.graph))


@pytest.mark.parametrize("seed", range(60))
def test_folding_loses_no_work_and_no_bytes_and_unfolds_to_what_may_be_placed(seed):
    rng = random.Random(seed)
    count = rng.randint(4, 9)
    edges = chain(count)
    if rng.random() < 0.5:
        more = {(rng.randrange(j), j) for j in range(1, count)}
        edges = sorted(more | {tuple(sorted(rng.sample(range(count), 2))) for _ in range(3)})
    tie = set(rng.sample(range(count), rng.randint(2, 3)))
    question = tied([tie], edges, count)
    late = folded(question)
    if late is None:
        return
    assert sums(late.question) == pytest.approx(sums(question))
    assert late_ends(late.question.graph) == {}
    assert sorted((*late.remaining, *late.host)) == list(range(len(question.graph)))
    obeys(late, question)


def test_pins_of_what_is_folded_are_those_of_its_host():
    question = tied([{0, 7}], chain(8), 8)
    late = folded(replace(question, pins={7: 2}))
    assert late is not None
    assert late.question.pins == {late.remaining.index(0): 2}


def test_one_device_is_left_most_work_to_when_most_is_tied():
    assert folded(tied([{0, 2, 3, 4, 5, 6, 7}], chain(8), 8)) is None


def test_a_model_that_is_tied_at_both_ends_is_cut_between():
    question = tied([{0, 9}], chain(10), 10)
    result = solve(question, TiedEnds(), effort=Effort.QUICK, time_limit_s=60.0)
    assert result.plan is not None
    assert check(question, result.plan) == ()
    used = {device for places in result.plan.placement().values() for device in places}
    assert len(used) == 3
    alone_s = solve(question, "single", effort=Effort.QUICK).objective_s
    assert result.objective_s < 0.75 * alone_s
    assert any("tied-ends" in note for note in result.notes)


def test_auto_is_not_behind_it():
    question = tied([{0, 9}], chain(10), 10)
    both = [solve(question, planner, effort=Effort.QUICK, time_limit_s=60.0) for planner in (TiedEnds(), "auto")]
    assert both[1].objective_s <= both[0].objective_s * (1 + 1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contiguity": Contiguity.ACYCLIC}, "use --contiguity none"),
        ({"objective": Objective.MAX_LOAD}, "objectives other than iteration"),
    ],
)
def test_what_it_cannot_do_is_stated(change, words):
    assert words in (TiedEnds().unsupported(replace(tied([{0, 9}], chain(10), 10), **change)) or "")
    assert "no late part" in (TiedEnds().unsupported(tied([], chain(4), 4)) or "")
