"""Latency of one sample: value and gap per workload and number of subgraphs, beside every baseline."""

from __future__ import annotations

import json
import os

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.formats.msr2020 import read_msr2020
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from solvers.search.effort import Effort
from tests.benchmarks.table import show
from tests.oracle.independent import latency_ms
from tests.solvers.msr_instances import FOLDER, needs_workloads

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

LIMIT_S = 60.0


@needs_workloads
def test_latency_of_every_workload():
    """BENCHMARK_WORKLOADS (names, comma-separated) and BENCHMARK_EFFORT choose others than all and thorough."""
    effort = Effort(os.environ.get("BENCHMARK_EFFORT", "thorough"))
    known = json.loads((FOLDER / "reference.json").read_text())["latency"]
    chosen = os.environ.get("BENCHMARK_WORKLOADS", ",".join(known)).split(",")
    rows = []
    for name in chosen:
        path = FOLDER / "latency" / f"{name}.json"
        file = json.loads(path.read_text())
        workload = read_msr2020(file, str(path))
        for subgraphs in (1, 2, None):
            problem = make_problem(workload, Settings(objective=Objective.MAKESPAN, subgraphs_per_device=subgraphs))
            result = solve(problem, "latency", time_limit_s=LIMIT_S, effort=effort)
            assert result.plan is not None
            checked_ms = latency_ms(file, result.plan)
            assert checked_ms == pytest.approx(result.objective_s * 1e3, rel=1e-9)
            key = "best_known" if subgraphs is None else f"q{subgraphs}"
            best = known[name]["best_known"] if subgraphs is None else known[name]["best_known_by_q"][key]
            rivals = {
                "greedy": known[name]["greedy"],
                "all on CPUs": known[name]["all_cpu"],
                "max-load split": known[name].get("max_load_split"),
                **{
                    rival: known[name][rival]["value"]
                    for rival in ("expert", "scotch")
                    if rival in known[name] and not known[name][rival]["over_memory"]
                },
            }
            there = {rival: value for rival, value in rivals.items() if value is not None}
            least = min(there, key=there.__getitem__)
            beyond = round(checked_ms / best - 1, 4) + 0.0
            rows.append(
                (name, subgraphs or "any", f"{checked_ms:.3f}", f"{best:.3f}", f"{beyond:+.2%}",
                 f"{result.bound_s * 1e3:.3f}", f"{result.gap:.1%}", f"{least} {there[least]:.3f}",
                 result.status.value, f"{result.runtime_s:.1f}")
            )  # fmt: skip
            print(*rows[-1], flush=True)
    show(
        f"Latency of one sample, {LIMIT_S:.0f} s",
        ("workload", "subgraphs per device", "value, ms", "best known, ms", "to best known", "our bound, ms", "gap",
         "best baseline that fits memory, ms", "status", "wall s"),
        rows,
        "numba",
        "ortools",
    )  # fmt: skip
