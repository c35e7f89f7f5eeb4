"""Forward and backward of whole models, as a library of operator times predicts them: at the numbers of samples that
were measured, at others, and from the library of all other models; with the roofline's error beside.

BENCHMARK_MODELS chooses models, BENCHMARK_BUDGET the seconds of each calibration, BENCHMARK_FILE where what was
measured is kept; a file that is there is read in place of measuring, so that another rule of interpolation can be held
against the same times.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from explorer.costs.profile import Profile
from explorer.costs.profile_json import profile_object, read_profile
from explorer.costs.roofline import estimate
from explorer.costs.times.from_profile import library_of
from explorer.costs.times.library import Library, merged
from explorer.costs.times.table import table
from explorer.question.loading import load
from explorer.runner.bundles.request import RunRequest
from explorer.runner.measuring.calibration import MODULE, calibrate_on
from explorer.runner.targets.local import LocalTarget
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import ComputeTable, Optimizer, Origin
from tests.benchmarks.costs.whole_models import Whole, time_whole
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

MODELS = os.environ.get("BENCHMARK_MODELS", "gpt-small,bert-small,resnet50-small,multimodal-small").split(",")
BUDGET_S = float(os.environ.get("BENCHMARK_BUDGET", "20"))
FILE = os.environ.get("BENCHMARK_FILE")
MEASURED, HELD_OUT = (2, 8, 32), (4, 16, 64)
QUIET = 0.02


def calibrated(model: str, folder: Path) -> Profile:
    request = RunRequest(samples=MEASURED, budget_s=BUDGET_S, allow_model=True)
    target = LocalTarget("local", module=MODULE)
    return calibrate_on(target, load(model).graph, model, 1, request, folder, lambda _: None, lambda: False)


def measured(folder: Path) -> tuple[dict[str, Profile], dict[str, list[Whole]]]:
    """By model its calibration, and the whole right after it."""
    profiles: dict[str, Profile] = {}
    truth: dict[str, list[Whole]] = {}
    for number, model in enumerate(MODELS):
        profiles[model] = calibrated(model, folder / str(number))
        truth[model] = time_whole(model, sorted({*MEASURED, *HELD_OUT}), BUDGET_S / 6)
    if FILE:
        fields = {
            "profiles": {model: profile_object(profile) for model, profile in profiles.items()},
            "truth": {model: [asdict(whole) for whole in truth[model]] for model in MODELS},
        }
        Path(FILE).write_text(json.dumps(fields))
    return profiles, truth


def saved_times() -> tuple[dict[str, Profile], dict[str, list[Whole]]]:
    """What `measured` wrote."""
    content = json.loads(Path(str(FILE)).read_text())
    return (
        {model: read_profile(content["profiles"][model]) for model in MODELS},
        {model: [Whole(**whole) for whole in content["truth"][model]] for model in MODELS},
    )


def total(graph: OpGraph, compute: ComputeTable, samples: int) -> float:
    """Seconds of forward and backward."""
    counted = np.array([operator.phase is not Phase.UPDATE for operator in graph.operators])
    (kind,) = compute.seconds
    return float(compute.at(kind, samples)[counted].sum())


def measured_share(graph: OpGraph, compute: ComputeTable, samples: int, origin: Origin) -> float:
    counted = np.array([operator.phase is not Phase.UPDATE for operator in graph.operators])
    (kind,) = compute.seconds
    seconds, of = compute.at(kind, samples), compute.origin_at(kind, samples)
    assert of is not None
    return float(seconds[counted & (of == origin)].sum() / seconds[counted].sum())


def test_whole_models_as_operator_times_predict_them(tmp_path: Path) -> None:
    profiles, truth = saved_times() if FILE and Path(FILE).exists() else measured(tmp_path)
    graphs = {model: load(model).graph for model in MODELS}
    libraries = {model: library_of(graphs[model], profiles[model]) for model in MODELS}
    rows, errors = report(MODELS, graphs, libraries, truth)
    show(
        "Whole forward and backward, as operator times predict them",
        ["model", "samples", "measured ms", "own times", "others' times", "of it interpolated", "roofline", "noise"],
        rows, "torch",
    )  # fmt: skip
    for what, pairs in errors.items():
        print(f"{what}: {words([e for e, _ in pairs])}; noise under 2%: {words([e for e, n in pairs if n < QUIET])}")
    assert all(np.isfinite(error) for pairs in errors.values() for error, _ in pairs)


def words(errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    return f"median {median(sizes):.1%}, worst {max(sizes):.1%} of {len(sizes)}" if sizes else "none"


def report(
    models: list[str], graphs: dict[str, OpGraph], libraries: dict[str, Library], truth: dict[str, list[Whole]]
) -> tuple[list[list[str]], dict[str, list[tuple[float, float]]]]:
    """(rows, by the quantity estimated the errors with their noise)."""
    rows: list[list[str]] = []
    errors: dict[str, list[tuple[float, float]]] = {}
    for model in models:
        graph = graphs[model]
        others: Library | None = None
        for other in models:
            if other != model:
                others = libraries[other] if others is None else merged(others, libraries[other])
        predictions: dict[str, ComputeTable] = {}
        kind = libraries[model].kind
        predictions["own"] = table(graph, [kind], [libraries[model]], Optimizer.ADAM)[0]
        if others is not None:
            predictions["others"] = table(graph, [kind], [others], Optimizer.ADAM)[0]
        predictions["roofline"] = estimate(graph, [kind])
        for whole_run in truth[model]:
            measured = whole_run.samples in MEASURED
            fields = {
                what: total(graph, p, whole_run.samples) / whole_run.median_s - 1.0 for what, p in predictions.items()
            }
            row = [
                model,
                str(whole_run.samples) + ("" if measured else ", held out"),
                f"{whole_run.median_s * 1e3:.2f}",
            ]
            row.append(f"{fields['own']:+.1%}")
            errors.setdefault(f"own, {'measured' if measured else 'held out'}", []).append(
                (fields["own"], whole_run.noise)
            )
            if others is not None:
                row.append(f"{fields['others']:+.1%}")
                between = measured_share(graph, predictions["others"], whole_run.samples, Origin.INTERPOLATED)
                row.append(f"{between:.0%}")
                errors.setdefault("others", []).append((fields["others"], whole_run.noise))
            else:
                row += ["", ""]
            row += [f"{fields['roofline']:+.1%}", f"{whole_run.noise:.1%}"]
            errors.setdefault("roofline", []).append((fields["roofline"], whole_run.noise))
            rows.append(row)
    return rows, errors
