"""How long the searches of pipelines take on the same graphs: ours, Piper's and PipeDream's algorithms."""

from __future__ import annotations

import os
import re
import time

import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from solvers.contiguous.pipedream_optimizer import optimise, profile_of
from solvers.contiguous.sequential import sequential_problems
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.planners.piper import Piper
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.search.planner import Planner
from solvers.search.work import Work
from tests.benchmarks.table import show
from tests.benchmarks.test_graph_pipeline import cells, settings

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

PLANNERS: dict[str, Planner] = {
    "published search": GraphPipeline(mode="paper"),
    "graph-pipeline": GraphPipeline(),
    "without local search": GraphPipeline(evaluations=0),
    "pipedream-iter": PipeDreamIteration(),
    "piper": Piper(),
}
CHOSEN = os.environ.get("BENCHMARK_PLANNERS", ",".join(PLANNERS)).split(",")
"""Some of them, by name."""
LIMIT_S = 300.0


def effort_of(notes: tuple[str, ...]) -> Work:
    """The states and relaxations that a planner's notes tell, those of the planners it starts from included."""
    total = Work()
    for note in notes:
        for match in re.finditer(r"([\d,]+) states and ([\d,]+) relaxations", note):
            total += Work(*(int(number.replace(",", "")) for number in match.groups()))
    return total


def pipedream(problem: Problem) -> tuple[float, Work]:
    """CPU seconds and effort of PipeDream's optimizer over all micro-batch sizes, on the graph made one
    sequence: it has too many downsets otherwise."""
    started, effort = time.process_time(), Work()
    sequence = sequential_problems(problem, orders=1)[0]
    bandwidth = problem.cluster.links[0].bandwidth_bytes_per_s
    for count in problem.micro_batch_choices():
        profile = profile_of(sequence, problem.mini_batch // count)
        optimum = optimise(profile, len(problem.cluster), bandwidth, problem.cluster.devices[0].memory_bytes)
        assert optimum is not None
        effort += optimum.effort
    return time.process_time() - started, effort


def test_effort_of_searches():
    """Uniform clusters only; all micro-batch sizes of each search together."""
    rows = []
    workloads = {}
    for model, devices, samples, per_node in cells():
        if per_node is not None or samples != 16:
            continue
        workload = workloads.setdefault(model, load(model))
        problem = make_problem(workload, settings(model, devices, samples, None))
        messages: list[str] = []
        for planner in (PLANNERS[name] for name in CHOSEN):
            started = time.process_time()
            result = solve(problem, planner, time_limit_s=LIMIT_S)
            took = time.process_time() - started
            effort = effort_of(result.notes)
            messages.append(f"{took:.2f} s ({effort.states:.2g}, {effort.relaxations:.2g})")
        other = pipedream(problem)
        messages.append(f"{other[0]:.2f} s ({other[1].states:.2g}, {other[1].relaxations:.2g})")
        rows.append((model, devices, *messages))
        print(*rows[-1], sep=" | ", flush=True)
    show("Search: CPU seconds (states, relaxations)", ("model", "GPUs", *CHOSEN, "PipeDream's optimizer"), rows,
         "numpy", "numba")  # fmt: skip
