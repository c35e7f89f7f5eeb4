"""The constraint program of passes: its bounds hold for every plan, and its answers are best where nothing hides."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.evaluation.evaluate import judge
from solvers.joint.exact.cluster_schedule import simulated, timed
from solvers.joint.exact.cp_grid import alike, in_units, payload_of
from solvers.joint.exact.schedule_coarsening import coarsened
from solvers.joint.passes.clusters import uncoarsened
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.pass_common import one_by_one_s
from solvers.joint.planners.programs import JointCP
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link, Wires, two_level_cluster, uniform_cluster
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Optimizer
from tests.benchmarks.joint.joint_instances import Instance, make
from tests.instances import devices, forward_graph, problem, training_graph
from tests.oracle.pass_oracle import best_makespan_s, pass_problem
from tests.solvers.joint.test_operator_pass import random_pass

pytest.importorskip("ortools")

CHILD = """
import json, sys
from solvers.joint.exact.cp_program import run
for payload in json.load(sys.stdin):
    told = []
    run(payload, told.append, list)
    print(json.dumps(told))
"""
"""Many programs in one process, which is not this one: ortools cannot share it with other solvers."""

SEARCH = {"start": None, "workers": 1, "seed": 0, "work": None}
PASS = {"objective": Objective.MAKESPAN, "execution": Execution.OPERATOR, "contiguity": Contiguity.NONE}


def solved(payloads):
    """(units of the bound, status) of every program."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps([SEARCH | p for p in payloads]), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    for line in child.stdout.splitlines():
        content = json.loads(line)
        yield max((m["bound"] for m in content if "bound" in m), default=0), content[-1]["status"]


def whole(p):
    """The program of a problem, without anything known."""
    model = pass_model(p)
    return payload_of(uncoarsened(model), least_s=0.0, most_s=one_by_one_s(model) or 1.0)


def possible(p):
    """Whether a planner is asked at all."""
    return proved_infeasible(p) is None


def one_pass(edges, seconds, gpus=2, **options):
    """A pass in inference; every operator leaves ``nbytes`` for its readers."""
    nbytes = options.pop("nbytes", 0.0)
    sizes = {key: options.pop(key) for key in ("param_bytes",) if key in options}
    graph = forward_graph(edges, len(seconds), nbytes, **sizes)
    return problem(graph, seconds, gpus, training=False, **(PASS | options))


def best_s(p, **options):
    """The makespan that the planner proves best."""
    result = solve(p, JointCP(**options), time_limit_s=60)
    assert result.status is Status.OPTIMAL
    assert judge(p, result.plan).objective_s == result.objective_s
    return result.objective_s


def test_no_plan_is_faster_than_the_bound_of_the_program_and_most_of_the_best_reach_it():
    problems = [p for p in map(pass_problem, range(100), [4] * 100) if len(p.graph) <= 5 and possible(p)]
    met, payloads = [], list(map(whole, problems))
    for p, payload, (bound, status) in zip(problems, payloads, solved(payloads), strict=True):
        best = best_makespan_s(p, most=500)
        if status == "infeasible":
            assert math.isinf(best)
            continue
        assert status == "optimal"
        if math.isfinite(best):
            assert bound * payload["unit_s"] <= best * (1 + 1e-9)
            met.append(bound * payload["unit_s"] >= best * (1 - 1e-9))
    assert len(met) > 40
    assert sum(met) >= 0.9 * len(met)


def test_the_program_is_exact_where_tensors_take_no_time_and_memory_does_not_end():
    problems = []
    for seed in range(200, 250):
        p = pass_problem(seed, 4)
        if p.transfer_s is not None or len(p.graph) > 6 or not possible(p):
            continue
        links = tuple(replace(link, latency_s=0.0) for link in p.cluster.links)
        unlimited = tuple(replace(device, memory_bytes=math.inf) for device in p.cluster.devices)
        tensors = tuple(replace(t, nbytes=replace(t.nbytes, per_sample=0.0)) for t in p.graph.tensors)
        problems.append(replace(p, cluster=Cluster(unlimited, links), graph=replace(p.graph, tensors=tensors)))
    payloads = list(map(whole, problems))
    for p, payload, (bound, status) in zip(problems, payloads, solved(payloads), strict=True):
        best = best_makespan_s(p, most=500)
        assert (status == "infeasible") == math.isinf(best)
        if math.isfinite(best):
            assert bound * payload["unit_s"] == pytest.approx(best, rel=1e-9, abs=1e-12)


def test_what_a_simulation_did_is_a_solution_of_the_program():
    payloads = []
    for seed in range(80):
        _, model, place, rank = random_pass(seed, pins={})
        simulator, fine = Simulator(model), uncoarsened(model)
        seconds = simulator.by_rank_s(place, rank)
        if math.isinf(seconds) or not simulator.fits():
            continue
        payload = payload_of(fine, least_s=0.0, most_s=seconds or 1.0)
        units = fine.place_of_units(place)
        start = in_units(fine, payload, simulated(fine, simulator, units))
        turn = in_units(fine, payload, timed(fine, units, range(len(fine))))
        fixed = {"parameters": {"fix_variables_to_their_hinted_value": True}, "alike": []}
        payloads.append(payload | fixed | {"start": start})
        payloads.append(payload | fixed | {"start": turn, "most": max(turn["makespan"], payload["most"])})
    assert len(payloads) > 60
    assert [status for _, status in solved(payloads)] == ["optimal"] * len(payloads)


def test_what_the_program_counts_is_never_more_than_the_peak_of_a_schedule():
    counted = 0
    for seed in range(150):
        _, model, place, rank = random_pass(seed, pins={})
        simulator = Simulator(model)
        if math.isinf(simulator.by_rank_s(place, rank)):
            continue
        held = simulator.peak_bytes()
        payload = payload_of(uncoarsened(model), least_s=0.0, most_s=1.0)
        units = uncoarsened(model).place_of_units(place)
        for nbytes, caps in payload["rows"]:
            for d, cap in enumerate(caps):
                if cap is not None:
                    share = sum(n for n, device in zip(nbytes, units, strict=True) if device == d) / cap
                    assert share <= held[d] / model.memory_bytes[d] + 1e-9
                    counted += 1
    assert counted > 100


def test_independent_jobs_are_shared_out_as_evenly_as_can_be():
    assert best_s(one_pass([], [5, 5, 4, 4, 3, 3, 3])) == 14
    assert best_s(one_pass([], [5, 5, 4, 4, 3, 3, 3], 3)) == 9


def test_a_chain_takes_the_sum_of_its_times():
    assert best_s(one_pass([(0, 1), (1, 2), (2, 3)], [1, 2, 3, 4], nbytes=0.5)) == 10


def test_a_fork_joins_again_after_its_slower_branch_or_transfer():
    fork = [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert best_s(one_pass(fork, [1, 4, 4, 1], nbytes=2.0)) == 8  # 1 + 2 + 4 + 1, either way
    assert best_s(one_pass(fork, [1, 4, 4, 1], nbytes=5.0)) == 10  # all on one device


def test_devices_that_are_too_far_away_are_not_used():
    p = one_pass([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 4, 4, 1], nbytes=1.0, latency=1e6)
    result = solve(p, JointCP(), time_limit_s=60)
    assert (result.status, result.objective_s) == (Status.OPTIMAL, 10)
    assert len(result.plan.devices_used()) == 1


def test_an_operator_goes_where_it_is_fast_or_where_it_is_pinned():
    cluster = Cluster(
        (Device("a", "a"), Device("b", "b")), tuple(Link(s, 1 - s, 1.0) for s in range(2))
    )  # fmt: skip
    table = ComputeTable((1,), {"a": np.array([[1.0], [9.0], [1.0]]), "b": np.array([[9.0], [1.0], [9.0]])})
    p = replace(one_pass([(0, 1), (1, 2)], [1, 1, 1], nbytes=1.0), cluster=cluster, compute=table)
    assert best_s(p) == 5
    assert best_s(replace(p, pins={1: 0})) == 11


def test_stated_memory_is_never_exceeded():
    p = one_pass([], [3, 3, 2, 2, 2], 2, memory=3.0)
    assert best_s(replace(p, stated_bytes=(2.0, 2.0, 1.0, 1.0, 0.0))) == 7
    impossible = replace(p, stated_bytes=(2.0, 2.0, 2.0, 0.0, 0.0))
    assert solve(impossible, JointCP(), time_limit_s=60).status is Status.INFEASIBLE


def test_a_step_of_training_is_planned_with_its_backward_operators():
    graph = training_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4, nbytes=1.0, saved=1.0)
    p = problem(graph, [1, 6, 6, 1] * 2, 2, training=True, **PASS)
    assert best_s(p) == 18  # branches side by side, one transfer in each direction: twice 1 + 1 + 6 + 1


def test_clusters_claim_nothing_but_find_a_plan():
    p = one_pass([(i, i + 1) for i in range(7)], [1.0] * 8, nbytes=1.0)
    p = replace(p, mini_batch=2)
    result = solve(p, JointCP(operators=4, clusters=3), time_limit_s=60)
    assert result.objective_s == 16
    assert result.bound_s in (lower_bound_s(p), result.objective_s)
    model = pass_model(p)
    clusters = coarsened(model, 3)
    payload = payload_of(clusters, least_s=0.0, most_s=100.0)
    start = in_units(clusters, payload, timed(clusters, [0] * clusters.units, range(len(clusters))))
    assert start["makespan"] * payload["unit_s"] == pytest.approx(16.0)


def test_clusters_are_placed_by_an_estimate_of_the_peak():
    graph = training_graph([(i, i + 1) for i in range(5)], 6, nbytes=1.0, param_bytes=2.0, saved=3.0)
    p = problem(graph, [1.0] * 12, 2, memory=50.0, training=True, optimizer=Optimizer.SGD, **PASS)
    clusters = coarsened(pass_model(p), 4)
    ((share, caps),) = payload_of(clusters, least_s=0.0, most_s=1.0)["rows"]
    assert sum(share) / caps[0] * 50 == pytest.approx(6 * (2 * 2 + 3), rel=1e-6)


def test_the_same_seed_and_work_give_the_same_plan():
    p = make(Instance("layered", 6, True, 2, "PCIe", False, 3))
    one, other = (solve(p, JointCP(work=0.3), time_limit_s=120, seed=1) for _ in range(2))
    assert (one.plan, one.objective_s, one.bound_s) == (other.plan, other.objective_s, other.bound_s)


def test_devices_are_alike_where_exchanging_them_changes_nothing():
    p = one_pass([(0, 1)], [1.0, 1.0], 4, nbytes=1.0)
    assert alike(pass_model(p)) == [(0, 1, 2, 3)]
    assert alike(pass_model(replace(p, pins={0: 2}))) == [(0, 1, 3)]
    shared = uniform_cluster(devices(4), 1.0, wires=Wires.SHARED)
    assert alike(pass_model(replace(p, cluster=shared))) == [(0, 1, 2, 3)]
    nodes = tuple(replace(device, node=i // 2) for i, device in enumerate(devices(4)))
    assert alike(pass_model(replace(p, cluster=two_level_cluster(nodes, 2.0, 0.0, 1.0, 0.0)))) == [(0, 1), (2, 3)]
    unlike = (*devices(3), replace(devices(4)[3], memory_bytes=5.0))
    assert alike(pass_model(replace(p, cluster=uniform_cluster(unlike, 1.0)))) == [(0, 1, 2)]
