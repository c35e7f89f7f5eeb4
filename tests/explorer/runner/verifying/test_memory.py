"""Compared stage after stage, no process holds the whole model: they have no room for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explorer.runner.launching import run_module
from tests.explorer.runner.plans import problem_of, solved, text
from tests.explorer.runner.verifying.limited import LAYERS, MODEL, RANKS

pytestmark = pytest.mark.timeout(300)


def compared(folder: Path, way: str) -> dict[str, Any]:
    """What the ranks wrote, by name."""
    problem = problem_of(MODEL, devices=RANKS, mini_batch=4, micro_batches=2)
    (folder / "plan.json").write_text(text(problem, solved(problem, "equal"), MODEL))
    run_module("tests.explorer.runner.verifying.limited", folder, way)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("[rf]*.json")}


@pytest.mark.slow
def test_what_has_no_room_for_the_whole_model_is_compared_by_stages(tmp_path: Path) -> None:
    messages = compared(tmp_path, "stages")
    assert list(messages) == ["result"], messages
    shown = messages["result"]
    assert shown["way"] == "stages"
    assert shown["compared"] == LAYERS * RANKS
    assert max(shown["loss"], shown["gradient"], shown["parameter"]) < 1e-4


@pytest.mark.slow
def test_the_whole_model_has_no_room_there(tmp_path: Path) -> None:
    messages = compared(tmp_path, "whole")
    assert "result" not in messages
    assert "allocate memory" in messages["failure-0"]["error"]
