"""Gradients and parameters that a run dumps are those of a plain loop over what the recipe makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [torch] is not installed")

from explorer.runner.bundles.bundle import write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.request import Backend, RunRequest
from explorer.runner.recipe import run_recipe
from explorer.runner.targets.local import LocalTarget
from solvers.errors import InvalidProblem
from tests.explorer.runner import plans

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks, with what it dumped."""
    folder = tmp_path_factory.mktemp("run") / "bundle"
    problem = plans.problem_of("gpt-small", devices=2, mini_batch=4, micro_batches=2)
    text = plans.text(problem, plans.solved(problem, "equal"), "gpt-small")
    request = RunRequest(steps=1, warmup=0, backend=Backend.CPU, optimizer="sgd", learning_rate=0.5, seed=7, dump=True)
    write_bundle(folder, text, request, "local")
    outcome = LocalTarget("local").run(text, request, 2, folder, lambda _: None, lambda: False)
    assert outcome.status is RunStatus.DONE, outcome.reason
    return folder


def test_a_loop_of_ones_own_finds_what_was_dumped(dumped: Path) -> None:
    recipe = run_recipe(dumped)
    assert (recipe.count, recipe.optimizer, recipe.learning_rate) == (4, "sgd", 0.5)
    total = 0.0
    for inputs in recipe.micro_batches(2):
        loss = recipe.loss(inputs) * 2 / recipe.count
        loss.backward()
        total += float(loss.detach())
    arrays = {}
    for rank in range(2):
        with np.load(dumped / f"tensors-{rank}.npz", allow_pickle=False) as file:
            arrays |= {name: file[name] for name in file.files if name != "loss"}
            total -= float(file["loss"])
    assert total == pytest.approx(0, abs=1e-5)
    names = {name for name, _ in recipe.module.named_parameters()}
    assert {name for name in arrays if name.startswith("gradient/")} == {f"gradient/{name}" for name in names}
    for name, parameter in recipe.module.named_parameters():
        assert parameter.grad is not None
        gradient = parameter.grad.numpy()
        np.testing.assert_allclose(arrays[f"gradient/{name}"], gradient, atol=1e-5 * max(1e-3, abs(gradient).max()))
        after = parameter.detach().numpy() - 0.5 * gradient
        np.testing.assert_allclose(arrays[f"parameter/{name}"], after, rtol=1e-5, atol=1e-6)


def test_samples_are_cut_only_into_equal_pieces(dumped: Path) -> None:
    recipe = run_recipe(dumped)
    assert [inputs[0].shape[0] for inputs in recipe.micro_batches(1)] == [1, 1, 1, 1]
    with pytest.raises(InvalidProblem, match="a divisor of 4 samples"):
        next(recipe.micro_batches(3))


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="no such file"):
        run_recipe(tmp_path)
