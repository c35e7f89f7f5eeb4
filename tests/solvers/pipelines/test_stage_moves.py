"""Moves of drafts of pipelines, and the search that makes them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.evaluation.simulation import simulate
from solvers.pipelines.descent.facts import Stages
from solvers.pipelines.descent.looks_kernel import after_of
from solvers.pipelines.descent.neighbours_kernel import around
from solvers.pipelines.descent.space import Parts, Space, draft_of, parts_of
from solvers.pipelines.descent.stages_kernel import moved, tidy, without
from solvers.pipelines.timing.estimate import Estimator
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem
from solvers.schedules.realise import realise
from tests.instances import problem, training_graph
from tests.oracle.stage_oracle import SlowEstimate, best_by_force, equal_chain, expanded, one_stage
from tests.oracle.stage_oracle import random_pipeline_problem as random_problem
from tests.solvers.pipelines.descending import improve


def nothing() -> None:
    """A check that never stops."""


def two_branches(gpus: int = 4, **options: object) -> Problem:
    """a -> b -> c and d -> e -> f, joined by g: all take a second forward and one backward, g next to nothing."""
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 6), (5, 6)]
    seconds = [1.0] * 6 + [0.001] + [1.0] * 6 + [0.001]
    options = {"mini_batch": 8, "micro_batches": 8, **options}
    return problem(training_graph(edges, 7), seconds, gpus, bandwidth=math.inf, **options)


def computing_s(p: Problem, condensed: Condensed, stage: DraftStage, replicas: int) -> float:
    """Seconds of a stage's forward, again where it recomputes, and backward of a micro-batch, updates left out."""
    seconds = p.compute.at(p.cluster.devices[0].kind, stage.micro_batch_size / replicas)
    members = condensed.at(1, merge_trivial=False).shape.members
    times = {Phase.FORWARD: 1 + stage.recompute, Phase.UPDATE: 0}
    operators = [o for node in stage.operators for o in members[node]]
    return float(sum(seconds[o] * times.get(p.graph.operators[o].phase, 1) for o in operators))


def near(space: Space, parts: Parts, leap: bool = False) -> list[Draft]:
    """The drafts one step from another."""
    focus = np.arange(len(parts))
    drafts, _ = around(space.near(parts.stages), parts.stages, focus, math.inf, leap, True)
    rows = [slice(*pair) for pair in np.lib.stride_tricks.sliding_window_view(drafts.start, 2)]
    return [draft_of(Parts(Stages(of, drafts.table[row]))) for of, row in zip(drafts.of, rows, strict=True)]


def chain_of(*stages: tuple[int, ...], **options: int) -> Draft:
    return Draft(tuple(DraftStage(members, 1, **options) for members in stages))


@pytest.mark.parametrize("seed", range(15))
def test_moves_keep_partition_order_and_devices(seed: int) -> None:
    p = random_problem(seed, largest=9)
    condensed = Condensed(p, ordered=True)
    space = Space(condensed)
    rng = random.Random(seed)
    draft = equal_chain(condensed, 2)
    everything = sorted(o for stage in draft.stages for o in stage.operators)
    for _ in range(4):
        for other in near(space, parts_of(draft)):
            assert sorted(o for stage in other.stages for o in stage.operators) == everything
            assert all(stage.operators for stage in other.stages)
            assert all(stage.host is None or other.stages[stage.host].host is None for stage in other.stages)
            assert other.devices() <= len(p.cluster.accelerators)
            assert draft_of(parts_of(other)) == other != draft
        for _ in range(3):
            draft = rng.choice(near(space, parts_of(draft)) or [draft])
        plan = realise(p, expanded(condensed, draft))
        assert math.isfinite(simulate(p, plan).makespan_s)  # neither stages nor actions wait for each other


@pytest.mark.parametrize("seed", range(8))
def test_a_first_look_says_what_the_busiest_device_computes(seed: int) -> None:
    p = random_problem(seed, largest=9)
    condensed = Condensed(p, ordered=True)
    space = Space(condensed)
    for draft in near(space, parts_of(equal_chain(condensed, 2)))[::5]:
        parts = parts_of(draft)
        busy = [0.0] * len(draft.stages)
        for number, stage in enumerate(draft.stages):
            replicas = draft.stages[number if stage.host is None else stage.host].replicas
            each_s = computing_s(p, condensed, stage, replicas)
            busy[number if stage.host is None else stage.host] += each_s * p.mini_batch / stage.micro_batch_size
        first = space.first_look(parts)
        shown = first.least_s
        assert max(busy) <= shown * (1 + 1e-9)  # which counts updates too
        assert first.allowed
        assert first.look.rough_s >= shown * (1 - 1e-9)


def test_drafts_that_differ_in_slack_alone_are_neighbours() -> None:
    """They were left out where every stage kept as many in flight as it must."""
    p = two_branches(gpus=3)
    space = Space(Condensed(p, ordered=True))
    drafts = near(space, parts_of(chain_of((0, 1, 2), (3, 4, 5, 6))))
    assert chain_of((0, 1, 2), (3, 4, 5, 6), slack=2) in drafts


@pytest.mark.parametrize("seed", range(6))
def test_the_search_is_never_worse_than_its_start_and_repeats(seed: int) -> None:
    p = random_problem(seed, largest=10)
    condensed = Condensed(p, ordered=True)
    start = Estimator(condensed).estimate(equal_chain(condensed, 2))
    results = []
    for _ in range(2):
        estimator, requests = Estimator(condensed), []

        def estimate(draft: Draft, estimator: Estimator = estimator, requests: list[Draft] = requests):
            requests.append(draft)
            return estimator.estimate(draft)

        improved = improve(condensed, equal_chain(condensed, 2), estimate, nothing, random.Random(seed), evaluations=60)
        assert len(requests) <= 60
        results.append(improved)
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
            draft = improve(condensed, start(condensed, 4), estimate, nothing, random.Random(seed), evaluations=200)
            end = SlowEstimate(condensed)(draft)
            if math.isfinite(best):
                assert end.over == 0
                distances.append(end.seconds / best - 1)
    assert sum(max(0.0, distance) for distance in distances) / len(distances) <= 0.005


def test_branches_end_up_beside_each_other() -> None:
    p = two_branches()
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    draft = improve(condensed, equal_chain(condensed, 1), estimate, nothing, random.Random(0), evaluations=150)
    stage_of = {o: i for i, stage in enumerate(draft.stages) for o in stage.operators}
    assert {stage_of[o] for o in (0, 1, 2)}.isdisjoint({stage_of[o] for o in (3, 4, 5)})


def test_what_joins_may_share_a_branch_s_devices() -> None:
    space = Space(Condensed(two_branches(gpus=2), ordered=True))
    drafts = near(space, parts_of(chain_of((0, 1, 2), (3, 4, 5, 6))))
    assert any(stage.host is not None and stage.operators == (6,) for draft in drafts for stage in draft.stages)


def test_a_start_with_more_glue_than_moves_make_is_searched_all_the_same() -> None:
    p = two_branches(gpus=2)
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    start = Draft((DraftStage((0, 1), 1), DraftStage((3, 4), 1), DraftStage((2, 5, 6), 1, host=1)))
    draft = improve(condensed, start, estimate, nothing, random.Random(0), evaluations=100)
    assert estimate(draft).seconds < estimate(start).seconds


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
    draft = improve(condensed, start, estimate, nothing, random.Random(0), evaluations=100)
    assert estimate(draft).over == 0


def test_recomputation_is_turned_on_where_memory_asks_for_it() -> None:
    graph = training_graph([(i, i + 1) for i in range(5)], 6, saved=10.0)
    options = {"mini_batch": 4, "micro_batches": 4, "recompute": True}
    p = problem(graph, [1.0] * 12, 3, memory=45.0, bandwidth=math.inf, **options)
    condensed = Condensed(p, ordered=True)
    estimate = Estimator(condensed).estimate
    draft = improve(condensed, equal_chain(condensed, 1), estimate, nothing, random.Random(0), evaluations=200)
    assert estimate(draft).over == 0
    assert any(stage.recompute for stage in draft.stages)


def test_slack_is_passed_on_to_what_comes_before() -> None:
    """A stage that keeps more in flight than the one that feeds it would wait for ever."""
    p = two_branches()
    space = Space(Condensed(p, ordered=True))
    chain = Draft((DraftStage((0, 1, 2), 1), DraftStage((3, 4, 5), 1), DraftStage((6,), 1, slack=3)))
    level = space.levelled(parts_of(chain))
    assert [stage.slack for stage in draft_of(level).stages] == [2, 2, 3]
    assert space.levelled(level) == level


def test_stages_of_a_sequence_are_cut_anew_by_branch() -> None:
    """Stages {a, d, e}, {b, c, f} and {g} become a branch each, what joins them aside."""
    space = Space(Condensed(two_branches(gpus=3), ordered=True))
    sequential = parts_of(chain_of((0, 3, 4), (1, 2, 5), (6,)))
    for leap in (False, True):
        neighbours = [{stage.operators for stage in draft.stages} for draft in near(space, sequential, leap)]
        assert {(0, 1, 2), (3, 4, 5), (6,)} in neighbours


def test_a_leap_changes_how_many_stages_there_are_or_what_they_hold() -> None:
    space = Space(Condensed(two_branches(), ordered=True))
    start = chain_of((0, 1, 2), (3, 4, 5, 6))
    few, all_of_them = near(space, parts_of(start), leap=True), near(space, parts_of(start))
    assert 0 < len(few) < len(all_of_them)
    assert set(few) <= set(all_of_them)


def test_a_stage_that_is_emptied_leaves_its_guests_to_the_heir() -> None:
    def stages(of: list[int], *hosts: int) -> Stages:
        return Stages(np.array(of), np.array([(2, 1, 0, 1, 0, host) for host in hosts]))

    def lists(stages: Stages) -> tuple[list[int], list[int]]:
        return stages.of.tolist(), stages.table[:, -1].tolist()

    assert lists(moved(stages([0, 1, 2], 0, 1, 0), 0, 1, np.array([0]))) == ([0, 0, 1], [0, 0])
    assert lists(without(stages([0, 1, 1], 0, 0), 0, 1)) == ([0, 0, 0], [0])
    guest_first = Stages(np.array([1, 1, 0]), np.array([(2, 1, 0, 1, 0, 1), (2, 2, 0, 1, 0, 1)]))
    shown = tidy(guest_first)
    assert lists(shown) == ([0, 0, 1], [0, 0])
    assert shown.table[:, 1].tolist() == [2, 2]


def test_waits_between_stages_are_those_of_the_graph() -> None:
    space = Space(Condensed(two_branches(), ordered=True))
    parts = parts_of(chain_of((0, 1, 2), (3, 4, 5), (6,)))
    after = after_of(space.near(parts.stages), parts.stages)
    assert np.argwhere(after).tolist() == [[0, 2], [1, 2]]
