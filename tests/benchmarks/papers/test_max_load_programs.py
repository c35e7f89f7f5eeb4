"""What is asked of max-load beside equal accelerators: replicas, several kinds, slower links between hosts."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
import pytest

from solvers.plan.result import Result, Status
from solvers.planners.solve import solve
from solvers.planners.warm import warm
from solvers.problem.cluster import Cluster, two_level_cluster
from solvers.problem.graph import Amount
from solvers.problem.problem import ComputeTable, Contiguity, Problem
from tests.benchmarks.table import show
from tests.solvers.msr_instances import as_problem, needs_workloads, published, references

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600), needs_workloads]

LIMIT_S = float(os.environ.get("BENCHMARK_LIMIT", "60"))
"""Of each solve with the integer program."""
SMALL = ("layer-bert24_inference", "layer-bert24_training", "operator-bert_l-3_inference", "operator-bert_l-3_training")
HOSTED = (
    *SMALL, "operator-bert_l-6_training", "layer-resnet50_training", "operator-resnet50_inference",
    "layer-gnmt_inference",
)  # fmt: skip
SLOW = "half-speed"


def cell(result: Result) -> str:
    value = f"{result.objective_s * 1e3:.4f}"
    proved = "" if result.status is Status.OPTIMAL else f" (gap {result.gap:.2%})"
    return f"{value}{proved} in {result.runtime_s:.1f} s"


def every_other_half_as_fast(problem: Problem) -> Problem:
    """The problem with every second accelerator of another kind, which takes twice as long for everything."""
    kind = problem.cluster.devices[0].kind
    seconds = problem.compute.seconds
    devices = tuple(
        replace(d, kind=SLOW) if number % 2 and not d.is_cpu else d for number, d in enumerate(problem.cluster.devices)
    )
    table = ComputeTable(problem.compute.samples, {**seconds, SLOW: 2 * np.asarray(seconds[kind])})
    return replace(problem, compute=table, cluster=Cluster(devices, problem.cluster.links))


def on_two_hosts(problem: Problem, times: float) -> Problem:
    """The problem with half of the accelerators (and the CPUs) in each of two hosts, and links between them that take
    so many times as long as the file says."""
    assert problem.transfer_s is not None
    count = len(problem.cluster.accelerators)
    devices = tuple(
        replace(d, node=int(2 * number >= count) if number < count else 0)
        for number, d in enumerate(problem.cluster.devices)
    )
    tensors = tuple(
        replace(tensor, nbytes=Amount(0.0, seconds))
        for tensor, seconds in zip(problem.graph.tensors, problem.transfer_s, strict=True)
    )
    return replace(
        problem,
        graph=replace(problem.graph, tensors=tensors),
        transfer_s=None,
        cluster=two_level_cluster(devices, 1.0, 0.0, 1.0 / times, 0.0),
    )


def test_replicas_in_the_integer_program():
    rows = []
    for name in SMALL:
        p = as_problem(published(name), max_replicas=2)
        chain, program = solve(p, "downset-dp"), solve(p, "max-load-ip", time_limit_s=LIMIT_S)
        assert chain.status is Status.OPTIMAL
        assert program.objective_s >= chain.objective_s * (1 - 1e-6)
        assert program.bound_s <= chain.objective_s * (1 + 1e-6)
        anywhere = replace(p, contiguity=Contiguity.NONE)
        alone = solve(replace(anywhere, max_replicas=1), "max-load-ip", time_limit_s=LIMIT_S)
        both = solve(anywhere, "max-load-ip", time_limit_s=LIMIT_S)
        rows.append((name, f"{chain.objective_s * 1e3:.4f}", cell(program), cell(alone), cell(both)))
        print(*rows[-1], flush=True)
    show(
        "Up to 2 replicas, ms",
        ("workload", "acyclic, downset-dp", "acyclic, max-load-ip", "any set, no replicas", "any set, 2 replicas"),
        rows,
        "numba",
        "highspy",
    )


def test_two_kinds_of_accelerators_in_the_dynamic_programme():
    warm()
    rows = []
    for name, known in references().items():
        p = every_other_half_as_fast(as_problem(published(name)))
        before = time.process_time()
        exact = solve(p, "downset-dp", time_limit_s=600)
        seconds = time.process_time() - before
        linear = solve(p, "linear-dp")
        assert exact.status is Status.OPTIMAL
        assert known["contiguous_optimum"] * (1 - 1e-6) <= exact.objective_s * 1e3
        fast = replace(p, cluster=Cluster(tuple(d for d in p.cluster.devices if d.kind != SLOW)))
        without = solve(fast, "downset-dp", time_limit_s=600)
        assert exact.objective_s <= without.objective_s * (1 + 1e-9)
        none = "none fits" if without.plan is None else f"{without.objective_s * 1e3:.4f}"
        rows.append(
            (name, f"{known['contiguous_optimum']:.4f}", f"{exact.objective_s * 1e3:.4f}", f"{seconds:.2f}", none,
             f"{linear.objective_s / exact.objective_s:.4f}")
        )  # fmt: skip
        print(*rows[-1], flush=True)
    show(
        "Every second accelerator half as fast, ms",
        ("workload", "all equal", "two kinds", "CPU s", "without the slow ones", "linear-dp / optimum"),
        rows,
        "numba",
    )


def test_slower_links_between_hosts_in_the_integer_program():
    """BENCHMARK_WORKLOADS (names, comma-separated) chooses some."""
    rows = []
    for name in os.environ.get("BENCHMARK_WORKLOADS", ",".join(HOSTED)).split(","):
        p = as_problem(published(name))
        one_speed = solve(p, "downset-dp").objective_s
        two = on_two_hosts(p, 4.0)
        assert solve(on_two_hosts(p, 1.0), "downset-dp").objective_s == pytest.approx(one_speed, rel=1e-9)
        linear_s = solve(two, "linear-dp").objective_s
        chain, anywhere = (
            solve(replace(two, contiguity=contiguity), "max-load-ip", time_limit_s=LIMIT_S)
            for contiguity in (Contiguity.ACYCLIC, Contiguity.NONE)
        )
        assert one_speed * (1 - 1e-6) <= chain.objective_s <= linear_s * (1 + 1e-6)
        rows.append((name, f"{one_speed * 1e3:.4f}", f"{linear_s * 1e3:.4f}", cell(chain), cell(anywhere)))
        print(*rows[-1], flush=True)
    show(
        "Two hosts, links between them 4 times as slow, ms",
        ("workload", "one speed, acyclic", "linear-dp", "acyclic, max-load-ip", "any set, max-load-ip"),
        rows,
        "numba",
        "highspy",
    )
