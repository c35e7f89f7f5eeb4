"""GPipe, data parallelism alone and equal splits: what they are, and what they say when they cannot."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest

from solvers.evaluation.evaluate import evaluate, judge
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.planners.data_parallel import DataParallel
from solvers.pipelines.planners.gpipe import GPipe, balanced_cut
from solvers.pipelines.planners.pipedream import PipeDream
from solvers.plan.drafts import Draft, DraftStage
from solvers.planners.baselines import EqualSplit
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Pipeline
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor
from tests.instances import problem, training_graph


def chain(operators, gpus, *, seconds=None, nbytes=0.0, **options):
    """A training chain whose operators take 1 s forward and 2 s backward per sample."""
    graph = training_graph(
        [(i, i + 1) for i in range(operators - 1)], operators, nbytes=nbytes, param_bytes=8.0, saved=4.0
    )
    seconds = seconds or [1.0] * operators + [2.0] * operators
    return problem(graph, seconds, gpus, objective=Objective.ITERATION, **({"bandwidth": 4.0} | options))


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 4), (4, 16)])
def test_the_bubble_of_gpipe_on_an_even_chain(stages, micro_batches):
    """(S - 1) / (M + S - 1): Huang et al., NeurIPS 2019, section 2.3."""
    p = chain(stages, stages, mini_batch=micro_batches, micro_batches=micro_batches)
    result = solve(p, "gpipe")
    assert result.plan.pipeline == "gpipe"
    assert evaluate(p, result.plan).bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1))
    assert [stage.in_flight for stage in result.plan.stages] == [micro_batches] * stages


@pytest.mark.parametrize("pipeline", list(Pipeline))
def test_gpipe_runs_all_forwards_first_whatever_the_pipeline_is(pipeline):
    p = chain(4, 2, mini_batch=4, micro_batches=4, pipeline=pipeline)
    result = solve(p, "gpipe")
    assert check(p, result.plan) == ()
    assert ["".join(a.kind for a in order) for order in result.plan.order] == ["FFFFBBBB"] * 2


def test_gpipe_recomputes_only_if_memory_asks_for_it():
    p = chain(4, 2, nbytes=0.5, mini_batch=8, micro_batches=8, recompute=True)
    assert not any(stage.recompute for stage in solve(p, "gpipe").plan.stages)
    tight = replace(p, cluster=chain(4, 2, memory=100.0).cluster)  # 64 of parameters, 8 x 8 of activations
    result = solve(tight, "gpipe")
    assert all(stage.recompute for stage in result.plan.stages)
    assert check(tight, result.plan) == ()
    without = solve(replace(tight, recompute=False), "gpipe")
    assert without.plan is None
    assert any("recomputation is not allowed" in note for note in without.notes)


@pytest.mark.parametrize("seed", range(30))
def test_a_balanced_cut_has_the_least_largest_part_and_then_the_least_variance(seed):
    rng = random.Random(seed)
    weights = [float(rng.randint(0, 9)) for _ in range(rng.randint(1, 8))]
    parts = rng.randint(1, 5)
    best = (math.inf, math.inf)
    count = min(parts, len(weights))
    for cuts in itertools.combinations(range(1, len(weights)), count - 1):
        sums = [sum(weights[a:b]) for a, b in itertools.pairwise((0, *cuts, len(weights)))]
        best = min(best, (max(sums), sum(s * s for s in sums)))
    ends, _ = balanced_cut(weights, parts)
    sums = [sum(weights[a:b]) for a, b in itertools.pairwise((0, *ends))]
    assert len(ends) == count
    assert (max(sums), sum(s * s for s in sums)) == best


def test_data_parallel_is_one_stage_on_all_devices():
    p = chain(4, 4, mini_batch=8, micro_batches=2, max_replicas=4)
    result = solve(p, "data-parallel")
    (stage,) = result.plan.stages
    assert stage.devices == (0, 1, 2, 3)
    assert result.objective_s == pytest.approx(2 * 4 * 3 * 1 + 2 * 3 / 4 * 32 / 4.0)  # and the gradients' ring
    assert solve(replace(p, max_replicas=2), "data-parallel").plan.devices_used() == (0, 1)


def test_data_parallel_accumulates_gradients_or_recomputes_where_activations_do_not_fit():
    p = chain(4, 2, mini_batch=8, micro_batches=None, max_replicas=2, memory=128 + 33.0)
    result = solve(p, "data-parallel")
    # 4: 2 samples of 16 bytes each, beside 128 of states; fewer take as long here and hold less
    assert result.plan.stages[0].micro_batch_size <= 4
    assert result.plan.stages[0].devices == (0, 1)
    tight = replace(p, micro_batches=1, recompute=True, cluster=chain(4, 2, memory=128 + 70.0).cluster)
    assert check(tight, solve(tight, "data-parallel").plan) == ()


def test_data_parallel_says_why_it_cannot():
    p = chain(4, 2, mini_batch=4, micro_batches=1)
    assert "allow replicas" in DataParallel().unsupported(p)
    small = replace(p, max_replicas=2, cluster=chain(4, 2, memory=127.0).cluster)
    assert "more than its memory" in DataParallel().unsupported(small)
    activations = replace(p, max_replicas=2, cluster=chain(4, 2, memory=130.0).cluster)
    result = solve(activations, "data-parallel")
    assert result.plan is None
    assert any("do not fit on 2 devices" in note for note in result.notes)
    assert "none" in DataParallel().unsupported(chain(2, 0, cpus=1))


def test_equal_split_tries_every_even_mix_of_stages_and_replicas():
    p = chain(8, 4, nbytes=0.1, mini_batch=8, micro_batches=None, max_replicas=4, bandwidth=20.0)
    tried = []
    best = math.inf
    for replicas, count in itertools.product((1, 2, 4), (1, 2, 4, 8)):
        per_stage = 8 * replicas // 4
        stages = [range(first, first + per_stage) for first in range(0, 8, per_stage)]
        draft = Draft(tuple(DraftStage((*s, *(o + 8 for o in s)), 8 // count, replicas) for s in stages))
        shown = judge(p, realise(p, draft)).objective_s
        tried.append(shown)
        best = min(best, shown)
    assert solve(p, EqualSplit()).objective_s == pytest.approx(best)
    assert max(tried) > best
    alone = solve(replace(p, max_replicas=1), EqualSplit()).plan
    assert [len(stage.operators) for stage in alone.stages] == [4, 4, 4, 4]


def test_equal_split_recomputes_only_if_memory_asks_for_it():
    p = chain(4, 2, nbytes=0.5, mini_batch=8, micro_batches=2, recompute=True, memory=85.0)
    result = solve(p, EqualSplit())
    assert result.plan is None or check(p, result.plan) == ()
    roomy = replace(p, cluster=chain(4, 2).cluster)
    assert not any(stage.recompute for stage in solve(roomy, EqualSplit()).plan.stages)


def test_pipedream_replicates_a_heavy_operator_where_it_may():
    """One operator of four takes as long as the others together: two devices share it."""
    seconds = [1.0, 9.0, 1.0, 1.0, 2.0, 18.0, 2.0, 2.0]
    p = chain(4, 3, seconds=seconds, mini_batch=12, micro_batches=12, bandwidth=100.0)
    alone, shared = solve(p, PipeDream()), solve(replace(p, max_replicas=2), PipeDream())
    assert max(len(stage.devices) for stage in shared.plan.stages) == 2
    assert shared.objective_s < 0.7 * alone.objective_s


def test_moved_boundaries_keep_replicas_slack_and_recomputation():
    p = chain(6, 3, nbytes=0.01, mini_batch=64, micro_batches=32, max_replicas=2, recompute=True, bandwidth=50.0)
    lopsided = Draft(
        (
            DraftStage((0, 1, 2, 3, 4, 6, 7, 8, 9, 10), 2, 2, recompute=True, slack=2),
            DraftStage((5, 11), 2, 1, slack=1),
        )
    )
    monitor = Monitor(p)
    before = monitor.offer(realise(p, lopsided))
    improve(p, monitor)
    assert monitor.objective_s < before
    first, second = monitor.best.stages
    assert (len(first.devices), first.recompute, first.in_flight) == (2, True, 4)
    assert (len(second.devices), second.recompute, second.in_flight) == (1, False, 2)
    assert len(second.operators) > 2
    assert check(p, monitor.best) == ()


@pytest.mark.parametrize("planner", [GPipe(), EqualSplit(), PipeDream()])
def test_what_they_do_is_the_same_every_time(planner):
    p = chain(5, 3, nbytes=0.2, mini_batch=8, micro_batches=None)
    assert solve(p, planner).plan == solve(p, planner).plan
