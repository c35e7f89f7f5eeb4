"""Sequential pipelines for the iteration: the best cut of a chain, and stages that keep to an order."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.sequential import in_sequence, sequential_problems
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.pipelines.descent.space import Space, parts_of
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Pipeline
from solvers.schedules.realise import realise
from tests.instances import problem, training_graph
from tests.random_problems import random_graph


def chain(seed, *, operators=5, gpus=3, **options):
    """A training chain with drawn seconds; stages may be replicated, and one sample is many."""
    rng = random.Random(seed)
    edges = [(i, i + 1) for i in range(operators - 1)]
    graph = training_graph(edges, operators, nbytes=rng.choice([0.5, 2.0]), param_bytes=8.0, saved=3.0)
    seconds = [float(rng.randint(1, 9)) for _ in range(2 * operators)]
    options = {
        "mini_batch": 8,
        "micro_batches": rng.choice([2, 4, 8]),
        "bandwidth": 4.0,
        "max_replicas": gpus,
    } | options
    return problem(graph, seconds, gpus, objective=Objective.ITERATION, **options)


def every_plan(p, operators):
    """All cuts of a chain into stages, with all numbers of replicas and a few of micro-batches in flight."""
    size = p.mini_batch // p.micro_batches
    gpus = len(p.cluster.accelerators)
    degrees = [r for r in range(1, gpus + 1) if p.can_share(size, r)]
    for parts in range(1, min(operators, gpus) + 1):
        for cuts in itertools.combinations(range(1, operators), parts - 1):
            ends = list(itertools.pairwise((0, *cuts, operators)))
            for replicas in itertools.product(degrees, repeat=parts):
                if sum(replicas) > gpus:
                    continue
                for times in (0, 1, 2):
                    yield Draft(
                        tuple(
                            DraftStage(
                                tuple(o + phase for phase in (0, operators) for o in range(begin, end)),
                                size,
                                r,
                                slack=times * (parts - number),
                            )
                            for number, ((begin, end), r) in enumerate(zip(ends, replicas, strict=True))
                        )
                    )


@pytest.mark.parametrize("seed", range(10))
def test_on_tiny_chains_it_finds_the_best_of_all_cuts(seed):
    p = chain(seed, operators=4)
    best = min(judge(p, realise(p, draft)).objective_s for draft in every_plan(p, 4))
    result = solve(p, PipeDreamIteration())
    assert result.objective_s <= best * (1 + 1e-9)
    assert check(p, result.plan) == ()


def test_stages_are_runs_of_one_of_its_orders():
    p = problem(training_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4), [2, 5, 4, 3] * 2, 3, mini_batch=4, micro_batches=4)
    condensed = Condensed(p, ordered=True)
    space = Space(condensed, (0, 1, 2, 3))
    branched = Draft(tuple(DraftStage(nodes, 1) for nodes in ((0, 2), (1,), (3,))))
    assert Space(condensed).allows(parts_of(branched))
    assert not space.allows(parts_of(branched))
    assert space.allows(parts_of(Draft(tuple(DraftStage(nodes, 1) for nodes in ((0, 1), (2,), (3,))))))


def test_memory_asks_for_recomputation_only_where_it_must():
    tight = chain(1, memory=110.0, max_replicas=1, micro_batches=4)
    without, allowed = solve(tight, "pipedream-iter"), solve(replace(tight, recompute=True), "pipedream-iter")
    assert without.plan is None or allowed.objective_s <= without.objective_s
    assert allowed.plan is not None
    assert check(replace(tight, recompute=True), allowed.plan) == ()
    roomy = replace(chain(1, max_replicas=1, micro_batches=4), recompute=True)
    assert not any(stage.recompute for stage in solve(roomy, "pipedream-iter").plan.stages)


def test_more_in_flight_hides_transfers_between_neighbours():
    """Four equal stages: one more for every stage that follows takes the transfers out of the rhythm."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0)
    p = problem(graph, [4.0] * 4 + [8.0] * 4, 4, mini_batch=32, micro_batches=32, bandwidth=1.0)

    def iteration_s(slack):
        stages = tuple(DraftStage((i, 4 + i), 1, slack=slack(4 - i)) for i in range(4))
        return judge(p, realise(p, Draft(stages))).objective_s

    assert iteration_s(lambda depth: 2) > 32 * 12 + 3 * 12 + 2 * 3 + 31  # as many more on all stages hides nothing
    assert iteration_s(lambda depth: depth) == 32 * 12 + 3 * 12 + 2 * 3


def test_it_refuses_a_cluster_without_accelerators_and_options_without_sense():
    p = problem(training_graph([(0, 1)], 2), [1, 1, 1, 1], 0, cpus=2)
    assert "accelerators" in PipeDreamIteration().unsupported(p)
    with pytest.raises(ValueError, match="orders must be at least 1"):
        PipeDreamIteration(orders=0)


@pytest.mark.parametrize("pipeline", list(Pipeline))
def test_every_pipeline_is_planned(pipeline):
    p = replace(chain(3, max_replicas=1), pipeline=pipeline)
    result = solve(p, "pipedream-iter")
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert check(p, result.plan) == ()


def diamond(branch_s):
    """Two branches side by side between a and f: b, c and d, e."""
    graph = training_graph([(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)], 6, nbytes=0.01)
    return problem(graph, [1, *[branch_s] * 4, 1] * 2, 6, mini_batch=8, micro_batches=8)


def test_in_sequence_stages_wait_though_they_read_nothing():
    p = diamond(4.0)
    order = [0, 1, 2, 3, 4, 5]
    q = in_sequence(p, order)
    draft = Draft(tuple(DraftStage((i, 6 + i), 1) for i in order))
    side_by_side, one_by_one = realise(p, draft), realise(q, draft)
    assert [stage.in_flight for stage in side_by_side.stages] == [4, 3, 2, 3, 2, 1]
    assert [stage.in_flight for stage in one_by_one.stages] == [6, 5, 4, 3, 2, 1]
    spans = {span.action: span for span in simulate(q, one_by_one).spans}
    for j in range(8):
        for a, b in itertools.pairwise(range(6)):
            assert spans[f"{b}F{j}"].start_s >= spans[f"{a}F{j}"].end_s
            assert spans[f"{a}B{j}"].start_s >= spans[f"{b}B{j}"].end_s
    assert judge(q, one_by_one).objective_s > judge(p, side_by_side).objective_s


def test_a_chain_in_sequence_is_the_chain():
    p = chain(5, max_replicas=1)
    (q,) = sequential_problems(p)
    assert solve(q, "pipedream-iter").objective_s == pytest.approx(solve(p, "pipedream-iter").objective_s)


@pytest.mark.parametrize("seed", range(10))
def test_sequences_of_any_graph_keep_all_rules(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 5, training=True)
    p = problem(graph, [float(rng.randint(1, 9)) for _ in graph.operators], 3, mini_batch=4, micro_batches=None)
    for q in sequential_problems(p, 2):
        result = solve(q, PipeDreamIteration(orders=1))
        assert check(q, result.plan) == ()
        assert np.isfinite(result.objective_s)
