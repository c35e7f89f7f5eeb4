"""A model's file is recognised by its content, whatever it is called."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from explorer.question import loading
from solvers.errors import InvalidProblem, TraceError
from solvers.formats.graph_json import write_graph
from tests.explorer.cli.command import workload


def test_content_tells_not_the_name(tmp_path: Path) -> None:
    msr, own = tmp_path / "model.onnx", tmp_path / "model.txt"
    msr.write_text(json.dumps(workload()))
    own.write_text(write_graph(loading.load(str(msr))))
    assert [o.name for o in loading.load(str(own)).graph.operators] == list("abcd")


def test_an_exported_program_is_read_for_training_or_inference(tmp_path: Path) -> None:
    import torch
    from torch import nn

    path = tmp_path / "program.anything"
    program = torch.export.export(nn.Linear(4, 2), (torch.zeros(3, 4),), strict=False)
    with path.open("wb") as file:
        torch.export.save(program, file)
    inference, training = (loading.load(str(path), training=flag) for flag in (False, True))
    assert (inference.training, inference.reference) == (False, str(path))
    assert len(inference.graph) <= len(training.graph)


def test_a_callable_is_called_and_traced() -> None:
    workload = loading.load("tests.explorer.question.test_loading:small", training=False)
    assert (len(workload.graph), workload.graph.samples, workload.reference) == (
        1,
        3,
        "tests.explorer.question.test_loading:small",
    )


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(workload()))
    monkeypatch.setattr(loading, "MAX_BYTES", 10)
    with pytest.raises(InvalidProblem, match="at most 10 are read"):
        loading.load(str(path))


def small() -> object:
    import torch
    from torch import nn

    return nn.Linear(4, 2), (torch.zeros(3, 4),)


@pytest.mark.parametrize("model", ["gpt-small,batch=6", "demo_models:MODELS"])
def test_without_torch_a_module_is_refused_with_what_to_install(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find_spec(name, *a))
    with pytest.raises(TraceError, match=r"placement-explorer\[torch\]"):
        loading.load(model)
