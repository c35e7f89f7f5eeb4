"""Step time of one pass of operators: every planner on every model, all judged by the one simulator."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.bounds.combinatorial import lower_bound_s
from solvers.formats.workload import Workload
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.planners.warm import warm
from solvers.problem.cluster import Wires
from solvers.problem.problem import Objective, Problem
from tests.benchmarks.table import show
from tests.solvers.msr_instances import SHARED

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

MODELS = {"rnnlm": 64, "gnmt": 64, "transformer": 64, "nasnet": 32}
"""The four models of Pesto (Middleware 2021), with the samples of a step."""
PROFILES = ("nasnetalarge", "inception_v3", "resnet101")
"""Profiles measured by the authors of PipeDream, operators with their backward in one."""
LIMIT_S = float(os.environ.get("BENCHMARK_CPU_S", "5"))
"""CPU seconds of the planning process, for every planner that needs so many."""
SEED = 0
EXPERT = "layer-split"
"""What a person does by hand: consecutive layers on each device, balanced by work."""
BAECHI = ("m-topo", "m-etf", "m-sct")
RIVALS = tuple(
    os.environ.get("BENCHMARK_RIVALS", ",".join((EXPERT, *BAECHI, "heft", "linear-dp", "partitioner", "single"))).split(
        ","
    )
)
"""Other planners minimise other things, and are as slow as reported for them; name them to see."""
JOINT = "joint"
LINKS = {
    "NVLink": {"bandwidth_bytes_per_s": 50e9, "links": Wires.DEDICATED},
    "PCIe": {"bandwidth_bytes_per_s": 12e9, "links": Wires.SHARED},
}
"""NVLink: a link of its own for every ordered pair. PCIe: 3.0 x16 as measured, one wire for all."""


@cache
def workload(model: str) -> Workload:
    """A traced demo, in training, or a profile of a file."""
    return load(model if model in MODELS else str(SHARED / "workloads" / "pipedream" / f"{model}.txt"))


def make_question(model: str, devices: int, links: str) -> Problem:
    """V100 of 32 GB, fp32, Adam; caps as the devices have them."""
    kind = "V100-32GB" if model in MODELS else None
    batch = MODELS.get(model)
    return make_problem(
        workload(model),
        Settings(devices=devices, device_kind=kind, mini_batch=batch, objective=Objective.MAKESPAN, **LINKS[links]),
    )


def without_one(problem: Problem) -> Problem:
    """With caps so low that one device has no room: 0.6 of the peak that it would have."""
    model = pass_model(problem)
    simulator = Simulator(model)
    place = np.zeros(len(model.groups), np.int64)
    simulator.by_rank_s(place, simulator.placed_rank(place))
    held = float(simulator.peak_bytes()[0])
    devices = tuple(replace(d, memory_bytes=0.6 * held) for d in problem.cluster.devices)
    return replace(problem, cluster=replace(problem.cluster, devices=devices))


def cells() -> Iterator[tuple[str, int, str, bool]]:
    """(model, devices, links, whether one device is ruled out). BENCHMARK_MODELS chooses some."""
    chosen = os.environ.get("BENCHMARK_MODELS", ",".join((*MODELS, *PROFILES))).split(",")
    for model in chosen:
        if model in PROFILES and not (SHARED / "workloads" / "pipedream").exists():
            continue
        for devices in (2, 4):
            for links in LINKS:
                yield model, devices, links, False
        yield model, 2, "NVLink", True
        yield model, 4, "PCIe", True


def step_s(problem: Problem, planner: str) -> tuple[float, float, float]:
    """(step time, bound, CPU seconds); inf where the planner has no plan or cannot represent the problem."""
    if planner not in PLANNERS or PLANNERS[planner]().unsupported(problem) is not None:
        return math.inf, 0.0, 0.0
    before = time.process_time()
    result = solve(problem, planner, time_limit_s=LIMIT_S, seed=SEED, clock=time.process_time)
    return result.objective_s, result.bound_s, time.process_time() - before


def test_step_time_of_every_planner():
    """Least step times are marked; "below" is (rival - joint) / rival, over the rivals that have a plan."""
    warm()  # nobody waits for compilation twice
    rows, below = [], {}
    for model, devices, links, capped in cells():
        problem = make_question(model, devices, links)
        problem = without_one(problem) if capped else problem
        answers = {name: step_s(problem, name) for name in (*RIVALS, JOINT)}
        joint_s, bound, cpu_s = answers[JOINT]
        least = min(seconds for seconds, _, _ in answers.values())
        for name in RIVALS:
            if math.isfinite(answers[name][0]):
                below.setdefault((name, devices, links, capped, model in MODELS), []).append(
                    1 - joint_s / answers[name][0]
                )
        lower = max(bound, lower_bound_s(problem))
        rows.append(
            [model, devices, links + (", capped" if capped else ""), len(problem.graph)]
            + [_ms(answers[name][0], least) for name in (*RIVALS, JOINT)]
            + [f"{lower * 1e3:.2f}", f"{1 - lower / joint_s:.1%}", f"{cpu_s:.1f}"]
        )
        print(rows[-1], flush=True)
    header = ["model", "devices", "links", "operators", *RIVALS, JOINT, "bound", "gap", "CPU s"]
    packages = ("numba", "torch", "highspy")
    show(f"Step time, ms ({LIMIT_S:g} CPU s, seed {SEED})", header, rows, *packages)
    groups = sorted({key[1:] for key in below}, reverse=True)
    table = [
        ["demos" if demos else "profiles", devices, links + (", capped" if capped else "")]
        + [_mean(below.get((name, devices, links, capped, demos))) for name in RIVALS]
        for devices, links, capped, demos in groups
    ]
    show("Mean reduction of the step time by joint", ["models", "devices", "links", *RIVALS], table, *packages)


def _ms(seconds: float, least: float) -> str:
    if math.isinf(seconds):
        return "-"
    text = f"{seconds * 1e3:.2f}"
    return f"**{text}**" if seconds <= least * (1 + 1e-9) else text


def _mean(gains: list[float] | None) -> str:
    return f"{statistics.mean(gains):.1%} of {len(gains)}" if gains else "-"
