"""The estimate of a draft equals what realising and simulating it gives."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import simulate
from solvers.pipelines.recomputation.levels import choices_allowed, stated
from solvers.pipelines.timing.estimate import Estimate, Estimator
from solvers.plan.drafts import FIRST_LEVEL, Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.cluster import Device, two_level_cluster, uniform_cluster
from solvers.problem.graph import OpGraph, Phase, Tensor
from solvers.problem.problem import Objective, Pipeline, Problem, Transfers
from solvers.schedules.ordering.patterns import alternate
from solvers.schedules.realise import realise
from tests.instances import problem, training_graph
from tests.oracle.stage_oracle import random_pipeline_problem
from tests.random_problems import random_problem, trained_somehow


def problem_of(rng: random.Random, seed: int, **options: object) -> Problem:
    """A problem that allows every draft, on a cluster of one or two levels with or without latency."""
    options = {"transfers": Transfers.LINKS, "objective": Objective.ITERATION, **options}
    p = random_problem(seed, largest=8, micro_batches=None, mini_batch=rng.choice([4, 8]), cpus=seed % 2, **options)
    memory = rng.choice([(100.0,), (40.0, 120.0)])
    count = rng.choice([2, 4, 8])
    gpus = tuple(Device(f"g{i}", "gpu", rng.choice(memory), node=i // 2) for i in range(count))
    bandwidth, latency = rng.choice([0.5, 1.0, 10.0, math.inf]), rng.choice([0.0, 0.25])
    devices = (*gpus, *(device for device in p.cluster.devices if device.is_cpu))
    cluster = (
        uniform_cluster(devices, bandwidth, latency)
        if rng.random() < 0.6
        else two_level_cluster(devices, bandwidth, latency, rng.choice([0.3, 2.0]), rng.choice([0.0, 0.5]))
    )
    p = trained_somehow(replace(p, cluster=cluster, recompute=True, max_replicas=8, mixed_micro_batches=True), seed)
    if rng.random() < 0.15 and all(len(group) == 1 for group in p.graph.messages):
        p = replace(p, transfer_s=tuple(float(rng.randint(0, 3)) for _ in p.graph.tensors))
    return p


def draft_of(rng: random.Random, nodes: int, devices: int) -> Draft:
    """Parts of an order, or (often in vain) any parts."""
    parts = rng.randint(1, min(nodes, 6))
    cuts = sorted(rng.sample(range(1, nodes), parts - 1))
    sets = [list(range(a, b)) for a, b in zip([0, *cuts], [*cuts, nodes], strict=True)]
    if rng.random() < 0.3:
        label = [rng.randrange(parts) for _ in range(nodes)]
        sets = [chosen for part in range(parts) if (chosen := [v for v in range(nodes) if label[v] == part])]
    size, replicas = rng.choice([1, 2, 4]), rng.choice([0, 1, 2])
    stages: list[DraftStage] = []
    for members in sets:
        hosts = [s for s, stage in enumerate(stages) if stage.host is None]
        left = devices - sum(stages[s].replicas for s in hosts)
        host = rng.choice(hosts) if hosts and (rng.random() < 0.25 or left == 0) else None
        stage = DraftStage(
            tuple(members),
            micro_batch_size=rng.choice([1, 2, 4]) if rng.random() < 0.2 else size,
            replicas=min(max(left, 1), replicas or rng.choice([1, 1, 2, 3, 4])),
            recompute=rng.random() < 0.3,
            block=rng.choice([1, 1, 2]),
            slack=rng.choice([0, 0, 1, 2]),
            host=host,
        )
        stages.append(stage)
    return Draft(tuple(stages))


Devices = list[tuple[int, ...]]


def exactly(
    p: Problem, condensed: Condensed, draft: Draft, devices: Devices | None = None
) -> tuple[Plan, Schedule] | None:
    members = condensed.at(1, merge_trivial=False).shape.members
    stages = [replace(s, operators=tuple(o for node in s.operators for o in members[node])) for s in draft.stages]
    try:
        plan = realise(p, stated(p, Draft(tuple(stages))), devices)
        return plan, simulate(p, plan, Objective.ITERATION)
    except InvalidPlan:
        return None


def compare(p: Problem, estimate: Estimate, exact: tuple[Plan, Schedule] | None) -> None:
    if exact is None:
        assert estimate.seconds == math.inf
        assert not estimate.feasible
        return
    plan, schedule = exact
    assert estimate.seconds == pytest.approx(schedule.makespan_s, rel=1e-9)
    peaks = schedule.peak_bytes()
    fullest = [max(peaks[device] for device in stage.devices) for stage in plan.stages]
    assert estimate.peak_bytes == pytest.approx(fullest, rel=1e-9)
    busy = np.zeros(len(p.cluster))
    for stage, seconds in zip(plan.stages, estimate.busy_s, strict=True):
        busy[list(stage.devices)] += seconds
    assert busy == pytest.approx(schedule.busy_per_device_s(), rel=1e-9)
    caps = [device.memory_bytes for device in p.cluster.devices]
    over = max(0.0, *(peak - cap for peak, cap in zip(peaks, caps, strict=True)))
    assert estimate.over == pytest.approx(over, rel=1e-9, abs=1e-9)
    assert estimate.feasible == (over == 0)


def compare_some(seed: int, drafts: int, **options: object) -> int:
    """Compare drafts of one problem; how many could run."""
    rng = random.Random(seed)
    p = problem_of(rng, seed, **options)
    condensed = Condensed(p, ordered=True)
    estimator = Estimator(condensed)
    ran = 0
    for _ in range(drafts):
        draft = draft_of(rng, len(estimator), len(p.cluster.accelerators))
        exact = exactly(p, condensed, draft, estimator.devices(draft))
        compare(p, estimator.estimate(draft), exact)
        ran += exact is not None
    return ran


@pytest.mark.parametrize("first", range(0, 320, 40))
def test_estimates_are_what_the_simulation_tells(first: int) -> None:
    assert sum(compare_some(seed, 3) for seed in range(first, first + 40)) > 60


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_levels_run_again_takes_as_long_as_the_simulation_tells(first: int) -> None:
    """Peaks may differ where a stage has a part of a region."""
    again = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        p = random_pipeline_problem(seed, largest=8, memory=False)
        p = replace(p, recompute=True, recompute_operators=True)
        allowed = choices_allowed(p)
        condensed = Condensed(p, ordered=True)
        estimator = Estimator(condensed)
        for _ in range(4):
            draft = draft_of(rng, len(estimator), len(p.cluster.accelerators))
            size = draft.stages[0].micro_batch_size
            stages = [replace(s, micro_batch_size=size, recompute=rng.choice(allowed)) for s in draft.stages]
            exact = exactly(p, condensed, Draft(tuple(stages)))
            estimate = estimator.estimate(Draft(tuple(stages)))
            if exact is None:
                assert estimate.seconds == math.inf
                continue
            assert estimate.seconds == pytest.approx(exact[1].makespan_s, rel=1e-9)
            again += any(stage.recompute >= FIRST_LEVEL for stage in stages)
    assert again > 15


@pytest.mark.parametrize("transfers", [Transfers.BLOCKING, Transfers.LANE, Transfers.DUPLEX])
def test_other_transfers_are_simulated(transfers: Transfers) -> None:
    assert sum(compare_some(seed, 2, transfers=transfers) for seed in range(8)) > 4


@pytest.mark.parametrize("pipeline", [Pipeline.INTERLEAVED, Pipeline.ZERO_BUBBLE, Pipeline.PLANNER])
def test_other_pipelines(pipeline: Pipeline) -> None:
    assert sum(compare_some(seed, 2, pipeline=pipeline) for seed in range(8)) > 4


@pytest.mark.parametrize("seed", range(6))
def test_quick_estimates_take_the_handcrafted_order(seed: int) -> None:
    """ZB-H1: every stage lags by what it keeps less than the one that keeps most."""
    rng = random.Random(seed)
    graph = training_graph([(0, 1), (1, 2)], 3, nbytes=0.1, saved=2.0)
    parts = [replace(o, phase=Phase.BACKWARD_WEIGHT, name=f"{o.name}W") for o in graph.operators[3:]]
    tensors = (*graph.tensors, *(Tensor(i, (6 + i,)) for i in range(3)), *(Tensor(3 + i, (6 + i,)) for i in range(3)))
    seconds = [float(rng.randint(1, 4)) for _ in range(9)]
    whole = OpGraph((*graph.operators, *parts), tensors)
    p = problem(whole, seconds, 3, mini_batch=6, micro_batches=None, pipeline=Pipeline.ZERO_BUBBLE)
    condensed = Condensed(p, ordered=True)
    draft = Draft(tuple(DraftStage((s,), 1) for s in range(3)))
    exact = exactly(p, condensed, draft)
    assert exact is not None
    in_flight = (3, 2, 1)
    order = [
        (*alternate(s, "FIW", 6, in_flight[s], lag=3 - in_flight[s]), *[a for a in exact[0].order[s] if a.kind == "U"])
        for s in range(3)
    ]
    plan = replace(exact[0], order=tuple(order))
    quick = Estimator(condensed, quick=True).estimate(draft)
    compare(p, quick, (plan, simulate(p, plan, Objective.ITERATION)))


@pytest.mark.parametrize("seed", range(20))
def test_devices_that_are_given(seed: int) -> None:
    """In any order; a quarter of the drafts have stages that share devices in part."""
    rng = random.Random(seed)
    p = problem_of(rng, seed)
    condensed = Condensed(p, ordered=True)
    estimator = Estimator(condensed)
    accelerators = list(p.cluster.accelerators)
    draft = draft_of(rng, len(estimator), len(accelerators))
    free = rng.sample(accelerators, len(accelerators)) + (rng.sample(accelerators, 1) if seed % 4 == 0 else [])
    devices: Devices = []
    for stage in draft.stages:
        count = stage.replicas if stage.host is None else 0
        taken = [free.pop() for _ in range(min(count, len(free)))]
        devices.append(tuple(dict.fromkeys(taken)) if stage.host is None else devices[stage.host])
    if all(devices):
        compare(p, estimator.estimate(draft, devices), exactly(p, condensed, draft, devices))


@pytest.mark.parametrize("seed", range(10))
def test_stated_sizes_are_held_throughout(seed: int) -> None:
    rng = random.Random(seed)
    p = problem_of(rng, seed)
    p = replace(p, stated_bytes=tuple(float(rng.randint(0, 40)) for _ in p.graph.operators))
    condensed = Condensed(p, ordered=True)
    estimator = Estimator(condensed)
    draft = draft_of(rng, len(estimator), len(p.cluster.accelerators))
    compare(p, estimator.estimate(draft), exactly(p, condensed, draft, estimator.devices(draft)))


def test_bubble_of_a_chain() -> None:
    """GPipe on S equal stages with M micro-batches is idle a share of (S - 1) / (M + S - 1)."""
    chain = training_graph([(0, 1), (1, 2)], 3, saved=2.0)
    p = problem(chain, [1.0] * 6, 3, pipeline=Pipeline.GPIPE, mini_batch=6, micro_batches=None)
    estimate = Estimator(Condensed(p, ordered=True)).estimate(Draft(tuple(DraftStage((s,), 1) for s in range(3))))
    assert 1 - estimate.busy_s.sum() / (3 * estimate.seconds) == pytest.approx(2 / 8)
    assert estimate.peak_bytes.tolist() == [12.0] * 3


def test_hosted_stages_add_to_their_host() -> None:
    chain = training_graph([(0, 1), (1, 2)], 3, saved=2.0)
    p = problem(chain, [1.0] * 6, 2, mini_batch=2, micro_batches=None)
    stages = (DraftStage((0,), 1), DraftStage((1,), 1), DraftStage((2,), 1, host=1))
    estimate = Estimator(Condensed(p, ordered=True)).estimate(Draft(stages))
    assert estimate.peak_bytes[1] == estimate.peak_bytes[2] == 4.0


def test_what_cannot_run_takes_for_ever() -> None:
    p = problem(training_graph([(0, 1), (1, 2)], 3), [1.0] * 6, 2, mini_batch=2, micro_batches=None)
    estimator = Estimator(Condensed(p, ordered=True))
    round_trip = Draft((DraftStage((0, 2), 1), DraftStage((1,), 1)))
    too_many = Draft(tuple(DraftStage((s,), 1) for s in range(3)))
    uneven = Draft((DraftStage((0, 1, 2), 3),))
    for draft in (round_trip, too_many, uneven):
        assert not estimator.estimate(draft).feasible
    with pytest.raises(InvalidPlan, match="every super-operator once"):
        estimator.estimate(Draft((DraftStage((0, 1), 1),)))


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_devices_of_other_kinds_and_memory_are_distinguished(first: int) -> None:
    """The busiest stages go to the fastest kind, and those that hold most to the devices with most memory."""
    ran = 0
    for seed in range(first, first + 40):
        rng = random.Random(seed)
        p = problem_of(rng, seed)
        kinds = {"gpu": 1.0, "slow": 2.5}
        specs = tuple(
            device
            if device.is_cpu
            else replace(device, kind=rng.choice(list(kinds)), memory_bytes=rng.choice([30.0, 60.0, 120.0]))
            for device in p.cluster.devices
        )
        table = {**p.compute.seconds, **{kind: p.compute.seconds["gpu"] * times for kind, times in kinds.items()}}
        p = replace(p, cluster=replace(p.cluster, devices=specs), compute=replace(p.compute, seconds=table))
        condensed = Condensed(p, ordered=True)
        estimator = Estimator(condensed)
        for _ in range(3):
            draft = draft_of(rng, len(estimator), len(p.cluster.accelerators))
            devices = estimator.devices(draft)
            if devices is not None:
                compare(p, estimator.estimate(draft), exactly(p, condensed, draft, devices))
                ran += 1
    assert ran > 40
