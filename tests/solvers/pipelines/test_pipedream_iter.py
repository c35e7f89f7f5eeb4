"""Sequential pipelines for the iteration: what the search believes is what the simulation says."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import topological_orders
from solvers.contiguous.sequential import in_sequence, sequential_problems
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.pipelines.chain.iteration_chain import CutSearch
from solvers.pipelines.chain.lines import cost_order, rules_of
from solvers.pipelines.costs import degrees_of
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


def searched(p, count):
    condensed = Condensed(p, ordered=True)
    contracted = condensed.at(p.mini_batch // count, merge_trivial=False)
    nodes = topological_orders(contracted.shape, 1)[0][::-1].tolist()
    order = cost_order(condensed, contracted, nodes, len(nodes), degrees_of(p, contracted.samples))
    return CutSearch(order, rules_of(p, count), lambda: None)


def every_cut(search):
    atoms, degrees = len(search.order.atoms), search.order.line.degrees.tolist()
    for parts in range(1, min(atoms, search.rules.devices) + 1):
        for cuts in itertools.combinations(range(1, atoms), parts - 1):
            ends = (*cuts, atoms)
            for which in itertools.product(range(len(degrees)), repeat=parts):
                if sum(degrees[d] for d in which) <= search.rules.devices:
                    yield tuple(zip((0, *cuts), ends, which, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_the_simulation_of_cuts_is_the_full_one_where_links_are_not_crowded(seed):
    p = chain(seed, bandwidth=1e3)
    search = searched(p, p.micro_batches)
    for stages in list(every_cut(search))[seed % 7 :: 23]:
        for slack in (0, 1):
            cut = search.judged(stages, slack)
            told = judge(p, realise(p, Draft(search.draft(cut))))
            assert told.feasible
            assert cut.iteration_s == pytest.approx(told.objective_s, rel=2e-3)


@pytest.mark.parametrize("seed", range(8))
def test_the_least_path_is_the_least_of_all_cuts(seed):
    p = chain(seed)
    search = searched(p, p.micro_batches)
    line, micro_batches = search.order.line, p.micro_batches

    def sums(stages):
        """(longest stage, path of one micro-batch to the last synchronisation, the same of all)."""
        one = whole = path = 0.0
        for begin, end, d in reversed(stages):
            forward = line.forward_s[d, end] - line.forward_s[d, begin]
            backward = line.backward_s[d, end] - line.backward_s[d, begin]
            sync = line.sync_s[d] + line.sync_s_per_byte[d] * (line.param_bytes[end] - line.param_bytes[begin])
            sent, back = line.sent_s[d, begin, end], line.returned_s[d, begin, end]
            path += forward + sent + back + backward
            one = max(forward + sent + one, path + sync)
            whole = max(forward + sent + whole + back + backward, micro_batches * (forward + backward) + sync)
        return max(search._seconds(*stage) for stage in stages), one, whole

    told = {stages: sums(stages) for stages in every_cut(search)}
    tightest = min(longest for longest, _, _ in told.values())
    for ceiling in (math.inf, tightest * 1.3, tightest * (1 + 1e-9)):
        found = search.shortest(ceiling)
        assert found is not None
        allowed = [one for longest, one, _ in told.values() if longest <= ceiling]
        assert told[found.stages][1] == pytest.approx(min(allowed))
    eager = search.shortest(math.inf, lockstep=False)
    assert eager is not None
    assert told[eager.stages][2] == pytest.approx(min(whole for _, _, whole in told.values()))
    assert search.shortest(tightest * 0.99) is None


@pytest.mark.parametrize("seed", range(10))
def test_on_tiny_chains_it_finds_the_best_of_all_cuts(seed):
    p = chain(seed, operators=4)
    search = searched(p, p.micro_batches)
    drafts = [search.draft(search.judged(stages, slack)) for stages in every_cut(search) for slack in (0, 1, 2)]
    best = min(judge(p, realise(p, Draft(stages))).objective_s for stages in dict.fromkeys(drafts))
    found = solve(p, PipeDreamIteration())
    assert found.objective_s == pytest.approx(best, rel=5e-3)
    assert check(p, found.plan) == ()


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
    with pytest.raises(ValueError, match="atoms must be at least 1"):
        PipeDreamIteration(atoms=0)


@pytest.mark.parametrize("pipeline", list(Pipeline))
def test_every_pipeline_is_planned(pipeline):
    p = replace(chain(3, max_replicas=1), pipeline=pipeline)
    found = solve(p, "pipedream-iter")
    assert found.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert check(p, found.plan) == ()


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
        found = solve(q, PipeDreamIteration(orders=1))
        assert check(q, found.plan) == ()
        assert np.isfinite(found.objective_s)
