"""A tiny GPT and a tiny mixture of experts, trained with their tensors divided: the curve of one process, under grids
of 4 and 8 processes, also where the grid changes in the middle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from solvers.problem.problem import Pipeline
from tests.explorer.runner.launching import launched
from tests.explorer.runner.plans import placed, problem_of, text
from tests.explorer.runner.training.divided_trainings import SAMPLES, STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXACT = 1e-4
"""Largest relative difference of losses, norms and sums of weights, in fp32 after steps of AdamW."""
MODELS = ("gpt-small", "moe-small")


@dataclass(frozen=True)
class Grid:
    """tensor: over how many processes tensors are divided; stages; data: replicas of each stage; zero: of ZeRO."""

    tensor: int
    stages: int
    data: int
    zero: int = 0

    @property
    def processes(self) -> int:
        return self.tensor * self.stages * self.data

    def plan(self, model: str) -> str:
        reference = f"{model},tensor-parallel={self.tensor}" if self.tensor > 1 else model
        problem = problem_of(
            reference, devices=self.processes, devices_per_node=self.processes, mini_batch=SAMPLES, micro_batches=2,
            max_replicas=self.data, zero=self.zero, pipeline=Pipeline.ONE_F_ONE_B,
        )  # fmt: skip
        forward = [o for o in problem.graph.operators if o.forward_of is None]
        first_block = [k for k, o in enumerate(forward) if o.module_path.startswith("blocks.1")]
        halves = [int(self.stages > 1 and k >= first_block[0]) for k in range(len(forward))]
        places = [tuple(half * self.data + replica for replica in range(self.data)) for half in halves]
        return text(problem, placed(problem, places, 2), reference)


WHOLE = Grid(1, 1, 1)
GRIDS = {
    "tensors over 4": Grid(4, 1, 1),
    "tensors over 2, 2 stages": Grid(2, 2, 1),
    "tensors over 2, 2 replicas": Grid(2, 1, 2),
    "tensors over 2, 2 stages of 2 replicas": Grid(2, 2, 2),
    "2 stages of 2 replicas, ZeRO-1": Grid(1, 2, 2, 1),
    "tensors over 2, 2 replicas, ZeRO-1": Grid(2, 1, 2, 1),
}
HALF = STEPS // 2
CHANGES = (
    ("tensors over 4", "tensors over 2, 2 stages"),
    ("tensors over 2, 2 replicas", "whole"),
    ("tensors over 2, 2 replicas, ZeRO-1", "tensors over 4"),
    ("2 stages of 2 replicas, ZeRO-1", "tensors over 2, 2 replicas, ZeRO-1"),
    ("2 stages of 2 replicas, ZeRO-1", "whole"),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("divided")
    cases: list[list[Any]] = []
    for model in MODELS:
        for name, grid in {"whole": WHOLE, **GRIDS}.items():
            (folder / f"{model} {name}.json").write_text(grid.plan(model))
            cases.append([f"{model} {name}", model, f"{model} {name}.json", grid.processes, STEPS, "", ""])
        for first, second in CHANGES:
            saved = f"{model} {first} to {second} kept"
            for name, steps, resume, save in ((first, HALF, "", saved), (second, STEPS - HALF, saved, "")):
                grid = GRIDS.get(name, WHOLE)
                case = f"{model} {first} to {second}{', then' * bool(resume)}"
                cases.append([case, model, f"{model} {name}.json", grid.processes, steps, resume, save])
    (folder / "cases.json").write_text(json.dumps(cases))
    return launched("tests.explorer.runner.training.divided_trainings", folder)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_grid_gives_the_curve_of_one_process(model: str, grid: str, results: dict[str, Any]) -> None:
    """Losses, norms of all gradients, learning rates, and at the end the weights."""
    divided_run, whole = results[f"{model} {grid}"], results[f"{model} whole"]
    assert len(whole["curve"]) == STEPS
    assert close(divided_run["curve"], whole["curve"])
    assert settled(divided_run) == pytest.approx(settled(whole), rel=EXACT)
    assert list(divided_run["weights"]) == list(whole["weights"])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_a_training_goes_on_under_another_grid(model: str, first: str, second: str, results: dict[str, Any]) -> None:
    before, after = (results[f"{model} {first} to {second}{end}"] for end in ("", ", then"))
    whole = results[f"{model} whole"]
    assert close(before["curve"] + after["curve"], whole["curve"])
    assert settled(after) == pytest.approx(settled(whole), rel=EXACT)


def close(curve: list[list[float]], expected: list[list[float]]) -> bool:
    return len(curve) == len(expected) and all(
        a == pytest.approx(b, rel=EXACT) for a, b in zip(curve, expected, strict=True)
    )


def settled(trained: dict[str, Any]) -> dict[str, float]:
    """The weights without the biases of keys, whose gradients are zero but for rounding, of which Adam takes whole
    steps."""
    return {name: value for name, value in trained["weights"].items() if not name.endswith("qkv.bias")}
