"""The planner piper: exact in its own objective, and what it does where that is not the one asked for."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Shape
from solvers.pipelines.piper.costed import Costed
from solvers.pipelines.piper.dp import PiperSearch, downsets_of, least_bottleneck
from solvers.pipelines.piper.layers import layers_of
from solvers.pipelines.piper.problem_costs import problem_costs
from solvers.pipelines.piper.spare import spend_spare_devices
from solvers.pipelines.planners.piper import Piper
from solvers.plan.result import Status, StopReason
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Transfers
from tests.instances import problem, training_graph
from tests.random_problems import random_problem

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def ignore() -> None:
    return None


def least_bottleneck_s(shape: Shape, costed: Costed) -> float:
    """The least bottleneck over chains of downsets, every stage measured by itself."""
    nodes = range(len(shape))
    sets = [frozenset(s) for size in range(len(shape) + 1) for s in itertools.combinations(nodes, size)]
    downsets = [s for s in sets if all(v in s for u, v in shape.edges if u in s)]
    known: dict[tuple[frozenset[int], int, int], float] = {}

    def best(done: frozenset[int], devices: int, degrees: int) -> float:
        if len(done) == len(shape):
            return 0.0
        if (done, devices, degrees) not in known:
            value = math.inf
            for larger, option in itertools.product(downsets, range(len(costed.costs.devices))):
                k, s = devices + int(costed.costs.devices[option]), degrees + int(costed.costs.degrees[option])
                if not done < larger or k > costed.most_devices or s > costed.most_sum:
                    continue
                flights = min(-(-s // int(costed.costs.degrees[option])), int(costed.costs.flights[option]))
                stage = costed.measured(sorted(larger - done), option, flights)
                if stage is not None and stage.seconds < value:
                    value = min(value, max(stage.seconds, best(larger, k, s)))
            known[done, devices, degrees] = value
        return known[done, devices, degrees]

    return best(frozenset(), 0, 0)


def checked_spare(shape: Shape, costed: Costed, search: PiperSearch) -> int:
    """How many more devices the chain has after spending spare ones: a chain as good, of stages that fit."""
    chain = spend_spare_devices(costed, search.stages, ignore)
    assert sorted(node for stage in chain for node in stage.nodes) == list(range(len(shape)))
    number = {node: i for i, stage in enumerate(chain) for node in stage.nodes}
    assert all(number[u] <= number[v] for u, v in shape.edges)
    degrees = 0
    for stage in reversed(chain):
        degrees += int(costed.costs.degrees[stage.option])
        assert stage.flights == min(
            -(-degrees // int(costed.costs.degrees[stage.option])), int(costed.costs.flights[stage.option])
        )
        assert stage == costed.measured(stage.nodes, stage.option, stage.flights)
    assert max(stage.seconds for stage in chain) <= search.bottleneck_s
    used, before = (sum(int(costed.costs.devices[s.option]) for s in stages) for stages in (chain, search.stages))
    assert before <= used <= costed.most_devices
    return used - before


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_it_finds_the_least_bottleneck_of_its_model(whole: bool, beside: bool) -> None:
    several = again = 0
    for seed in range(120):
        p = random_problem(
            seed, 5, training=True, mini_batch=8, micro_batches=8, max_replicas=3, recompute=seed % 3 > 0,
            memory=[40.0, 70.0, 120.0, math.inf][seed % 4], contiguity=Contiguity.ACYCLIC,
        )  # fmt: skip
        condensed = Condensed(p, ordered=True)
        costed = problem_costs(condensed, 1, whole=whole, beside=beside, merge_trivial=False)
        shape = condensed.at(1, merge_trivial=False).shape
        search = least_bottleneck(downsets_of(shape, ignore), costed, ignore)
        assert search.bottleneck_s == pytest.approx(least_bottleneck_s(shape, costed), rel=1e-8), seed
        several += len(search.stages) > 1
        again += any(stage.recomputed for stage in search.stages)
        if search.stages:
            checked_spare(shape, costed, search)
    assert (several > 12, again > 5) == (True, True)


def test_devices_left_over_split_the_longest_stages() -> None:
    """One operator sets the bottleneck, the others together take less than it."""
    graph = training_graph([(i, i + 1) for i in range(4)], 5, nbytes=0.01)
    p = problem(graph, [9.0, 2.0, 2.0, 2.0, 2.0] * 2, 4, bandwidth=1e3, mini_batch=8, micro_batches=8)
    condensed = Condensed(p, ordered=True)
    costed, shape = problem_costs(condensed, 1), condensed.at(1).shape
    search = least_bottleneck(downsets_of(shape, ignore), costed, ignore)
    assert [stage.nodes for stage in search.stages] == [(0,), (1, 2, 3, 4)]
    assert checked_spare(shape, costed, search) == 2
    assert spend_spare_devices(costed, search.stages, ignore)[0].nodes == (0,)


def test_with_ample_memory_its_bottleneck_is_the_exact_max_load() -> None:
    replicated = 0
    for seed in range(40):
        p = random_problem(
            seed, 4, objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, contiguity=Contiguity.ACYCLIC, cpus=0,
            pipeline=Pipeline.ONE_F_ONE_B, memory=math.inf, mini_batch=4, micro_batches=4, max_replicas=1 + seed % 3,
        )  # fmt: skip
        result, exact = solve(p, "piper"), solve(p, "downset-dp")
        assert result.objective_s == pytest.approx(exact.objective_s, rel=1e-8), seed
        replicated += any(len(stage.devices) > 1 for stage in result.plan.stages)
    assert replicated > 3


def test_a_stage_recomputes_where_memory_is_short_and_only_where_it_may() -> None:
    # Each operator holds 4 bytes of parameters all the time and saves 20 bytes for every micro-batch in flight.
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=0.1, param_bytes=1.0, saved=20.0)
    p = problem(graph, [1.0] * 8, 4, bandwidth=1e3, mini_batch=4, micro_batches=4, memory=60.0, training=True)
    assert solve(p, "piper").plan is None or not any(s.recompute for s in solve(p, "piper").plan.stages)
    result = solve(replace(p, recompute=True), "piper")
    assert any(stage.recompute for stage in result.plan.stages)
    assert check(replace(p, recompute=True), result.plan) == ()


def test_replicas_take_whole_micro_batches_where_stages_may_differ() -> None:
    """A sample cannot be shared here, but two replicas can take micro-batches of one sample in turn."""
    graph = training_graph([(0, 1)], 2, nbytes=0.01)
    p = problem(graph, [6.0, 1.0] * 2, 4, bandwidth=1e3, mini_batch=8, micro_batches=8, max_replicas=4)
    table = {"gpu": np.hstack([p.compute.seconds["gpu"], 2 * p.compute.seconds["gpu"]])}
    p = replace(p, compute=ComputeTable((1, 2), table))
    alone, mixed = solve(p, "piper"), solve(replace(p, mixed_micro_batches=True), "piper")
    assert {len(stage.devices) for stage in alone.plan.stages} == {1}
    assert {(s.micro_batch_size, len(s.devices)) for s in mixed.plan.stages} == {(1, 1), (3, 3)} or any(
        stage.micro_batch_size == len(stage.devices) > 1 for stage in mixed.plan.stages
    )
    assert mixed.objective_s < alone.objective_s


def test_it_says_how_much_it_searched() -> None:
    p = problem(training_graph(DIAMOND, 4), [1, 2, 3, 4] * 2, 2, mini_batch=4, micro_batches=4)
    (note,) = solve(p, "piper").notes
    # The sink first, then either of two branches or both, then the source.
    assert note.startswith("piper: 6 downsets, ")
    assert note.endswith(" relaxations")


def test_above_its_limit_it_plans_layers_or_says_no() -> None:
    p = problem(training_graph(DIAMOND, 4), [1, 2, 3, 4] * 2, 2, mini_batch=4, micro_batches=4)
    refused = solve(p, Piper(limit=5, layers=False))
    assert (refused.status, refused.stop_reason) == (Status.NO_PLAN, StopReason.STATE_LIMIT)
    assert "more than 5 downsets" in refused.notes[-1]
    fork = problem(training_graph([(0, 1), (0, 2), (1, 3)], 4), [1, 2, 3, 4] * 2, 2, mini_batch=4, micro_batches=4)
    result = solve(fork, Piper(limit=5))
    assert check(fork, result.plan) == ()
    assert "the operators have more than 5 downsets: they are planned as 3 layers" in result.notes


def test_layers_are_modules_and_then_joined_on_chains() -> None:
    """Two branches of six operators each, in three modules of two; source and sink are by themselves."""
    chains = [[0, *range(1, 7), 13], [0, *range(7, 13), 13]]
    graph = training_graph([edge for chain in chains for edge in itertools.pairwise(chain)], 14)
    operators = [
        replace(o, module_path=f"branch{(i - 1) // 6}.layer{(i - 1) % 6 // 2}.inner" if 0 < i < 13 else "")
        for i, o in enumerate(graph.operators[:14])
    ]
    p = problem(replace(graph, operators=(*operators, *graph.operators[14:])), [1.0] * 28)
    by_limit = {limit: layers_of(p, limit, ignore) for limit in (100, 51, 18, 17, 6, 3)}
    # Besides none and everything: any number of the layers of both branches behind the sink.
    assert {limit: joined and (joined.count, joined.downsets) for limit, joined in by_limit.items()} == {
        100: (14, 51), 51: (14, 51), 18: (8, 18), 17: (7, 14), 6: (4, 6), 3: None,
    }  # fmt: skip
    for layer in ({1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}):
        assert len({by_limit[18].block[o] for o in layer}) == 1
