"""Plans of three models on two pinned single-thread processes: what was predicted from measured operators and
links, and what was measured. BENCHMARK_MODELS chooses models, BENCHMARK_STEPS iterations, BENCHMARK_BUDGET the
seconds of calibration."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from explorer.costs.profile import Profile
from explorer.jobs.replan import replanned
from explorer.measured import compare_run
from explorer.measured.ranking import rank_agreement
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.bundles.bundle import finish_bundle, write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.measuring.calibration import MODULE, calibrate_on
from explorer.runner.targets.local import LocalTarget
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Plan
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem
from tests.benchmarks.table import show
from tests.explorer.runner.plans import placed, solved

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

STEPS = int(os.environ.get("BENCHMARK_STEPS", "15"))
BUDGET_S = float(os.environ.get("BENCHMARK_BUDGET", "40"))
MODELS = os.environ.get("BENCHMARK_MODELS", "gpt,multimodal,rnnlm").split(",")
CUTS = (0.25, 0.4, 0.55, 0.75)
"""Shares of the operators on the first device."""

Make = Callable[[Profile], tuple[Problem, Plan]]


def problem_of(model: str, profile: Profile, **settings: object) -> Problem:
    workload = load(model)
    return replanned(make_problem(workload, Settings(devices=2, **settings)), profile)  # type: ignore[arg-type]


def forwards(problem: Problem) -> int:
    return sum(operator.forward_of is None for operator in problem.graph.operators)


def cut(model: str, share: float, micro_batches: int, pipeline: Pipeline = Pipeline.ONE_F_ONE_B) -> Make:
    """A chain of two stages."""

    def make(profile: Profile) -> tuple[Problem, Plan]:
        problem = problem_of(model, profile, mini_batch=16, micro_batches=micro_batches, pipeline=pipeline)
        count = forwards(problem)
        first = round(share * count)
        return problem, placed(problem, [int(i >= first) for i in range(count)], micro_batches)

    return make


def branches(model: str, on_second: tuple[str, ...]) -> Make:
    """Branches of the model on the second device, the rest on the first."""

    def make(profile: Profile) -> tuple[Problem, Plan]:
        problem = problem_of(model, profile, mini_batch=16, micro_batches=4, contiguity=Contiguity.NONE)
        operators = [o for o in problem.graph.operators if o.forward_of is None]
        return problem, placed(problem, [int(o.module_path.startswith(on_second)) for o in operators], 4)

    return make


def planned(model: str, planner: str, **settings: object) -> Make:
    def make(profile: Profile) -> tuple[Problem, Plan]:
        problem = problem_of(model, profile, **settings)
        return problem, solved(problem, planner, 10.0)

    return make


def plans_of(name: str, model: str) -> dict[str, Make]:
    if name == "gpt":
        return {
            **{f"cut at {share:.0%}, 4 micro-batches": cut(model, share, 4) for share in CUTS},
            "cut at 55%, 2 micro-batches, GPipe": cut(model, 0.55, 2, Pipeline.GPIPE),
            "cut at 55%, 8 micro-batches": cut(model, 0.55, 8),
        }
    if name == "multimodal":
        return {
            "two branches each": branches(model, ("branches.audio", "branches.video")),
            "three branches and one": branches(model, ("branches.video",)),
            "graph-pipeline": planned(model, "graph-pipeline", mini_batch=16, micro_batches=4),
            "cut at 40%": cut(model, 0.4, 4),
            "cut at 75%": cut(model, 0.75, 4),
        }
    one = {"objective": Objective.MAKESPAN, "mini_batch": 8}
    return {
        "layer-split": planned(model, "layer-split", **one),
        "m-topo": planned(model, "m-topo", **one),
        "m-etf": planned(model, "m-etf", **one),
        "heft": planned(model, "heft", **one),
        "joint": planned(model, "joint", **one),
    }


def calibrated(model: str, folder: Path, samples: tuple[int, ...]) -> Profile:
    request = RunRequest(samples=samples, budget_s=BUDGET_S, allow_model=True)
    target = LocalTarget("local", module=MODULE)
    graph = load(model).graph
    return calibrate_on(target, graph, model, 2, request, folder, lambda _: None, lambda: False)


@pytest.mark.parametrize("name", MODELS)
def test_predicted_against_measured(name: str, tmp_path: Path) -> None:
    model = f"tests.benchmarks.runs.run_models:{name}"
    profile = calibrated(model, tmp_path / "profile", (4, 8) if name == "rnnlm" else (2, 4, 8))
    rows, messages, measurements = [], [], []
    for number, (title, make) in enumerate(plans_of(name, model).items()):
        problem, plan = make(profile)
        text = write_plan(problem, plan, reference=model)
        request = RunRequest(steps=STEPS, warmup=3, optimizer="adam", allow_model=True)
        bundle = write_bundle(tmp_path / str(number), text, request, "local")
        target = LocalTarget("local", module=RANK_MODULE)
        outcome = target.run(text, request, len(plan.devices_used()), bundle.folder, lambda _: None, lambda: False)
        finish_bundle(bundle, outcome)
        assert outcome.status is RunStatus.DONE, outcome.reason
        file = read_plan(text)
        compared = compare_run(file.problem, file.plan, outcome)
        predicted = simulate(problem, plan).makespan_s
        measured, best = median(outcome.iterations_s), min(outcome.iterations_s)
        messages.append(predicted)
        measurements.append(measured)
        rows.append([
            title, f"{predicted * 1e3:.1f}", f"{measured * 1e3:.1f}", f"{best * 1e3:.1f}",
            f"{predicted / measured - 1:+.1%}", f"{predicted / best - 1:+.1%}",
            f"{compared.fed_error:+.1%}", f"{outcome.noise or 0.0:.1%}",
        ])  # fmt: skip
    agreement = rank_agreement(messages, measurements)
    show(
        f"Predicted against measured: {name}, two pinned processes of one thread (Spearman {agreement:.2f};"
        f" noise of the calibration {profile.noise:.1%})",
        ["plan", "predicted ms", "median ms", "best ms", "predicted/median", "predicted/best",
         "fed with measured times", "noise"],
        rows, "torch",
    )  # fmt: skip
    assert -1 <= agreement <= 1
