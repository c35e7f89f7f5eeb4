"""The example of the documentation runs, and learns."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch

from tests.explorer.runner.plans import placed, problem_of, text

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "train_language_model.py"


def test_the_loss_of_the_example_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("train_language_model", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    problem = problem_of(f"{EXAMPLE}:build", devices=1, mini_batch=8, micro_batches=2)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    (tmp_path / "plan.json").write_text(text(problem, placed(problem, [0] * count, 2), "example"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    given = ["--plan", str(tmp_path / "plan.json"), "--steps", "20"]
    monkeypatch.setattr(sys, "argv", ["train", *given, "--samples", "8"])
    assert example.main() == 0
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert len(losses) == 3
    assert losses[-1] < 0.8 * losses[0]
    monkeypatch.setattr(sys, "argv", ["train", *given])
    assert example.main() == 2
    message = capsys.readouterr().err
    assert message.startswith("error: batches: input 0 must be [8, 32] int64")
    assert message.count("\n") == 1
    torch.set_num_threads(threads)
