"""What of a plan runs again or goes to the host so that it fits: the least that there is, by trying all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from solvers.evaluation.evaluate import evaluate, judge
from solvers.evaluation.simulation import simulate
from solvers.pipelines.recomputation.choices import Choices, choices_of
from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.plan import Plan, Region
from solvers.plan.regions import with_regions
from solvers.planners.check import check
from solvers.problem.graph import Amount
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.assemble import assemble
from tests.instances import GPU, problem, training_graph
from tests.random_problems import random_graph

CLOSE = 2e-3


def with_memory(p: Problem, nbytes: float) -> Problem:
    devices = tuple(replace(device, memory_bytes=nbytes) for device in p.cluster.devices)
    return replace(p, cluster=replace(p.cluster, devices=devices))


def random_problem(seed: int) -> Problem:
    """Up to five forward operators on one device, in two to four micro-batches."""
    rng = random.Random(f"recompute {seed}")
    graph = random_graph(rng, rng.randint(3, 5), training=True)
    count = rng.choice([2, 4])
    seconds = [float(rng.randint(1, 9)) for _ in graph.operators]
    return problem(
        graph, seconds, 1, mini_batch=count, micro_batches=count, pipeline=Pipeline.GPIPE, recompute_operators=True
    )


def ways(choices: Choices, first: int = 0) -> Iterator[tuple[Region, ...]]:
    """All regions that a stage may have from a segment on, in which something runs again."""
    segments = max(choices.segment) + 1
    if first >= segments:
        yield ()
        return
    for rest in ways(choices, first + 1):
        yield rest
    for span in choices.spans:
        if span.first != first:
            continue
        inside = [choices.operators[at] for at in choices.inside(span)]
        for flags in product((False, True), repeat=len(inside)):
            if all(flags):
                continue
            region = Region(tuple(inside), tuple(o for o, is_saved in zip(inside, flags, strict=True) if is_saved))
            for rest in ways(choices, span.last + 1):
                yield (region, *rest)


def with_these(plan: Plan, regions: tuple[Region, ...]) -> Plan:
    return replace(plan, stages=(replace(plan.stages[0], regions=regions), *plan.stages[1:]))


def again_s(p: Problem, plan: Plan) -> float:
    """Seconds that a micro-batch runs again."""
    recomputed = with_regions(p, plan)
    samples = plan.stages[0].micro_batch_size
    return float(recomputed.compute.at(GPU, samples).sum() - p.as_traced.compute.at(GPU, samples).sum())


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_that_fits_runs_less_again(seed: int) -> None:
    p = random_problem(seed)
    plan = assemble(p, [(0,)] * len(p.graph), p.micro_batches or 1)
    assert len(plan.stages) == 1
    known = {}
    for regions in ways(choices_of(p, plan, 0)):
        tried = with_these(plan, regions)
        known[regions] = again_s(p, tried), max(simulate(p, tried).peak_bytes())
    peaks = sorted({peak for _, peak in known.values()})
    for cap in (peaks[0], peaks[len(peaks) // 3], peaks[len(peaks) // 2], peaks[0] - 1):
        limited = with_memory(p, cap)
        least_s = min((seconds for seconds, peak in known.values() if peak <= cap), default=None)
        fit = fitted(limited, plan)
        if least_s is None:
            assert fit.plan is None
            continue
        assert fit.plan is not None
        assert judge(limited, fit.plan).feasible
        assert check(limited, fit.plan) == ()
        assert again_s(p, fit.plan) == pytest.approx(least_s, rel=CLOSE, abs=1e-9)
        assert fit.bound_s[0] <= least_s * (1 + 1e-6) + 1e-9


def subsets(operators: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(operators, count) for count in range(len(operators) + 1))


@pytest.mark.first(20)
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("bytes_per_s", [0.7, 3.0, 20.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_choice_that_fits_is_faster(seed: int, bytes_per_s: float, again: bool) -> None:
    """Of all that may be kept, run again or sent to the host, on links of which the slowest is waited for."""
    p = replace(
        random_problem(seed), host_links={GPU: bytes_per_s}, recompute_operators=again, mini_batch=6, micro_batches=6
    )
    plan = assemble(p, [(0,)] * len(p.graph), 6)
    choices = choices_of(p, plan, 0)
    known = []
    for regions in ways(choices) if again else [()]:
        inside = {o for region in regions for o in region.operators}
        inside |= {t.saver for t in p.graph.tensors if not inside.isdisjoint(t.consumers)}  # what a region reads stays
        saves = zip(choices.operators, choices.saved_bytes, strict=True)
        for sent in subsets([o for o, nbytes in saves if nbytes > 0 and o not in inside]):
            stage = replace(plan.stages[0], regions=regions, offload=sent)
            simulation = simulate(p, replace(plan, stages=(stage,)))
            known.append((simulation.makespan_s, max(simulation.peak_bytes())))
    peaks = sorted({peak for _, peak in known})
    for cap in (peaks[0], peaks[len(peaks) // 10], peaks[len(peaks) // 4], peaks[len(peaks) // 2]):
        limited = with_memory(p, cap)
        fit = fitted(limited, plan)
        assert fit.plan is not None
        assert judge(limited, fit.plan).feasible
        assert check(limited, fit.plan) == ()
        least_s = min(seconds for seconds, peak in known if peak <= cap)
        assert evaluate(limited, fit.plan).iteration_s == pytest.approx(least_s, rel=CLOSE)
        assert fit.bound_s[0] * 6 <= (least_s - simulate(p, plan).makespan_s) * (1 + CLOSE) + 1e-9
    assert fitted(with_memory(p, peaks[0] - 1), plan).plan is None


def test_what_fits_runs_nothing_again() -> None:
    p = random_problem(0)
    plan = assemble(p, [(0,)] * len(p.graph), p.micro_batches or 1)
    fit = fitted(p, plan)
    assert fit.plan is not None
    assert fit.longer_s == (0.0,)
    assert fit.plan.stages == plan.stages


def test_each_device_runs_again_by_its_own_memory() -> None:
    """Two stages; the first has two micro-batches in flight and the second one: only the first lacks memory."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0, saved=4.0)
    seconds = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    p = problem(
        graph, seconds, 2, mini_batch=4, micro_batches=4, pipeline=Pipeline.ONE_F_ONE_B, recompute_operators=True
    )
    plan = assemble(p, [(0,), (0,), (1,), (1,)] * 2, 4)
    peaks = simulate(p, plan).peak_bytes()
    assert peaks[0] > peaks[1]
    tight = with_memory(p, peaks[0] - 1)
    fit = fitted(tight, plan)
    assert fit.plan is not None
    assert [bool(stage.regions) for stage in fit.plan.stages] == [True, False]
    assert check(tight, fit.plan) == ()
    assert evaluate(tight, fit.plan).iteration_s >= evaluate(p, plan).iteration_s


def test_a_plan_states_what_runs_again_only_where_that_is_its_to_say() -> None:
    p = random_problem(1)
    plan = assemble(p, [(0,)] * len(p.graph), p.micro_batches or 1)
    forward = choices_of(p, plan, 0).operators
    stated = with_these(plan, (Region(forward),))
    other = replace(p, recompute_operators=False)
    assert not judge(other, stated).feasible
    assert any("not allowed" in finding for finding in check(other, stated))
    assert check(p, stated) == ()


def test_regions_of_backward_operators_are_refused() -> None:
    p = random_problem(2)
    plan = assemble(p, [(0,)] * len(p.graph), p.micro_batches or 1)
    backward = next(o for o in plan.stages[0].operators if p.graph.operators[o].forward_of is not None)
    stated = with_these(plan, (Region((backward,)),))
    assert "no forward to run again" in judge(p, stated).violation
    assert any("no forward of its own" in finding for finding in check(p, stated))


def test_workspace_of_what_runs_again_counts() -> None:
    """The middle operator needs 50 bytes while it runs: caching it costs 1 byte a micro-batch and saves that room in
    the backward, where the rest of its region is there."""
    graph = training_graph([(0, 1), (1, 2)], 3, nbytes=1.0, saved=10.0)
    operators = list(graph.operators)
    operators[1] = replace(operators[1], workspace_bytes=Amount(0, 50.0))
    p = problem(
        replace(graph, operators=tuple(operators)), [1.0] * 3 + [2.0] * 3, 1, mini_batch=4, micro_batches=4,
        pipeline=Pipeline.GPIPE, recompute_operators=True,
    )  # fmt: skip
    plan = assemble(p, [(0,)] * 6, 4)
    whole = max(simulate(p, plan).peak_bytes())
    tight = with_memory(p, whole - 40)
    fit = fitted(tight, plan)
    assert fit.plan is not None
    assert max(simulate(tight, fit.plan).peak_bytes()) <= whole - 40
