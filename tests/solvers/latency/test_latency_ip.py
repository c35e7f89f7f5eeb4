"""The latency integer program: equal to the enumeration of all calls, and honest beyond it."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.evaluation.evaluate import judge
from solvers.latency.model import LatencyModel
from solvers.latency.planners.programs import LatencyIP, calls_of_plan
from solvers.latency.plans import plan_of_calls
from solvers.latency.program import LatencyProgram
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.problem import Execution, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem

pytest.importorskip("pulp", reason="the integer programs need PuLP: pip install 'placement-explorer[planners]'")


def tiny(seed: int, pieces: int | None, largest: int = 5) -> Problem:
    """At most five operators with stated times of tensors and sizes; a third of them is short of memory."""
    rng = random.Random(seed)
    p = random_problem(
        3000 + seed, largest, objective=Objective.MAKESPAN, execution=Execution.CALL, transfers=Transfers.BLOCKING,
        training=False, memory=math.inf, mini_batch=2, micro_batches=1,
        subgraphs_per_device=pieces,
    )  # fmt: skip
    stated = tuple(float(rng.randint(0, 4)) for _ in p.graph.operators)
    cap = rng.choice([math.inf, math.inf, sum(stated) / 2 + 1])
    devices = tuple(d if d.is_cpu else replace(d, memory_bytes=cap) for d in p.cluster.devices)
    return replace(
        p,
        transfer_s=tuple(float(rng.randint(0, 4)) for _ in p.graph.tensors),
        stated_bytes=stated,
        cluster=replace(p.cluster, devices=devices),
    )


def least_latency_s(p: Problem, pieces: int) -> float:
    """From the definition alone, over all assignments of operators to pieces and to CPUs; inf if none fits."""
    graph, cluster, b = p.graph, p.cluster, p.mini_batch
    accelerators, cpus = list(cluster.accelerators), list(cluster.cpus)
    group = [o.colocation if o.colocation is not None else f"own {v}" for v, o in enumerate(graph.operators)]
    places = [(d, j) for d in accelerators for j in range(pieces)] + ([(cpus[0], 0)] if cpus else [])
    takes = {d: p.compute.at(cluster.devices[d].kind, b) for d in (*accelerators, *cpus[:1])}
    best = math.inf
    for chosen in itertools.product(places, repeat=len(graph)):
        if len({(g, d) for g, (d, _) in zip(group, chosen, strict=True)}) > len(set(group)):
            continue
        held = dict.fromkeys(accelerators, 0.0)
        for v, (d, _) in enumerate(chosen):
            if d in held:
                held[d] += p.stated_bytes[v]
        if any(held[d] > cluster.devices[d].memory_bytes for d in accelerators):
            continue
        unit = [place if place[0] in held else ("cpu", v) for v, place in enumerate(chosen)]
        seconds = dict.fromkeys(unit, 0.0)
        for v, (d, _) in enumerate(chosen):
            seconds[unit[v]] += takes[d][v]
        before = {u: {(d, j - 1) for d, j in [u] if d != "cpu" and (d, j - 1) in seconds} for u in seconds}
        for number, tensor in enumerate(graph.tensors):
            u, w = tensor.producer, p.transfer_s[number] * b
            away = {unit[r] for r in tensor.consumers} - {unit[u]}
            if away and chosen[u][0] in held:
                seconds[unit[u]] += w
            for place in away:
                seconds[place] += w if place[0] in held else 0.0
            for r in tensor.consumers:
                before[unit[r]] |= {unit[u]} - {unit[r]}
        end: dict = {}
        while len(end) < len(seconds):
            ready = [u for u in seconds if u not in end and before[u] <= end.keys()]
            if not ready:
                break
            for u in ready:
                end[u] = max((end[w] for w in before[u]), default=0.0) + seconds[u]
        else:
            best = min(best, max(end.values()))
    return best


@pytest.mark.first(1)
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_enumeration_of_all_calls(seed, pieces):
    p = tiny(seed, pieces, largest=5 if pieces == 1 else 4)
    expected = least_latency_s(p, pieces)
    result = solve(p, LatencyIP(start=seed % 4 == 0))
    assert result.status is (Status.INFEASIBLE if math.isinf(expected) else Status.OPTIMAL)
    assert result.objective_s == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("seed", range(80))
def test_the_program_tells_the_latency_of_every_plan_that_its_rules_allow(seed):
    pieces = 1 + seed % 3
    p = tiny(seed, pieces, largest=8)
    latency = LatencyModel.of(p)
    rng = random.Random(seed)
    program = LatencyProgram(latency, pieces, 1000.0)
    for _ in range(4):
        device = [rng.randrange(latency.accelerators + bool(p.cluster.cpus)) for _ in range(latency.groups)]
        call = np.array(
            [
                device[g] * pieces + (rng.randrange(pieces)) if device[g] < latency.accelerators else -1
                for g in latency.group_of.tolist()
            ]
        )
        call = program.renamed(call)
        times = program.times_of(call)
        if times is None:
            continue
        values = program.values_of(times)
        judged = judge(p, plan_of_calls(latency, call, pieces, np.array(times.turn)))
        assert (program.model.violation(values) <= 1e-6) == judged.feasible, judged
        assert program.model.objective_at(values) * program.unit_s == pytest.approx(judged.objective_s, rel=1e-9)
        assert program.calls_of(values).tolist() == call.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_times_alone_keep_calls_convex(seed, monkeypatch):
    monkeypatch.setattr("solvers.latency.program.CONVEX_VARIABLES", 0)
    p = tiny(seed, 2, largest=4)
    assert solve(p, LatencyIP(start=False)).objective_s == pytest.approx(least_latency_s(p, 2), rel=1e-6)


def test_the_calls_of_a_plan_are_read_back_in_its_order():
    """d runs before c on GPU 0: see test_latency_plans for the drawing."""
    p = problem(
        forward_graph([(0, 2), (1, 3)], 4), [9, 9, 2, 3], 1, cpus=1, cpu_seconds=[5, 1, 9, 9], training=False,
        objective=Objective.MAKESPAN, execution=Execution.CALL, transfers=Transfers.BLOCKING, subgraphs_per_device=2,
    )  # fmt: skip
    latency = LatencyModel.of(p)
    plan = plan_of_calls(latency, np.array([-1, -1, 0, 1]), 2)
    assert calls_of_plan(latency, plan, 2).tolist() == [-1, -1, 1, 0]
    assert calls_of_plan(latency, plan, 1) is None
    result = solve(p, LatencyIP(start=False))
    assert (result.status, result.objective_s) == (Status.OPTIMAL, 7.0)


def test_without_a_number_of_subgraphs_nothing_is_claimed():
    p = tiny(1, None)
    result = solve(p, LatencyIP())
    assert result.plan is not None
    assert result.objective_s == pytest.approx(min(least_latency_s(p, 1), least_latency_s(p, 2)))
    assert "latency" in LatencyIP().unsupported(replace(p, objective=Objective.ITERATION))
