"""How far planners of one pass are from the optimum, on instances that the constraint program proves."""

from __future__ import annotations

import math
import os
import statistics
import time

import pytest

from solvers.joint.planners.programs import JointCP
from solvers.plan.result import Result
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from tests.benchmarks.joint.joint_instances import instances, make
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(4 * 3600)]

PROOF_S = float(os.environ.get("BENCHMARK_PROOF_S", "60"))
"""Seconds for the proof of every instance; those that take longer are listed, and left out."""
LIMIT_S = float(os.environ.get("BENCHMARK_CPU_S", "1"))
"""CPU seconds of the planning process for every planner."""
SEED = 0
PLANNED = ("joint", "heft", "m-etf", "m-sct", "m-topo", "layer-split")
LEAST = 30
"""So many instances must be proved for the figures to be worth reporting."""


def planned(problem: Problem, planner: str) -> float:
    """Seconds of the pass after the CPU seconds allowed; inf without a plan."""
    return solve(problem, planner, time_limit_s=LIMIT_S, seed=SEED, clock=time.process_time).objective_s


def test_distance_from_the_proved_optimum():
    """A planner without a plan for an instance counts among its failures, not in its mean. The planners see
    nothing of the proof."""
    pytest.importorskip("ortools")
    names = [name for name in PLANNED if name in PLANNERS]
    warm = make(instances()[0])
    for name in names:
        planned(warm, name)
    rows, beyond, proved = [], {name: [] for name in names}, 0
    for instance in instances():
        problem = make(instance)
        proof = solve(problem, JointCP(), time_limit_s=PROOF_S, seed=SEED)
        optimum = proof.objective_s
        cells = ["-"] * len(names)
        if proof.gap <= 1e-9:
            proved += 1
            away = {name: planned(problem, name) / optimum - 1 for name in names}
            for name, share in away.items():
                assert share >= -1e-9, f"{name} beats a proved optimum on {instance}"
                beyond[name].append(share)
            cells = [_percent(share) for share in away.values()]
        rows.append([instance, len(problem.graph), _ms(proof), f"{proof.gap:.2%}", f"{proof.runtime_s:.1f}", *cells])
        print(*rows[-1], sep=" | ", flush=True)
    header = ["instance", "operators", "best known, ms", "gap", "proof, s", *names]
    show(f"Distance from the proved optimum, {LIMIT_S:g} CPU s, seed {SEED}", header, rows, "numba", "ortools")
    show(
        f"Of {len(rows)} instances {proved} proved within {PROOF_S:g} s",
        ("planner", "mean", "worst", "optimal", "no plan"),
        [_summary(name, shares) for name, shares in beyond.items()],
        "numba", "ortools",
    )  # fmt: skip
    assert proved >= LEAST


def _summary(name: str, shares: list[float]) -> tuple[object, ...]:
    there = [share for share in shares if math.isfinite(share)]
    if not there:
        return name, "-", "-", 0, len(shares)
    best = sum(share <= 1e-9 for share in there)
    return name, _percent(statistics.mean(there)), _percent(max(there)), best, len(shares) - len(there)


def _percent(share: float) -> str:
    return f"{share:.2%}" if math.isfinite(share) else "-"


def _ms(result: Result) -> str:
    return f"{result.objective_s * 1e3:.3f}" if result.plan is not None else "-"
