"""Single-sample latency: the fast evaluation and the plans made of it agree with the simulation."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate, judge
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.plans import latency_s, pieces_of, plan_of_calls
from solvers.planners.check import check
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.problem import Execution, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem


def latency_problem(seed: int, largest: int = 9, **options: object) -> Problem:
    """A random inference problem under the latency model."""
    options = {"objective": Objective.MAKESPAN, "execution": Execution.CALL} | options
    p = random_problem(seed, largest, transfers=Transfers.BLOCKING, training=False, **options)
    if seed % 2:
        rng = random.Random(seed)
        p = replace(
            p,
            transfer_s=tuple(float(rng.randint(0, 4)) for _ in p.graph.tensors),
            stated_bytes=tuple(float(rng.randint(0, 20)) for _ in p.graph.operators),
        )
    return p


def random_calls(rng: random.Random, model: LatencyModel, pieces: int) -> np.ndarray:
    """A device per group, a piece per operator: whatever comes."""
    places = model.accelerators + len(model.problem.cluster.cpus[:1])
    device = [rng.randrange(places) for _ in range(model.groups)]
    return np.array(
        [
            device[g] * pieces + rng.randrange(pieces) if device[g] < model.accelerators else -1
            for g in model.group_of.tolist()
        ]
    )


@pytest.mark.parametrize("seed", range(100))
def test_the_evaluation_is_the_simulation(seed: int) -> None:
    p = latency_problem(seed)
    model = LatencyModel.of(p)
    rng = random.Random(seed)
    for _ in range(6):
        pieces = rng.choice([1, 2, 3])
        call = random_calls(rng, model, pieces)
        seconds = latency_s(model, call, pieces)
        if np.isinf(seconds):
            with pytest.raises(InvalidPlan):
                plan_of_calls(model, call, pieces)
            continue
        plan = plan_of_calls(model, call, pieces)
        assert evaluate(p, plan).makespan_s == pytest.approx(seconds, rel=1e-9)
        on_accelerators = [s for s in plan.stages if not p.cluster.devices[s.devices[0]].is_cpu]
        assert len(on_accelerators) == len(set(call[call >= 0].tolist()))
        devices = tuple(replace(device, memory_bytes=1e9) for device in p.cluster.devices)
        roomy = replace(p, cluster=replace(p.cluster, devices=devices))
        assert check(roomy, plan) == ()


@pytest.mark.parametrize("seed", range(60))
def test_pieces_cut_a_placement_where_paths_come_back(seed: int) -> None:
    """Every piece is convex, and no placement that one piece a device can run is cut."""
    p = latency_problem(seed)
    model = LatencyModel.of(p)
    rng = random.Random(seed)
    place = random_calls(rng, model, 1)
    place[place < 0] = model.accelerators
    most = len(p.graph)
    call = pieces_of(model, place, most)
    assert call is not None
    whole = np.where(place < model.accelerators, place, -1)
    if np.isfinite(latency_s(model, whole, 1)):
        assert latency_s(model, call, most) == pytest.approx(latency_s(model, whole, 1))
        assert set((call[call >= 0] % most).tolist()) <= {0}
    above: list[set[int]] = [set() for _ in range(len(p.graph))]
    for v in p.graph.topological_order:
        for u in p.graph.predecessors[v]:
            above[v] |= above[u] | {u}
    for v in range(len(p.graph)):
        for u in above[v]:
            for between in above[v]:
                if u in above[between] and call[u] == call[v] >= 0:
                    assert call[between] == call[u], "a path leaves a piece and comes back"


def test_the_order_of_calls_is_by_when_their_inputs_are_there() -> None:
    """a -> c and b -> d, a and b on CPUs (5 s, 1 s), c and d pieces of GPU 0: d first, 1-4, then c, 5-7."""
    g = forward_graph([(0, 2), (1, 3)], 4)
    p = problem(
        g, [9, 9, 2, 3], 1, cpus=1, cpu_seconds=[5, 1, 9, 9], objective=Objective.MAKESPAN, execution=Execution.CALL,
        transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    model = LatencyModel.of(p)
    call = np.array([-1, -1, 0, 1])
    assert latency_s(model, call, 2) == 7
    plan = plan_of_calls(model, call, 2)
    assert [plan.stages[a.stage].operators for a in plan.order[0]] == [(3,), (2,)]
    assert judge(p, plan).objective_s == 7


def test_without_a_cpu_everything_must_go_on_accelerators() -> None:
    g = forward_graph([(0, 1)], 2)
    p = problem(g, [1, 1], 2, objective=Objective.MAKESPAN, execution=Execution.CALL, transfers=Transfers.BLOCKING)
    p = replace(p, training=False)
    assert not LatencyModel.of(p).allowed[:, -1].any()


def test_what_the_latency_model_is_not() -> None:
    p = latency_problem(0, objective=Objective.ITERATION)
    assert "one pass" in str(unsupported(p))
    assert "blocking" in str(unsupported(replace(latency_problem(0), transfers=Transfers.LINKS)))
    training = random_problem(3, training=True, objective=Objective.MAKESPAN, execution=Execution.CALL,
                              transfers=Transfers.BLOCKING)  # fmt: skip
    assert "backward" in str(unsupported(training))
    devices = [Device(f"GPU {i}", "gpu") for i in range(2)]
    one_way = replace(uniform_cluster(devices, 1.0), links=uniform_cluster(devices, 1.0).links[:1])
    p = problem(
        forward_graph([(0, 1)], 2), [1, 1], 2, objective=Objective.MAKESPAN, execution=Execution.CALL,
        transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    assert "linked" in str(unsupported(replace(p, cluster=one_way)))
