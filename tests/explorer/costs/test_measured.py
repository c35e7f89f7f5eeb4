"""Plans from a profile: its times, its links, its memory, and only for the graph that was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.costs.measured import (
    as_catalogued,
    catalogue_kind,
    compute_table,
    kind_of,
    label,
    links_between,
    measured_cluster,
    to_wholes,
)
from explorer.costs.profile import EngineTimes, LinkTimes, WholeTimes
from explorer.jobs.replan import replanned
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.formats.workload import Workload
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Optimizer, Problem
from solvers.problem.regions import recomputing
from tests.explorer.costs.profiles import MS, profile_of
from tests.instances import problem, training_graph

CHAIN = training_graph([(0, 1), (1, 2)], 3, nbytes=1e6)
UPDATED = OpGraph(
    (Operator("a", param_bytes=4.0), Operator("a/grad", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
     Operator("a/update", phase=Phase.UPDATE, forward_of=0)),
    (Tensor(0, (1,)), Tensor(1, (2,))),
)  # fmt: skip


def test_times_are_those_measured_a_line_between_them_and_beyond_them() -> None:
    table = compute_table(CHAIN, profile_of(CHAIN), Optimizer.ADAM)
    kind = kind_of(profile_of(CHAIN))
    each = np.arange(1, 7) * MS
    assert kind == "measured-slide-rule-r-3000"
    np.testing.assert_allclose(table.at(kind, 1), each)
    np.testing.assert_allclose(table.at(kind, 4), 3 * each)
    np.testing.assert_allclose(table.at(kind, 10), 7 * each)


def test_operators_together_take_what_the_whole_graph_took() -> None:
    """Forward 1 + 2 + 3 ms of 12 at one sample, backward 4 + 5 + 6 ms of 10; at 4 samples as they add up."""
    wholes = (
        WholeTimes(1, 12 * MS, 10 * MS, 6 * MS, 15 * MS),
        WholeTimes(4, 18 * MS, 45 * MS, 18 * MS, 45 * MS),
    )
    profile = profile_of(CHAIN, wholes=wholes)
    table = compute_table(CHAIN, profile, Optimizer.ADAM)
    kind = kind_of(profile)
    np.testing.assert_allclose(table.at(kind, 1), np.array([2, 4, 6, 8 / 3, 10 / 3, 4]) * MS)
    np.testing.assert_allclose(table.at(kind, 4), 3 * np.arange(1, 7) * MS)


def test_where_nothing_was_timed_without_marks_operators_stay_as_they_are() -> None:
    wholes = (WholeTimes(1, 0.0, 0.0, 6 * MS, 0.0), WholeTimes(4, 0.0, 0.0, 18 * MS, 0.0))
    assert to_wholes(CHAIN, profile_of(CHAIN, wholes=wholes)) == to_wholes(CHAIN, profile_of(CHAIN))


def test_a_problem_knows_what_the_engine_takes_if_it_was_measured() -> None:
    costs = EngineCosts(0.0, 1e-4, 2e-4)
    measured = profile_of(CHAIN, engine=EngineTimes(costs, 0.05, 28, "CPU time"))
    for profile, engine in ((measured, costs), (profile_of(CHAIN), None)):
        assert make_problem(Workload(graph=CHAIN, reference="x"), Settings(profile=profile)).engine == engine
        assert replanned(problem(CHAIN, [1.0] * 6), profile).engine == engine


@pytest.mark.parametrize(
    ("hardware", "kind"),
    [
        ("NVIDIA H200", "H200-141GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("NVIDIA L4", "L4-24GB"),
        ("AMD EPYC 9R14", "cpu-core"),
        ("Intel(R) Xeon(R) Processor", "cpu-core"),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_the_catalogues_kind_of_what_was_measured(hardware: str, kind: str | None) -> None:
    assert catalogue_kind(hardware) == kind


def test_links_measured_serve_models_that_were_not() -> None:
    profile = replace(profile_of(CHAIN), hardware=("NVIDIA H200", "NVIDIA H200"))
    catalogued = as_catalogued(measured_cluster(profile), profile)
    assert [device.kind for device in catalogued.devices] == ["H200-141GB"] * 2
    assert catalogued.links == measured_cluster(profile).links
    unknown = replace(profile, hardware=("NVIDIA H200", "NVIDIA GeForce GTX 1080"))
    with pytest.raises(InvalidProblem, match="no costs of 'NVIDIA GeForce GTX 1080'"):
        as_catalogued(measured_cluster(unknown), unknown)


def test_updates_are_those_of_the_optimizer() -> None:
    profile = profile_of(UPDATED)
    for optimizer, expected in ((Optimizer.ADAM, 5 * MS), (Optimizer.SGD, 2 * MS), (Optimizer.NONE, 2 * MS)):
        table = compute_table(UPDATED, profile, optimizer)
        assert table.at(kind_of(profile), 64)[2] == expected
    with pytest.raises(InvalidProblem, match="no times of adam"):
        compute_table(UPDATED, replace(profile, updates={}), Optimizer.ADAM)


def test_another_graph_is_refused_and_both_are_named() -> None:
    other = training_graph([(0, 1), (0, 2)], 3, nbytes=1e6)
    with pytest.raises(InvalidProblem, match=r"another graph.*fp32 for training.*calibrate"):
        compute_table(other, profile_of(CHAIN), Optimizer.ADAM)
    damaged = replace(profile_of(CHAIN), operators=profile_of(CHAIN).operators[1:])
    with pytest.raises(InvalidProblem, match="no times of operator 'a'"):
        compute_table(CHAIN, damaged, Optimizer.ADAM)


def test_the_ranks_are_the_devices_unless_others_are_requested() -> None:
    profile = profile_of(CHAIN)
    workload = Workload(CHAIN, "chain")
    own = make_problem(workload, Settings(profile=profile))
    assert own.cluster == measured_cluster(profile)
    assert [device.memory_bytes for device in own.cluster.devices] == [1e9, 1e9]
    assert own.cluster.transfer_s(1e9, 1, 0) == pytest.approx(1.001)
    assert own.costs_from == label(profile)
    assert "2 x Slide Rule (R) 3000, 1 thread each, fp32, 1 to 4 samples, 2026-11-21" in own.costs_from
    four = make_problem(workload, Settings(profile=profile, devices=4, memory_bytes=5e8, bandwidth_bytes_per_s=2e9))
    assert {device.kind for device in four.cluster.devices} == {kind_of(profile)}
    assert [device.memory_bytes for device in four.cluster.devices] == [5e8] * 4
    assert four.cluster.transfer_s(1e9, 3, 2) == pytest.approx(0.501)


def test_a_profile_replaces_estimates_and_nothing_that_a_file_states() -> None:
    stated = Workload(CHAIN, "chain.json", compute=ComputeTable((1,), {"gpu": np.ones((6, 1))}))
    with pytest.raises(InvalidProblem, match="states its own compute times"):
        make_problem(stated, Settings(profile=profile_of(CHAIN)))
    with pytest.raises(InvalidProblem, match=r"no device kind 'H100-80GB'.*measured-slide-rule"):
        make_problem(Workload(CHAIN, "chain"), Settings(profile=profile_of(CHAIN), device_kind="H100-80GB"))


def test_a_plan_from_a_profile_is_the_plan_of_its_table_written_by_hand() -> None:
    profile = profile_of(CHAIN)
    by_profile = explorer.plan(Workload(CHAIN, "chain"), profile=profile, planner="brute-force", mini_batch=4)
    seconds = np.array([[k * MS, 3 * k * MS] for k in range(1, 7)])
    cluster = uniform_cluster([Device("x", "k", 1e9), Device("y", "k", 1e9)], 1e9, MS)
    by_hand = Problem(CHAIN, cluster, ComputeTable((1, 4), {"k": seconds}), mini_batch=4, micro_batches=None)
    expected = solve(by_hand, "brute-force")
    assert by_profile.objective_s == expected.objective_s
    assert by_profile.plan == expected.plan


def test_a_problem_keeps_all_but_its_costs() -> None:
    before = problem(CHAIN, [1.0] * 6, gpus=3, memory=7e8, mini_batch=8, micro_batches=None, pins={2: 1})
    profile = profile_of(CHAIN)
    after = replanned(before, profile)
    assert (after.mini_batch, after.micro_batches, after.pins) == (8, None, {2: 1})
    assert [device.memory_bytes for device in after.cluster.devices] == [7e8] * 3
    assert after.cluster.transfer_s(1e9, 2, 0) == pytest.approx(1.001)
    np.testing.assert_allclose(after.compute.at(kind_of(profile), 1), np.arange(1, 7) * MS)
    plan = solve(after, "brute-force").plan
    assert plan is not None
    assert evaluate(after, plan).iteration_s < evaluate(before, plan).iteration_s
    with pytest.raises(InvalidProblem, match="CPUs"):
        replanned(problem(CHAIN, [1.0] * 6, cpus=1), profile)


def test_what_runs_again_does_so_at_measured_times() -> None:
    """Of the operators of 1 to 6 ms the middle one, of 2, runs again before its backward, of 5."""
    operators = tuple(replace(o, checkpoint="layer" if i == 1 else "") for i, o in enumerate(CHAIN.operators))
    before = recomputing(problem(replace(CHAIN, operators=operators), [1.0] * 6))
    after = replanned(before, profile_of(CHAIN))
    times_s = after.compute.at(kind_of(profile_of(CHAIN)), 1)
    np.testing.assert_allclose(times_s, np.array([1, 2, 3, 4, 7, 6]) * MS)


def test_links_between_hosts_are_distinguished_from_those_inside_one() -> None:
    fast, slow = LinkTimes(0, 1, (1,), (1.0,), 0.0, 4e9), LinkTimes(0, 2, (1,), (1.0,), 0.5, 1e9)
    profile = profile_of(CHAIN, ranks=3, hosts=("a", "a", "b"), links=(fast, slow))
    cluster = measured_cluster(profile)
    assert [device.node for device in cluster.devices] == [0, 0, 1]
    assert cluster.transfer_s(4e9, 1, 0) == 1.0
    assert cluster.transfer_s(4e9, 2, 1) == pytest.approx(4.5)
    assert measured_cluster(profile_of(CHAIN, ranks=1)).links == ()
    assert links_between([0, 0], profile_of(CHAIN, ranks=1)) == ()
