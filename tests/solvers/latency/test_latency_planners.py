"""The latency planners on tiny problems and on the published workloads."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import replace

import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.formats.msr2020 import read_msr2020
from solvers.latency.model import LatencyModel
from solvers.latency.planners.greedy_latency import GreedyLatency
from solvers.latency.planners.latency import Latency
from solvers.latency.planners.latency_dp import LatencyDP
from solvers.latency.planners.latency_search import LatencySearch
from solvers.latency.planners.programs import LatencyCP
from solvers.latency.positions import run as run_positions
from solvers.plan.result import Status, StopReason
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Execution, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.solvers.latency.test_latency_bounds import best_latency_s, stated
from tests.solvers.msr_instances import FOLDER, as_problem, needs_workloads

WORKLOADS = (
    "layer-bert24_inference",
    "layer-gnmt_inference",
    "layer-inceptionv3_inference",
    "layer-resnet50_inference",
    "operator-bert_l-3_inference",
    "operator-bert_l-6_inference",
)


@functools.cache
def reference(name: str) -> dict:
    return json.loads((FOLDER / "reference.json").read_text())["latency"][name]


@functools.cache
def workload(name: str, pieces: int | None) -> Problem:
    path = FOLDER / "latency" / f"{name}.json"
    file = read_msr2020(path.read_text(), str(path))
    return as_problem(file, objective=Objective.MAKESPAN, subgraphs_per_device=pieces)


@needs_workloads
@pytest.mark.parametrize("name", WORKLOADS)
def test_greedy_gives_the_published_value(name: str) -> None:
    result = solve(workload(name, 1), GreedyLatency())
    assert result.objective_s * 1e3 == pytest.approx(reference(name)["greedy"], abs=0.006)


@needs_workloads
@pytest.mark.parametrize("name", [name for name in WORKLOADS if "inception" not in name])
def test_the_minimum_sum_is_no_worse_than_the_baselines(name: str) -> None:
    """Greedy, all on CPUs, the cut of the best max-load, and placements by hand that fit."""
    known = reference(name)
    values = [known["greedy"], known["all_cpu"], known.get("max_load_split", math.inf)]
    values += [known[n]["value"] for n in ("expert", "scotch") if n in known and not known[n]["over_memory"]]
    result = solve(workload(name, 1), LatencyDP())
    assert result.objective_s * 1e3 <= min(values) + 0.001


@needs_workloads
@pytest.mark.parametrize("name", ["layer-bert24_inference", "layer-resnet50_inference"])
def test_one_piece_per_accelerator_is_proved_optimal(name: str) -> None:
    """No other solver has closed these; they take a moment."""
    problem = workload(name, 1)
    result = solve(problem, Latency())
    assert result.status is Status.OPTIMAL
    assert result.objective_s * 1e3 == pytest.approx(reference(name)["best_known_by_q"]["q1"], abs=0.001)
    assert result.plan is not None
    assert evaluate(problem, result.plan).makespan_s == result.objective_s
    assert check(problem, result.plan) == ()


@pytest.mark.first(1)
@needs_workloads
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_bound_exceeds_a_known_value(name: str) -> None:
    for pieces, key in ((1, "q1"), (2, "q2"), (None, "q2")):
        result = solve(workload(name, pieces), LatencySearch(moves=1))
        assert result.bound_s * 1e3 <= reference(name)["best_known_by_q"][key] + 0.001


def test_a_piece_of_its_own_for_what_comes_back() -> None:
    """a -> b -> c, b on CPUs only, a and c heavy there: two pieces of one accelerator, 1 + 1 + 1 s."""
    p = problem(
        forward_graph([(0, 1), (1, 2)], 3), [1, math.inf, 1], 1, cpus=1, cpu_seconds=[9, 1, 9],
        objective=Objective.MAKESPAN, execution=Execution.CALL, transfers=Transfers.BLOCKING, training=False,
    )  # fmt: skip
    for planner in (LatencySearch(), Latency()):
        assert solve(p, planner).objective_s == 3
        assert solve(replace(p, subgraphs_per_device=1), planner).objective_s == 11


@pytest.mark.parametrize("seed", range(14))
def test_the_constraint_program_finds_the_best_and_proves_no_more(seed: int) -> None:
    """In this process: the child's startup is not what is tested."""
    pytest.importorskip("ortools")
    p = stated(seed, 6, 1)
    best = best_latency_s(p, 1)
    if math.isinf(best) or LatencyCP().unsupported(p):
        return
    from solvers.latency.planners.latency_common import blocks_of
    from solvers.latency.planners.programs import payload_of

    messages: list[dict] = []
    model, search = LatencyModel.of(p), {"workers": 1, "seed": seed, "work": None}
    payload = payload_of(model, blocks_of(p), most_s=best * 1.5 + 1, least_s=0.0, start=None) | search
    run_positions(payload, messages.append, list)
    assert messages[-1] == {"status": "optimal"}
    bound = max(message["bound"] for message in messages if "bound" in message)
    assert best * (1 - 1e-4) - 1e-4 <= bound <= best * (1 + 1e-12)


def test_the_constraint_program_runs_in_a_child_and_stops_when_cancelled() -> None:
    pytest.importorskip("ortools")
    p = stated(3, 6, 1)
    result = solve(p, LatencyCP(), time_limit_s=30)
    assert result.stop_reason is StopReason.FINISHED
    assert result.objective_s == pytest.approx(best_latency_s(p, 1))
