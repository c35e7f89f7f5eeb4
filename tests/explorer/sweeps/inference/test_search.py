"""Replicas, stages and batches of a decoder: exact on what can be counted by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from explorer.exports.launchers.vllm import vllm
from explorer.question.clusters import make_cluster
from explorer.question.settings import Settings
from explorer.sweeps.inference.decoder import Decoder, graph_holding
from explorer.sweeps.inference.points import best_within, pareto_front
from explorer.sweeps.inference.search import _split, partitioned, pass_seconds, serve, token_seconds
from explorer.sweeps.inference.units import layer_of
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.memory_parts import memory_parts
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import PlanFile
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.problem.graph import CACHED_ATTENTION
from solvers.schedules.assemble import assemble
from solvers.verify import verify

SETTINGS = Settings(devices=4, device_kind="H100-80GB", training=False)


@pytest.fixture(scope="module")
def decoder():
    return Decoder("llama-small", 8, 512, dtype="bf16")


@pytest.fixture(scope="module")
def plain():
    """Every operator is in one stage: nothing is copied."""
    return Decoder("gpt-small", 8, 512, dtype="bf16")


@pytest.fixture(scope="module")
def served(decoder):
    return serve(decoder, SETTINGS)


def split_of(decoder, stages, memory_bytes=None, counts=True):
    settings = replace(SETTINGS, devices=stages, memory_bytes=memory_bytes)
    phases = decoder.at(1)
    return _split(phases, settings, make_cluster(phases.decode, settings), 1, stages, counts)


def cuts_of(problem, stages):
    """Every way to give consecutive layers to stages, as a plan; what is before is in the first, all else in the
    last."""
    layers = layer_of(problem.graph)
    count = max(layer for layer in layers if layer is not None) + 1
    after = {o for o in range(len(problem.graph)) if layers[o] is None and _follows(problem.graph, layers, o)}
    for inner in combinations(range(1, count), stages - 1):
        bounds = (0, *inner, count)
        stage = {layer: s for s, (first, end) in enumerate(pairwise(bounds)) for layer in range(first, end)}
        place = [
            (stage[layer] if layer is not None else stages - 1 if o in after else 0,) for o, layer in enumerate(layers)
        ]
        yield bounds, assemble(problem, place, problem.micro_batches)


def _follows(graph, layers, o):
    seen, todo = set(), [o]
    while todo:
        for before in graph.predecessors[todo.pop()]:
            if layers[before] is not None:
                return True
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return False


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("micro_batch", [1, 64])
def test_the_partition_is_the_best_of_all_contiguous_ones(plain, stages, micro_batch):
    problem = split_of(plain, stages).question(micro_batch)
    result = partitioned(problem)
    every = [evaluate(problem, plan).max_load_s for _, plan in cuts_of(problem, stages)]
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(min(every), rel=1e-12)


@pytest.mark.parametrize("stages", [2, 3])
def test_and_the_best_of_those_that_fit_with_their_cache(plain, stages):
    roomy = split_of(plain, stages).question(256)
    peaks = sorted(max(evaluate(roomy, plan).peak_memory_bytes) for _, plan in cuts_of(roomy, stages))
    for cap in (peaks[0] * 0.99, peaks[0] * 1.03, peaks[len(peaks) // 2] * 1.03):
        devices = tuple(replace(one, memory_bytes=cap) for one in roomy.cluster.devices)
        problem = replace(roomy, cluster=replace(roomy.cluster, devices=devices))
        fit = [
            expected.max_load_s
            for expected in (evaluate(problem, plan) for _, plan in cuts_of(problem, stages))
            if max(expected.peak_memory_bytes) <= cap
        ]
        result = partitioned(problem)
        assert (result.plan is None) == (not fit)
        if fit:
            assert result.objective_s == pytest.approx(min(fit), rel=1e-12)
            assert max(evaluate(problem, result.plan).peak_memory_bytes) <= cap


def test_time_per_token_is_that_of_the_slowest_stage_in_turn_or_of_a_whole_pass(decoder):
    split = split_of(decoder, 2)
    problem = split.question(4)
    plan = partitioned(problem).plan
    table = problem.compute.at("H100-80GB", 4)
    stages = [table[list(stage.operators)].sum() for stage in plan.stages]
    passing = pass_seconds(problem, plan, 4)
    assert passing > sum(stages), "messages take time"
    busiest = evaluate(problem, plan).max_load_s * 4
    assert token_seconds(problem, plan) == pytest.approx(max(2 * busiest, passing))


@pytest.mark.slow
def test_what_is_in_flight_is_in_the_cache_of_its_stages(served):
    for point in served.points:
        layers = sum(point.layers)
        per_layer = 2 * 2 * 8 * 512 * 2 / point.tensor
        own = point.micro_batch * point.pipeline
        assert point.cache_bytes == tuple(n * per_layer * own for n in point.layers)
        assert layers == 4
        assert all(peak > cache for peak, cache in zip(point.peak_bytes, point.cache_bytes, strict=True))
        problem = point.result.problem
        parts = memory_parts(problem, point.plan, evaluate(problem, point.plan).peak_memory_bytes)
        assert [part["KV cache"] for part in parts] == list(point.cache_bytes)
        assert check(problem, point.plan) == ()


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_a_cache_that_is_left_out_or_halved_is_refused(decoder, share):
    problem = split_of(decoder, 2).question(4)
    plan = partitioned(problem).plan
    schedule = simulate(problem, plan)
    assert verify(problem, plan, schedule) == ()
    operators = tuple(
        replace(one, buffer_bytes=one.buffer_bytes * share) if one.op_type == CACHED_ATTENTION else one
        for one in problem.graph.operators
    )
    wrong = replace(problem, graph=replace(problem.graph, operators=operators))
    assert "KV cache" in verify(wrong, plan, simulate(wrong, plan))[0]
    with pytest.raises(InvalidPlan, match="KV cache"):
        partitioned(wrong)


def test_a_schedule_whose_memory_leaves_the_cache_out_is_refused(decoder):
    problem = split_of(decoder, 2).question(4)
    plan = partitioned(problem).plan
    plain = replace(problem, graph=split_of(decoder, 2).decode.graph)
    assert any("memory" in one or "bytes" in one for one in verify(problem, plan, simulate(plain, plan)))


def test_a_cap_between_moves_layers_away_from_stages_whose_cache_is_too_large(decoder):
    counted = split_of(decoder, 2).question(256)
    plain = split_of(decoder, 2, counts=False).question(256)
    free = partitioned(plain)
    lone = max(evaluate(counted, free.plan).peak_memory_bytes)
    devices = tuple(replace(one, memory_bytes=lone * 0.9) for one in counted.cluster.devices)
    capped = partitioned(replace(counted, cluster=replace(counted.cluster, devices=devices)))
    same = partitioned(replace(plain, cluster=replace(plain.cluster, devices=devices)))
    assert same.objective_s == free.objective_s, "without its cache the partition stays"
    assert capped.plan is None or max(evaluate(counted, capped.plan).peak_memory_bytes) <= lone * 0.9


def test_vllm_is_given_the_layers_of_each_stage(served, decoder):
    for point in served.points:
        if point.micro_batch == 1:
            shown = vllm(PlanFile(point.result.problem, point.plan, point.result, decoder.name))
            assert f"VLLM_PP_LAYER_PARTITION={','.join(map(str, point.layers))}\n" in shown.text


def test_the_front_is_of_points_that_no_other_beats(served):
    front = served.front
    for point in served.points:
        beaten = any(one.token_s <= point.token_s and one.tokens_per_s >= point.tokens_per_s for one in front)
        assert beaten
    for one, other in pairwise(front):
        assert one.token_s < other.token_s
        assert one.tokens_per_s < other.tokens_per_s
    assert list(front) == pareto_front(list(reversed(served.points)))


def test_the_answer_is_the_largest_throughput_within_the_limit(served):
    middle = served.front[len(served.front) // 2]
    assert served.best(middle.token_s) is middle
    assert served.best() is max(served.points, key=lambda one: one.tokens_per_s)
    assert best_within(served.points, 0.0) is None


def test_replicas_use_all_devices(served):
    assert {point.devices for point in served.points} == {4}
    assert {(point.tensor, point.pipeline) for point in served.points} >= {(1, 1), (1, 2), (1, 4), (2, 1), (2, 2)}
    assert (4, 1) in served.reasons, "two heads of keys are not divided over four devices"


def test_the_largest_batch_fills_the_memory(decoder):
    tight = serve(decoder, replace(SETTINGS, devices=1, memory_bytes=24e6))
    most = max(tight.points, key=lambda one: one.micro_batch)
    assert 128 < most.micro_batch < 256, "131,072 B a sequence, beside 0.1 MB of weights"
    assert max(most.peak_bytes) <= 24e6
    assert serve(decoder, replace(SETTINGS, devices=1, memory_bytes=1e5)).points == ()


def test_what_holds_the_cache_is_counted_by_sequence(decoder):
    phases = decoder.at(1)
    graph = graph_holding(phases.decode.graph, phases.cache, 7)
    assert (
        sum(o.buffer_bytes for o in graph.operators) - sum(o.buffer_bytes for o in phases.decode.graph.operators)
        == 7 * phases.cache_bytes
    )
