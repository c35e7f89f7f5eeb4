"""Pesto's placement times (its table 2) and its sensitivity to faster devices and links (its figure 8)."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace

import pytest

from solvers.planners.solve import solve
from solvers.planners.warm import warm
from solvers.problem.problem import ComputeTable, Problem
from tests.benchmarks.joint.test_joint_steps import BAECHI, EXPERT, JOINT, MODELS, SEED, make_question
from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

CHOSEN = tuple(os.environ.get("BENCHMARK_MODELS", ",".join(MODELS)).split(","))
LIMIT_S = float(os.environ.get("BENCHMARK_CPU_S", "5"))
"""CPU seconds of `joint`; the others are done sooner."""
FASTER = (1, 2, 4, 8)


def planned(problem: Problem, planner: str):
    """The result, and CPU seconds of all of it."""
    before = time.process_time()
    result = solve(problem, planner, time_limit_s=LIMIT_S, seed=SEED, clock=time.process_time)
    return result, time.process_time() - before


def test_time_to_a_placement():
    """Two V100, NVLink. Seconds are CPU seconds of a warm process; "overtakes": when `joint` had a plan as good as the
    best of Baechi's three, and better than each of all others."""
    warm()
    rows = []
    for model in CHOSEN:
        problem = make_question(model, 2, "NVLink")
        answers = {name: planned(problem, name) for name in (EXPERT, *BAECHI)}
        joint, took = planned(problem, JOINT)
        rival_s = min(answers[name][0].objective_s for name in BAECHI)
        overtakes = next((step.elapsed_s for step in joint.trace if step.objective_s <= rival_s), math.nan)
        rows.append(
            [model, len(problem.graph)]
            + [f"{result.objective_s * 1e3:.2f} in {cpu_s:.2f} s" for result, cpu_s in answers.values()]
            + [f"{joint.objective_s * 1e3:.2f} in {took:.1f} s", f"{overtakes:.2f} s",
               f"{1 - joint.objective_s / answers[EXPERT][0].objective_s:.1%}",
               f"{1 - joint.objective_s / rival_s:.1%}"]
        )  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    header = ("model", "operators", EXPERT, *BAECHI, JOINT, "overtakes", f"below {EXPERT}", "below the best of Baechi")
    show(f"Step time in ms, and CPU seconds to it (seed {SEED})", header, rows, "numba")


def faster(problem: Problem, compute: float, links: float) -> Problem:
    """With devices and links so many times as fast; latencies stay."""
    table = problem.compute
    cluster = problem.cluster
    sped = tuple(replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * links) for link in cluster.links)
    times = {kind: seconds / compute for kind, seconds in table.seconds.items()}
    return replace(
        problem, compute=ComputeTable(table.samples, times), cluster=replace(cluster, links=sped), costs_from="scaled"
    )


def test_sensitivity_to_faster_devices_and_links():
    """Two V100 on PCIe, so that links matter. Each step time relative to the one on the machine as it is."""
    warm()
    rows, lines = [], []
    for what in ("devices", "links"):
        for model in CHOSEN:
            problem, base, gains = make_question(model, 2, "PCIe"), None, []
            for times in FASTER:
                sped = faster(problem, times if what == "devices" else 1, times if what == "links" else 1)
                expert, joint_s = (planned(sped, name)[0].objective_s for name in (EXPERT, JOINT))
                baechi = min(planned(sped, name)[0].objective_s for name in BAECHI)
                base = base or joint_s
                gains.append(1 - joint_s / expert)
                rows.append(
                    [model, what, times, f"{expert * 1e3:.2f}", f"{baechi * 1e3:.2f}", f"{joint_s * 1e3:.2f}",
                     f"{joint_s / base:.2f}", f"{1 - joint_s / expert:.1%}", f"{1 - joint_s / baechi:.1%}"]
                )  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
            lines.append((what, Line(model, gains)))
    header = ("model", "faster", "times", EXPERT, "best of Baechi", JOINT, f"{JOINT}, relative", f"below {EXPERT}",
              "below Baechi")  # fmt: skip
    show(f"Step time, ms, on faster devices or links ({LIMIT_S:g} CPU s, seed {SEED})", header, rows, "numba")
    for what in ("devices", "links"):
        save(
            f"pesto-faster-{what}",
            plot(
                f"Share of the step time that {JOINT} saves over {EXPERT}, on faster {what}",
                f"{what} so many times as fast",
                [str(times) for times in FASTER],
                [line for kind, line in lines if kind == what],
            ),
        )
