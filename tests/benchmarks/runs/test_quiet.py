"""Measured over predicted of two pinned single-thread processes, for a quiet machine and in under eight minutes: six
plans of each of four demo twins, each calibrated and run in turn. One line a model: the ratio of the median plan, from
the least to the largest; how many of the six are within 10 %; Spearman's rank correlation; and the noise, which says
whether the machine was quiet enough to believe the rest.

``pytest --timeout 900 -m benchmark -s tests/benchmarks/runs/test_quiet.py``; BENCHMARK_MODELS, BENCHMARK_ROUNDS,
BENCHMARK_STEPS and BENCHMARK_BUDGET as in `test_engine_predicted`.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

import pytest

from explorer.costs.profile_json import read_profile
from explorer.measured.ranking import rank_agreement
from explorer.runner.bundles.outcome import QUIET
from explorer.runner.measuring.place import variation
from tests.benchmarks.runs.test_engine_predicted import PLANS, measured_together, predicted, question
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

MODELS = os.environ.get("BENCHMARK_MODELS", "gpt-small,resnet50-small,multimodal-small,llama-small").split(",")
NEAR = 0.1
"""How far off a ratio may be that counts as right."""
HEAD = (
    "model",
    "measured / predicted",
    "within 10 %",
    "Spearman",
    "noise before",
    "during",
    "after",
    "machine",
    "took",
)


def test_measured_over_predicted(tmp_path: Path) -> None:
    rows: list[list[str]] = []
    for model in MODELS:
        begun = perf_counter()
        questions = [question(model, *which) for which in PLANS]
        outcome = measured_together(model, questions, tmp_path / model)
        profiles = [read_profile(value, "measured.json") for value in outcome["profiles"]]
        expected = [fmean(predicted(*one, profile).iteration_s for profile in profiles) for one in questions]
        lengths = [[length for each in runs for length in each["lengths_s"]] for runs in outcome["runs"]]
        measured = [median(each) for each in lengths]
        ratios = [took / entry for took, entry in zip(measured, expected, strict=True)]
        runs = [run for each in outcome["runs"] for run in each]
        noise = [
            max(run["noise"][0] for run in runs),
            max(variation(run["lengths_s"]) for run in runs),
            max(run["noise"][1] for run in runs),
        ]
        near = sum(abs(ratio - 1) <= NEAR for ratio in ratios)
        rows.append([
            model, f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f"{near} of {len(ratios)}",
            f"{rank_agreement(expected, measured):.2f}", *(f"{value:.1%}" for value in noise),
            "quiet" if max(noise) < QUIET else "busy", f"{perf_counter() - begun:.0f} s",
        ])  # fmt: skip
        print(rows[-1], flush=True)
    show(f"Measured over predicted, two pinned processes, {len(PLANS)} plans of each model", HEAD, rows, "torch")
    assert len(rows) == len(MODELS)
