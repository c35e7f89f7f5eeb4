"""Six plans of each of four demo twins on two pinned single-thread processes, calibrations and runs in turn: what was
predicted before operators were brought to the whole graph and the engine's own time was known, and after.
BENCHMARK_MODELS chooses models, BENCHMARK_ROUNDS how often each is calibrated and run, BENCHMARK_STEPS iterations a
round, BENCHMARK_BUDGET the seconds of one calibration."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from explorer.costs.profile import Profile
from explorer.costs.profile_json import read_profile
from explorer.jobs.replan import replanned
from explorer.measured.ranking import rank_agreement
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.bundles.outcome import QUIET
from explorer.runner.measuring.attribution import calm
from explorer.runner.measuring.calibration import calibration_plan
from explorer.runner.measuring.place import variation
from explorer.runner.scripts.with_engine import with_engine
from solvers.evaluation.simulation import run
from solvers.formats.plan_json import write_plan
from solvers.plan.plan import Plan
from solvers.problem.problem import Pipeline, Problem
from tests.benchmarks.runs.by_torchrun import torchrun_command
from tests.benchmarks.table import show
from tests.explorer.runner.plans import placed

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

MODELS = os.environ.get("BENCHMARK_MODELS", "gpt-small,bert-small,multimodal-small,transformer-small").split(",")
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "3"))
STEPS = int(os.environ.get("BENCHMARK_STEPS", "6"))
BUDGET_S = float(os.environ.get("BENCHMARK_BUDGET", "5"))
MINI_BATCH, SAMPLES = 32, (4, 8, 16)
PLANS = (
    (0.35, 4, Pipeline.ONE_F_ONE_B),
    (0.5, 2, Pipeline.ONE_F_ONE_B),
    (0.5, 4, Pipeline.ONE_F_ONE_B),
    (0.5, 8, Pipeline.ONE_F_ONE_B),
    (0.65, 4, Pipeline.ONE_F_ONE_B),
    (0.5, 4, Pipeline.GPIPE),
)
"""Share of the operators on the first process, micro-batches, pipeline."""
NEAR = 0.05


@dataclass(frozen=True)
class Predicted:
    """Seconds of an iteration, and of what the busier process computes in it."""

    iteration_s: float
    busy_s: float


def question(model: str, share: float, micro_batches: int, pipeline: Pipeline) -> tuple[Problem, Plan]:
    settings = Settings(devices=2, mini_batch=MINI_BATCH, micro_batches=micro_batches, pipeline=pipeline)
    problem = make_problem(load(model), settings)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    return problem, placed(problem, [int(i >= round(share * count)) for i in range(count)], micro_batches)


def as_before(profile: Profile) -> Profile:
    """Operators by themselves, and nothing of the engine."""
    wholes = tuple(
        replace(w, forward_s=w.operators_forward_s, backward_s=w.operators_backward_s) for w in profile.wholes
    )
    return replace(profile, wholes=wholes, engine=None)


def predicted(problem: Problem, plan: Plan, profile: Profile) -> Predicted:
    costs = replanned(problem, profile)
    simulation = run(with_engine(costs, plan), plan)
    return Predicted(simulation.makespan_s, float(simulation.busy_per_device_s().max()))


def measured_together(model: str, questions: list[tuple[Problem, Plan]], folder: Path) -> Any:
    folder.mkdir()
    (folder / "calibration.json").write_text(calibration_plan(load(model).graph, model, 2))
    for number, (problem, plan) in enumerate(questions):
        (folder / f"plan-{number}.json").write_text(write_plan(problem, plan, reference=model))
    settings = {"rounds": ROUNDS, "steps": STEPS, "budget_s": BUDGET_S, "samples": SAMPLES}
    (folder / "request.json").write_text(json.dumps(settings))
    command = torchrun_command(folder, 2, "tests.benchmarks.runs.interleaved_ranks")
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    return json.loads((folder / "measured.json").read_text())


def _off(predicted_s: float, measured_s: float) -> str:
    return f"{predicted_s * 1e3:.1f} ({predicted_s / measured_s - 1:+.1%})"


@dataclass
class Table:
    """Rows of the table, and of the plans that were quiet throughout how many there are and were near."""

    rows: list[list[str]]
    quiet: int
    near: dict[str, int]


def add_rows(table: Table, model: str, questions: list[tuple[Problem, Plan]], measured: Any) -> None:
    """The plans of one model, from what its ranks measured."""
    profiles = [read_profile(value, "measured.json") for value in measured["profiles"]]
    series: dict[str, list[float]] = {"before": [], "after": [], "measured": []}
    for (share, count, pipeline), (problem, plan), runs in zip(PLANS, questions, measured["runs"], strict=True):
        lengths = [length for each in runs for length in each["lengths_s"]]
        cpu_s = max(calm([s for each in runs for s in each["cpu_s"][rank]]) for rank in (0, 1))
        known = {
            "before": [predicted(problem, plan, as_before(profile)) for profile in profiles],
            "after": [predicted(problem, plan, profile) for profile in profiles],
        }
        middle, best = median(lengths), min(lengths)
        noise = (
            max(each["noise"][0] for each in runs),
            max(variation(each["lengths_s"]) for each in runs),
            max(each["noise"][1] for each in runs),
        )
        iteration = {when: fmean(p.iteration_s for p in each) for when, each in known.items()}
        busy = {when: fmean(p.busy_s for p in each) for when, each in known.items()}
        if max(noise) < QUIET:
            table.quiet += 1
            for when, seconds in iteration.items():
                table.near[when] += abs(seconds / middle - 1) <= NEAR
        series["measured"].append(middle)
        for when, seconds in iteration.items():
            series[when].append(seconds)
        table.rows.append([
            model, f"{share:.0%}, {count}, {pipeline.value}", f"{middle * 1e3:.1f}", f"{best * 1e3:.1f}",
            _off(iteration["before"], middle), _off(iteration["after"], middle),
            f"{cpu_s * 1e3:.1f}", _off(busy["before"], cpu_s), _off(busy["after"], cpu_s),
            " / ".join(f"{value:.1%}" for value in noise),
        ])  # fmt: skip
    agreements = {when: rank_agreement(series[when], series["measured"]) for when in ("before", "after")}
    engines = [profile.engine for profile in profiles if profile.engine is not None]
    table.rows.append([
        model, f"Spearman; noise of calibrations {', '.join(f'{p.noise:.1%}' for p in profiles)}", "", "",
        f"{agreements['before']:.2f}", f"{agreements['after']:.2f}", "", "", "",
        f"engine off by {', '.join(f'{e.residual:.1%}' for e in engines)}",
    ])  # fmt: skip


def show_table(table: Table, models: int) -> None:
    show(
        f"Two pinned processes, {ROUNDS} rounds of a calibration and {STEPS} iterations of every plan; {table.quiet}"
        f" plans of {len(PLANS) * models} had noise under {QUIET:.0%} throughout, of these within {NEAR:.0%}:"
        f" {table.near['before']} before, {table.near['after']} after",
        ["model", "plan", "median ms", "best ms", "predicted before", "predicted after", "CPU of the busier ms",
         "before", "after", "noise before / during / after"],
        table.rows, "torch",
    )  # fmt: skip


def test_predicted_before_and_after(tmp_path: Path) -> None:
    table = Table([], 0, {"before": 0, "after": 0})
    for model in MODELS:
        questions = [question(model, *which) for which in PLANS]
        add_rows(table, model, questions, measured_together(model, questions, tmp_path / model))
    show_table(table, len(MODELS))
    assert len(table.rows) == len(MODELS) * (len(PLANS) + 1)
