"""How much two processes hold at once does not grow with the micro-batches that go through them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.runner.bundles.result_json import read_outcome
from tests.explorer.runner.engine.test_ranks import EXACT, launch
from tests.explorer.runner.plans import placed, problem_of, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODEL, SAMPLES = "bert-small", 2
FEW, MANY = 4, 12


def test_more_micro_batches_of_one_size_hold_no_more(tmp_path: Path) -> None:
    cases = []
    for count in (FEW, MANY):
        problem = problem_of(MODEL, devices=2, mini_batch=count * SAMPLES, micro_batches=count)
        forward = sum(operator.forward_of is None for operator in problem.graph.operators)
        plan = placed(problem, [int(i >= forward / 2) for i in range(forward)], count)
        (tmp_path / f"{count}.json").write_text(text(problem, plan, MODEL))
        request = {"verify": True, "dtype": "float32", "optimizer": "sgd", "operators": True, "steps": 1, "warmup": 0}
        cases.append([str(count), 2, f"{count}.json", request, ""])
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    results = launch(tmp_path)
    peaks = {count: read_outcome(results[str(count)]["outcome"]).peak_bytes for count in (FEW, MANY)}
    for rank in (0, 1):
        assert peaks[MANY][rank] <= 1.005 * peaks[FEW][rank]
    assert all(results[str(count)]["gradient"] <= EXACT["float32"] for count in (FEW, MANY))
