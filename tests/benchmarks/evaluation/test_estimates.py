"""What searches pay for an estimate, a pass or a latency, beside the evaluation of the same plan, in one run."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import Counter

import numpy as np
import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.coarsening.coarsen import Condensed
from solvers.evaluation import lower, simulation
from solvers.evaluation.evaluate import evaluate
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.interpreted import compile_at_once
from solvers.latency.latency_kernel import latency, scratch_for
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.plans import pieces_of, plan_of_calls
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.timing.estimate import Estimator
from solvers.pipelines.tree.starts import of_plan
from solvers.plan.plan import Plan
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Execution, Objective, Problem, Transfers
from tests.benchmarks.table import cpu_seconds, show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

MODELS = (("gpt-small", 4), ("inception-small", 4), ("resnet50", 8), ("gpt", 8))
KERNELS = ((lower, ("_routes_of", "_tasks_of", "_holds_of")), (simulation, ("_run_tasks", "_peaks_of")))
RUNS = 15


def kernels_s(problem: Problem, plan: Plan, objective: Objective) -> dict[str, float]:
    """CPU seconds that each kernel of the evaluation takes to tell times and peaks of a plan, about."""
    spent: Counter[str] = Counter()

    def timed(name: str, kernel):
        def call(*args):
            began = time.process_time()
            result = kernel(*args)
            spent[name] += time.process_time() - began
            return result

        return call

    simulation.run(problem, plan, objective).peak_bytes()
    with pytest.MonkeyPatch.context() as patch:
        for module, names in KERNELS:
            for name in names:
                patch.setattr(module, name, timed(name, getattr(module, name)))
        for _ in range(RUNS):
            simulation.run(problem, plan, objective).peak_bytes()
    return {name: seconds / RUNS for name, seconds in spent.items()}


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"


def test_an_estimate_a_pass_and_a_latency_against_an_evaluation() -> None:
    compile_at_once()
    rows = []
    for model, devices in MODELS:
        for name, estimate in SEARCHES:
            estimated = estimate(model, devices)
            if estimated is None:
                continue
            problem, plan, objective, quick_s = estimated
            kernels = kernels_s(problem, plan, objective)
            tasks = len(lower.lower(problem, plan, objective).tasks.seconds)
            whole_s = cpu_seconds(lambda p=problem, q=plan: evaluate(p, q), 5)
            rows.append((
                model, name, len(plan.stages), tasks, _us(quick_s), _us(sum(kernels.values())), _us(whole_s),
                f"{sum(kernels.values()) / quick_s:.1f}", f"{whole_s / quick_s:.0f}",
            ))  # fmt: skip
            print(*rows[-1], flush=True)
    show(
        "A search's own telling beside the evaluation of the same plan, CPU microseconds",
        ("model", "what", "stages", "tasks", "the search's", "kernels of the evaluation", "evaluate",
         "kernels / search's", "evaluate / search's"),
        rows,
        "numba", "numpy",
    )  # fmt: skip


def _draft(model: str, devices: int) -> tuple[Problem, Plan, Objective, float] | None:
    problem = make_problem(trace_demo(model), Settings(devices=devices, mini_batch=64, max_replicas=0))
    plan = solve(problem, "pipedream-iter", time_limit_s=20).plan
    if plan is None:
        return None
    condensed = Condensed(problem, ordered=True)
    estimator, draft = Estimator(condensed), of_plan(condensed, plan)
    return problem, plan, Objective.ITERATION, cpu_seconds(lambda: estimator.estimate(draft), RUNS)


def _pass(model: str, devices: int) -> tuple[Problem, Plan, Objective, float] | None:
    settings = Settings(devices=devices, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE)
    problem = make_problem(trace_demo(model), settings)
    simulator = Simulator(pass_model(problem))
    groups = len(simulator.model.groups)
    place = np.arange(groups) * devices // groups
    rank = simulator.placed_rank(place)
    plan = simulator.plan(place, rank)
    if plan is None:
        return None

    def once() -> None:
        simulator.by_rank_s(place, rank)
        simulator.peak_bytes()

    return problem, plan, Objective.MAKESPAN, cpu_seconds(once, RUNS)


def _latency(model: str, devices: int) -> tuple[Problem, Plan, Objective, float] | None:
    settings = Settings(
        devices=devices, cpus=1, objective=Objective.MAKESPAN, training=False, execution=Execution.CALL,
        transfers=Transfers.BLOCKING,
    )  # fmt: skip
    problem = make_problem(trace_demo(model, training=False), settings)
    if unsupported(problem) is not None:
        return None
    calls = LatencyModel.of(problem)
    order = np.empty(calls.groups, np.int64)
    order[np.argsort([calls.group(g)[0] for g in range(calls.groups)])] = np.arange(calls.groups)
    place = (order * calls.accelerators // calls.groups)[calls.group_of]
    call = pieces_of(calls, place, 4)
    if call is None:
        return None
    plan = plan_of_calls(calls, call, 4)
    room = scratch_for(len(call), calls.accelerators, 4)
    return problem, plan, Objective.MAKESPAN, cpu_seconds(lambda: latency(calls.calls, call, 4, room), RUNS)


SEARCHES = (("draft of a pipeline", _draft), ("pass of operators", _pass), ("latency of calls", _latency))


def test_where_graph_pipeline_spends_its_time() -> None:
    compile_at_once()
    rows = []
    for model, devices in MODELS:
        problem = make_problem(trace_demo(model), Settings(devices=devices, mini_batch=64, max_replicas=0))
        planner = GraphPipeline(evaluations=300)
        solve(problem, planner, time_limit_s=60)
        profile = cProfile.Profile(time.process_time)
        profile.enable()
        solve(problem, planner, time_limit_s=60)
        profile.disable()
        spent: Counter[str] = Counter()
        for (file, _, name), (_, calls, own_s, whole_s, _) in pstats.Stats(profile).stats.items():
            spent["all"] += own_s
            if "solvers/pipelines" in file:
                spent["/".join(file.split("solvers/pipelines/")[1].split("/")[:2])] += own_s
            if name == "estimate" and file.endswith("timing/estimate.py"):
                spent["estimates"], spent["number"] = whole_s, calls
        most = [f"{what} {s / spent['all']:.0%}" for what, s in spent.most_common() if "/" in what][:5]
        rows.append((model, devices, f"{spent['all']:.1f}", f"{spent['number']:.0f}",
                     f"{spent['estimates'] / spent['all']:.0%}", "; ".join(most)))  # fmt: skip
    show(
        "Where graph-pipeline spends its time (under a profiler)",
        ("model", "GPUs", "CPU s", "estimates", "in estimates", "own time of its files"),
        rows,
        "numba", "numpy",
    )  # fmt: skip
