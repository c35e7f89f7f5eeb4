"""Code by its file, models of libraries, and files that hold weights."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import pytest

from explorer.question.loading import load
from explorer.question.models.libraries import library_of
from solvers.errors import InvalidProblem, TraceError

CODE = """
import torch
from torch import nn
import beside

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(beside.WIDTH, beside.WIDTH)

    def forward(self, x):
        return self.layer(x).sum()

def make():
    return [Model(), [torch.randn(2, beside.WIDTH)]]

def fails():
    raise KeyError("width")
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "beside.py").write_text("WIDTH = 8\n")
    (tmp_path / "my model.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return tmp_path / "my model.py"


def test_code_is_named_by_its_file_and_may_return_lists(code: Path) -> None:
    workload = load(f"{code}:make")
    assert (workload.parameters, workload.reference) == (72, f"{code}:make")


def test_a_failure_in_a_file_names_its_line(code: Path) -> None:
    with pytest.raises(TraceError, match=r"KeyError: 'width' \(my model.py, line 18\)"):
        load(f"{code}:fails")


def test_a_demo_takes_another_batch_by_its_name() -> None:
    assert load("gpt-small,batch=8").graph.samples == 8
    with pytest.raises(InvalidProblem, match="image is for models"):
        load("gpt-small,image=8")


@pytest.mark.parametrize("name", ["hf:llama", "timm:vit", "torchvision:resnet50"])
def test_a_library_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "torch" else None)
    assert library_of(name)
    with pytest.raises(TraceError, match=r"needs the package (transformers|timm|torchvision)"):
        load(name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.safetensors", struct.pack("<Q", 2) + b"{}", "safetensors: holds weights.*hf:FOLDER"),
        ("m.gguf", b"GGUF\3\0\0\0", "GGUF"),
        ("m.h5", b"\x89HDF\r\n\x1a\n", "HDF5"),
        ("m.onnx", b"\x08\x07\x12\x07pytorch", "expected one graph, found 0"),
        ("m.ckpt", b"anything", "a checkpoint"),
        ("m.py", b"import torch", r"m\.py:make"),
        ("config.json", json.dumps({"model_type": "llama"}).encode(), "hf:.*config.json"),
        ("m.safetensors.index.json", json.dumps({"weight_map": {}}).encode(), "index of safetensors"),
    ],
)
def test_a_file_without_a_graph_is_recognised(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidProblem, match=message):
        load(str(tmp_path / name))


def test_weights_beside_their_config_name_the_folder_to_give(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(InvalidProblem, match=f"hf:{tmp_path}"):
            load(str(path))
