"""What is read of a checkpoint: data, and nothing that could run."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from explorer.runner.training.catalogue import Reader
from explorer.runner.training.checkpoint import FILE, FORMAT, _like, progress_of
from solvers.errors import RunError

GOOD = {"format": FORMAT, "version": 1, "steps": 3, "mini_batches": 6, "seed": 1, "tensors": {}, "numbers": {}}


def saved(folder: Path, **changed: Any) -> Path:
    (folder / FILE).write_text(json.dumps({**GOOD, **changed}))
    return folder


def test_how_far_it_was(tmp_path: Path) -> None:
    progress = progress_of(saved(tmp_path))
    assert (progress.steps, progress.mini_batches, progress.seed) == (3, 6, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": "another"}, "is no placement-explorer/training of version 1"),
        ({"version": 2}, "is no placement-explorer/training of version 1"),
        ({"steps": -1}, "steps: expected a whole number, found -1"),
        ({"seed": True}, "seed: expected a whole number, found True"),
        ({"tensors": []}, "tensors: expected an object"),
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        progress_of(saved(tmp_path, **changed))


def test_a_list_of_tensors_names_tensors_only(tmp_path: Path) -> None:
    """Torch unpickles what its list calls bytes."""
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Metadata({"model/weight": BytesStorageMetadata()})))
    with pytest.raises(RunError, match="model/weight is no tensor"):
        Reader(tmp_path).read_metadata()
    (tmp_path / ".metadata").write_bytes(pickle.dumps(torch.Size([1])))
    with pytest.raises(RunError, match="its list of tensors is a Size"):
        Reader(tmp_path).read_metadata()


def test_json_gives_back_what_python_had() -> None:
    known = {"betas": (0.9, 0.99), "milestones": Counter({2: 1}), "nested": [{"at": (1,)}], "lr": 0.1}
    content = json.loads(json.dumps({"betas": (0.5, 0.6), "milestones": {2: 3}, "nested": [{"at": (7,)}], "lr": 0.2}))
    value = _like(content, known)
    assert value == {"betas": (0.5, 0.6), "milestones": Counter({2: 3}), "nested": [{"at": (7,)}], "lr": 0.2}
    assert isinstance(value["milestones"], Counter)
