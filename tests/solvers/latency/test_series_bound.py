"""What operators that all others come before or after prove of the latency: never too much, and here all of it."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.formats.msr2020 import read_msr2020
from solvers.latency import series_breaks
from solvers.latency.bounds import order_of
from solvers.latency.model import LatencyModel
from solvers.latency.planners.latency import Latency
from solvers.latency.series_bound import series_bound
from solvers.latency.series_breaks import series_of, undominated
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.graph import Operator
from solvers.problem.problem import Contiguity, Execution, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.oracle.independent import latency_ms
from tests.solvers.latency.test_latency_bounds import best_latency_s, never, stated
from tests.solvers.msr_instances import FOLDER, needs_workloads

INCEPTION = "layer-inceptionv3_inference"

SHAPES = (
    ([(0, 1), (1, 2), (2, 3), (3, 4)], 5),  # a chain
    ([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 5),  # a fork, a join and one behind
    ([(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)], 5),
    ([(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)], 4),  # one branch with nothing on it
    ([(0, 2), (1, 2), (2, 3), (2, 4)], 5),  # two ends on either side
    ([(0, 1), (1, 2), (2, 3), (0, 2), (1, 3)], 4),  # messages that pass over a gate
    ([(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)], 5),
    ([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 5)], 6),
)


def fork_join(seed: int) -> Problem:
    """One of the shapes with random times, messages, bytes and caps, some operators not for every device."""
    rng = random.Random(seed)
    edges, count = SHAPES[seed % len(SHAPES)]
    p = problem(
        forward_graph(edges, count), [float(rng.randint(0, 3)) for _ in range(count)], 2, cpus=1,
        cpu_seconds=[float(rng.randint(2, 9)) if rng.random() < 0.9 else math.inf for _ in range(count)],
        memory=float(rng.randint(6, 20)), objective=Objective.MAKESPAN, execution=Execution.CALL,
        contiguity=Contiguity.NONE, transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    if rng.random() < 0.3:
        operators = list(p.graph.operators)
        for v in rng.sample(range(count), 2):
            operators[v] = replace(operators[v], colocation="x")
        p = replace(p, graph=replace(p.graph, operators=tuple(operators)))
    return replace(
        p,
        transfer_s=tuple(float(rng.randint(0, 3)) for _ in p.graph.tensors),
        stated_bytes=tuple(float(rng.randint(0, 8)) for _ in p.graph.operators),
    )


def bound_s(p: Problem) -> float:
    model = LatencyModel.of(p)
    bound = series_bound(model, order_of(model), never)
    return 0.0 if bound is None else bound.seconds


@pytest.mark.parametrize("seed", range(48))
def test_no_plan_of_a_series_is_shorter(seed: int) -> None:
    p = fork_join(seed)
    assert bound_s(p) <= best_latency_s(p, 1) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_nor_is_one_with_two_pieces(seed: int) -> None:
    p = fork_join(seed)
    assert bound_s(p) <= best_latency_s(p, 2) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_no_plan_of_a_random_graph_is_shorter(seed: int) -> None:
    p = stated(seed, 5, 1)
    assert bound_s(p) <= best_latency_s(p, 1) * (1 + 1e-12)


def test_where_memory_is_what_decides_it_is_the_optimum_mostly() -> None:
    exact = sum(bound_s(p) == pytest.approx(best_latency_s(p, 1)) for p in map(fork_join, range(24)))
    assert exact >= 16


def test_memory_makes_a_chain_pay_for_its_cheapest_message() -> None:
    """Four operators of 1 s, two to an accelerator, messages of 5, 1 and 5 s: 4 s, and one message sent and fetched."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3)], 4)
    options = {"objective": Objective.MAKESPAN, "execution": Execution.CALL, "training": False}
    p = problem(graph, [1.0] * 4, 2, cpus=1, cpu_seconds=[9.0] * 4, memory=2.0, **options)
    p = replace(p, transfer_s=(5.0, 1.0, 5.0), stated_bytes=(1.0,) * 4, transfers=Transfers.BLOCKING)
    model = LatencyModel.of(p)
    bound = series_bound(model, order_of(model), never)
    assert bound is not None
    assert bound.seconds == 6.0
    assert bound.call.tolist() == [0, 0, 1, 1]


def test_gates_and_the_branches_between_them() -> None:
    """0 and 4 come before or after all others; 1 - 2 and 3 lie between them, 5 and 6 behind."""
    graph = forward_graph([(0, 1), (1, 2), (0, 3), (2, 4), (3, 4), (4, 5), (4, 6)], 7)
    p = problem(graph, [1.0] * 7, 2, objective=Objective.MAKESPAN, execution=Execution.CALL, training=False)
    series = series_of(graph, order_of(LatencyModel.of(p)))
    assert series.gates == (0, 4)
    assert series.parts == ((), ((1, 2), (3,)), ((5,), (6,)))


def test_too_many_ways_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    p = fork_join(1)
    assert bound_s(p) > 0
    monkeypatch.setattr(series_breaks, "MOST_WAYS", 1)
    assert bound_s(p) == 0


def test_a_graph_without_gates_proves_nothing() -> None:
    graph = replace(forward_graph([], 2), operators=(Operator("a"), Operator("b")))
    p = problem(graph, [1.0, 1.0], 2, objective=Objective.MAKESPAN, execution=Execution.CALL, training=False)
    model = LatencyModel.of(p)
    assert series_bound(model, order_of(model), never) is None


@pytest.mark.parametrize("seed", range(20))
def test_what_is_undominated(seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 5, (60, 3)).astype(float)
    front = rows[undominated(rows)]
    assert len({tuple(row) for row in front.tolist()}) == len(front)
    for row in rows:
        assert (front <= row).all(axis=1).any()
    for k, row in enumerate(front):
        assert not (np.delete(front, k, axis=0) <= row).all(axis=1).any()


@needs_workloads
@pytest.mark.slow
def test_inception_is_proved_optimal() -> None:
    """Quickly, for any number of pieces, at the best value known (1186.548 ms)."""
    path = FOLDER / "latency" / f"{INCEPTION}.json"
    file = json.loads(path.read_text())
    p = make_problem(read_msr2020(file, str(path)), Settings(objective=Objective.MAKESPAN))
    result = solve(p, Latency(), time_limit_s=600)
    assert result.plan is not None
    assert result.status is Status.OPTIMAL
    assert check(p, result.plan) == ()
    known = json.loads((FOLDER / "reference.json").read_text())["latency"][INCEPTION]["best_known"]
    assert latency_ms(file, result.plan) == pytest.approx(known, rel=1e-6)
