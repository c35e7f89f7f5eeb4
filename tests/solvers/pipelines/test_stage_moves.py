"""Moves of drafts of pipelines, and the search that makes them."""

from __future__ import annotations

import math
import random

import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.evaluation.simulation import simulate
from solvers.pipelines.descent.descend import improve
from solvers.pipelines.descent.moves import around
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, Parts, bits, mask_of, moved, parts_of, tidy, without
from solvers.pipelines.timing.estimate import Estimator
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import Problem
from solvers.schedules.realise import realise
from tests.instances import problem, training_graph
from tests.oracle.stage_oracle import SlowEstimate, best_by_force, equal_chain, expanded, one_stage
from tests.oracle.stage_oracle import random_pipeline_problem as random_problem
from tests.reproductions.relax import relaxed


def nothing() -> None:
    """A check that never stops."""


def two_branches(gpus: int = 4, **options: object) -> Problem:
    """a -> b -> c and d -> e -> f, joined by g: all take a second forward and one backward, g next to nothing."""
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)]
    seconds = [1.0] * 6 + [0.001] + [1.0] * 6 + [0.001]
    options = {"mini_batch": 8, "micro_batches": 8, **options}
    return problem(training_graph(edges, 7), seconds, gpus, bandwidth=math.inf, **options)


def random_walk(space: Space, parts: Parts, rng: random.Random, steps: int) -> Parts:
    for _ in range(steps):
        near = list(around(space, parts, range(len(parts))))
        if not near:
            break
        parts = rng.choice(near)[1]
    return parts


@pytest.mark.parametrize("seed", range(15))
def test_moves_keep_partition_order_and_devices(seed: int) -> None:
    p = random_problem(seed, largest=9)
    condensed = Condensed(p, ordered=True)
    space = Space(condensed)
    rng = random.Random(seed)
    everything = mask_of(range(space.graph.count))
    parts = parts_of(equal_chain(condensed, 2))
    for _ in range(4):
        for _, other in around(space, parts, range(len(parts))):
            total = 0
            for part in other:
                assert part.mask
                assert not total & part.mask
                total |= part.mask
                assert part.host is None or other[part.host].host is None
            assert total == everything
            draft = space.graph.draft(other)
            assert draft.devices() <= len(p.cluster.accelerators)
            assert parts_of(draft) == other
        parts = random_walk(space, parts, rng, 3)
        plan = realise(p, expanded(condensed, space.graph.draft(parts)))
        assert math.isfinite(simulate(p, plan).makespan_s)  # neither stages nor actions wait for each other


@pytest.mark.parametrize("seed", range(6))
def test_the_search_is_never_worse_than_its_start_and_repeats(seed: int) -> None:
    p = random_problem(seed, largest=10)
    condensed = Condensed(p, ordered=True)
    start = Estimator(condensed).estimate(equal_chain(condensed, 2))
    results = []
    for _ in range(2):
        estimator, asked = Estimator(condensed), []

        def estimate(draft: Draft, estimator: Estimator = estimator, asked: list[Draft] = asked):
            asked.append(draft)
            return estimator.estimate(draft)

        found = improve(condensed, equal_chain(condensed, 2), estimate, nothing, random.Random(seed), evaluations=60)
        assert len(asked) <= 60
        results.append(found)
    end = Estimator(condensed).estimate(results[0])
    assert (end.over, end.seconds) <= (start.over, start.seconds)
    assert results[0] == results[1]


@pytest.mark.slow
def test_the_search_comes_near_the_best_of_all_stage_dags() -> None:
    distances = []
    for seed in range(9):
        p = random_problem(seed, largest=6)
        best = best_by_force(p)
        condensed = Condensed(p, ordered=True)
        estimate = Estimator(condensed).estimate
        for start in (one_stage, equal_chain):
            found = improve(condensed, start(condensed, 4), estimate, nothing, random.Random(seed), evaluations=200)
            end = SlowEstimate(condensed)(found)
            if math.isfinite(best):
                assert end.over == 0
                distances.append(end.seconds / best - 1)
    assert sum(max(0.0, distance) for distance in distances) / len(distances) <= 0.005


def test_branches_end_up_beside_each_other() -> None:
    p = two_branches()
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    found = improve(condensed, equal_chain(condensed, 1), estimate, nothing, random.Random(0), evaluations=150)
    stage_of = {o: i for i, stage in enumerate(found.stages) for o in stage.operators}
    assert {stage_of[o] for o in (0, 1, 2)}.isdisjoint({stage_of[o] for o in (3, 4, 5)})


def test_what_joins_may_share_a_branch_s_devices() -> None:
    p = two_branches(gpus=2)
    space = Space(Condensed(p, ordered=True))
    branches = (Part(0b0000111, 1), Part(0b1111000, 1))
    kinds = {kind for kind, other in around(space, branches, [1]) if any(part.host is not None for part in other)}
    assert "glue" in kinds


def test_a_start_with_more_glue_than_moves_make_is_searched_all_the_same() -> None:
    p = two_branches(gpus=2)
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    start = Draft((DraftStage((0, 1), 1), DraftStage((3, 4), 1), DraftStage((2, 5, 6), 1, host=1)))
    found = improve(condensed, start, estimate, nothing, random.Random(0), evaluations=100)
    assert estimate(found).seconds < estimate(start).seconds


def test_a_stop_goes_through() -> None:
    class Enough(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise Enough

    condensed = Condensed(two_branches(), ordered=True)
    estimate = Estimator(condensed).estimate
    with pytest.raises(Enough):
        improve(condensed, equal_chain(condensed, 1), estimate, check, random.Random(0), evaluations=10**6)


def test_too_much_memory_is_repaired_first() -> None:
    graph = training_graph([(i, i + 1) for i in range(5)], 6, saved=10.0)
    p = problem(graph, [1.0] * 12, 3, memory=61.0, bandwidth=math.inf, mini_batch=4, micro_batches=4)
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    start = Draft((DraftStage((0, 1, 2, 3), 1), DraftStage((4,), 1), DraftStage((5,), 1)))
    assert estimate(start).over > 0
    found = improve(condensed, start, estimate, nothing, random.Random(0), evaluations=100)
    assert estimate(found).over == 0


def test_recomputation_is_turned_on_where_memory_asks_for_it() -> None:
    graph = training_graph([(i, i + 1) for i in range(5)], 6, saved=10.0)
    options = {"mini_batch": 4, "micro_batches": 4, "recompute": True}
    p = problem(graph, [1.0] * 12, 3, memory=45.0, bandwidth=math.inf, **options)
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    found = improve(condensed, equal_chain(condensed, 1), estimate, nothing, random.Random(0), evaluations=200)
    assert estimate(found).over == 0
    assert any(stage.recompute for stage in found.stages)


def test_slack_is_passed_on_to_what_comes_before() -> None:
    """A stage that keeps more in flight than the one that feeds it would wait for ever."""
    p = two_branches()
    space = Space(Condensed(p, ordered=True))
    chain = (Part(0b0000111, 1), Part(0b0111000, 1), Part(0b1000000, 1, slack=3))
    level = space.levelled(chain)
    assert [part.slack for part in level] == [2, 2, 3]
    assert space.levelled(level) == level


def test_a_sequential_plan_s_branches_are_put_beside_each_other() -> None:
    """Stages {a, d}, {b, e}, {c, f, g}, two devices each, become the branches, each a shorter chain."""
    p = two_branches(gpus=6, max_replicas=2, micro_batches=4)
    condensed = Condensed(p, ordered=True)
    sets = ((0, 3), (1, 4), (2, 5, 6))
    sequential = Draft(tuple(DraftStage(members, 2, 2) for members in sets))
    starts = relaxed(condensed, sequential)
    assert starts[0] == sequential
    apart = {frozenset(stage.operators) for stage in starts[1].stages}
    assert {frozenset({0}), frozenset({3}), frozenset({1}), frozenset({4})} <= apart
    for start in starts:
        assert sorted(o for stage in start.stages for o in stage.operators) == list(range(7))
        assert start.devices() <= 6


def test_stages_on_one_device_each_are_regrouped_by_branch() -> None:
    p = two_branches(gpus=3)
    condensed = Condensed(p, ordered=True)
    sequential = Draft((DraftStage((0, 3, 4), 1), DraftStage((1, 2, 5), 1), DraftStage((6,), 1)))
    regrouped = relaxed(condensed, sequential)[-1]
    assert {stage.operators for stage in regrouped.stages} == {(0, 1, 2), (3, 4, 5), (6,)}


def test_masks_and_their_members_agree() -> None:
    assert bits(mask_of([0, 3, 70])) == [0, 3, 70]


def test_a_stage_that_is_emptied_leaves_its_guests_to_the_heir() -> None:
    parts = (Part(0b001, 2), Part(0b010, 2), Part(0b100, 2, host=0))
    assert moved(parts, 0, 1, 0b001) == [Part(0b011, 2), Part(0b100, 2, host=0)]
    assert without([Part(0b001, 2), Part(0b110, 2, host=0)], 0, 1) == [Part(0b110, 2)]
    assert tidy([Part(0b100, 2, host=1), Part(0b011, 2, replicas=2)]) == (
        Part(0b011, 2, replicas=2),
        Part(0b100, 2, replicas=2, host=0),
    )
