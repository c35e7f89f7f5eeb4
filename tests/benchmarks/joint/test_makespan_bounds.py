"""Bounds on one pass of single operators: what knowing of transfers adds, and the gap to the best plan found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.bounds.combinatorial import improved_bound_s, lower_bound_s
from solvers.joint.planners.joint import Joint
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Wires
from solvers.problem.problem import Execution, Objective, Problem
from solvers.problem.static_sizes import static_sizes
from tests.benchmarks.joint.joint_instances import Instance, make
from tests.benchmarks.table import show
from tests.solvers.msr_instances import SHARED

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

MODELS = ("gnmt", "gpt", "bert", "inception")
PROFILES = ("nasnetalarge", "inception_v3", "resnet101")
LINKS = {"dedicated 50 GB/s": (50e9, Wires.DEDICATED), "shared 12 GB/s": (12e9, Wires.SHARED)}
ROOM = {2: 0.7, 4: 0.4}
"""Memory of every device, in shares of everything: no single one has room for it."""
SAMPLES = 32
"""The mini-batch of the traced models, for any number of devices."""
EVALUATIONS = int(os.environ.get("BENCHMARK_EVALUATIONS", "20000"))
EFFORT = float(os.environ.get("BENCHMARK_EFFORT", "5e8"))


def model_problems() -> Iterator[tuple[str, int, str, Problem]]:
    """BENCHMARK_MODELS (comma-separated; names, or profiles of PipeDream) chooses others than all."""
    profiles = SHARED / "workloads" / "pipedream"
    known = [*MODELS, *(PROFILES if profiles.exists() else ())]
    for name in os.environ.get("BENCHMARK_MODELS", ",".join(known)).split(","):
        path = profiles / f"{name}.txt"
        traced = not path.exists() or name in MODELS
        workload = load(name if traced else str(path))
        for devices in ROOM:
            for links, (bandwidth, wires) in LINKS.items():
                settings = Settings(
                    devices=devices, objective=Objective.MAKESPAN, execution=Execution.OPERATOR, links=wires,
                    bandwidth_bytes_per_s=bandwidth, mini_batch=SAMPLES if traced else None,
                )  # fmt: skip
                yield name, devices, links, make_problem(workload, settings)


def random_problems() -> Iterator[tuple[str, int, str, Problem]]:
    """Layered graphs whose tensors take about as long to send as operators take to run."""
    for seed in range(int(os.environ.get("BENCHMARK_SEEDS", "3"))):
        for devices in ROOM:
            for links in ("NVLink", "PCIe"):
                problem = make(Instance("layered", 60, True, devices, links, False, seed))
                yield f"layered 60, seed {seed}", devices, links, problem


def with_cap(problem: Problem) -> Problem:
    """The same with memory counted as a sum that no device can hold."""
    sizes = static_sizes(problem) if problem.stated_bytes is None else problem.stated_bytes
    cap = sum(sizes) * ROOM[len(problem.cluster)]
    devices = tuple(replace(device, memory_bytes=cap) for device in problem.cluster.devices)
    return replace(problem, stated_bytes=tuple(sizes), cluster=Cluster(devices, problem.cluster.links))


def without_transfers(problem: Problem) -> Problem:
    """The same with links that take no time."""
    links = tuple(replace(link, bandwidth_bytes_per_s=1e300, latency_s=0.0) for link in problem.cluster.links)
    return replace(problem, cluster=Cluster(problem.cluster.devices, links))


def test_bounds_of_one_pass() -> None:
    rows = []
    for problems in (model_problems, random_problems):
        for name, devices, links, free in problems():
            for capped in (False, True):
                problem = with_cap(free) if capped else free
                plain = lower_bound_s(without_transfers(problem))
                started = time.process_time()
                quick = lower_bound_s(problem)
                quick_s = time.process_time() - started
                result = solve(problem, Joint(evaluations=EVALUATIONS), time_limit_s=3600.0)
                best = result.objective_s
                started = time.process_time()
                improved = improved_bound_s(problem, best, budget=EFFORT)
                improved_s = time.process_time() - started
                assert plain <= quick * (1 + 1e-9) <= improved * (1 + 2e-9) <= best * (1 + 3e-9)
                rows.append(
                    (name, devices, links, "yes" if capped else "no", f"{best * 1e3:.3f}", f"{plain / best:.1%}",
                     f"{quick / best:.1%}", f"{improved / best:.1%}", f"{improved / plain - 1:+.1%}",
                     f"{quick_s * 1e3:.0f}", f"{improved_s:.1f}")
                )  # fmt: skip
                print(*rows[-1], flush=True)
    show(
        f"Bounds in shares of the best plan of joint with {EVALUATIONS:,} evaluations; effort {EFFORT:.0e}",
        ("model", "GPUs", "links", "cap", "best plan, ms", "without transfers", "quick", "improved", "gain",
         "quick, CPU ms", "improved, CPU s"),
        rows, "numpy", "numba",
    )  # fmt: skip
