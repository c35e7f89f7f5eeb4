"""What a rank says of its failure."""

from __future__ import annotations

import json
from pathlib import Path

from explorer.runner import rank


def failed(folder: Path, error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as raised:
        rank._fail(folder, 0, raised)
    message: str = json.loads((folder / "failure-0.json").read_text())["message"]
    return message


def test_an_error_that_wraps_another_tells_both(tmp_path: Path) -> None:
    inner = RuntimeError("a variable was modified by an inplace operation\nHint: ...")
    told = failed(tmp_path, RuntimeError("\n  Failed to run stage backward:\n  Stage output: [...]"), inner)
    assert told == "Failed to run stage backward: a variable was modified by an inplace operation"


def test_an_error_that_repeats_its_cause_tells_it_once(tmp_path: Path) -> None:
    assert failed(tmp_path, RuntimeError("cannot trace: no such thing"), ValueError("no such thing")) == (
        "cannot trace: no such thing"
    )
    assert failed(tmp_path, ValueError()) == "ValueError"
