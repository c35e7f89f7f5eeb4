"""Models of installed libraries, run as they were planned: a stand-in of timm, found as the real one would be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from explorer.question.loading import load
from explorer.runner.model.construct import construct
from explorer.runner.model.permission import why_not
from explorer.runner.model.program import trace_for_run
from explorer.runner.model.samples import make_samples
from solvers.errors import RunError, TraceError

TIMM = """
from torch import nn

class Tiny(nn.Module):
    default_cfg = {"input_size": (3, 8, 8)}

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(144, 5)

    def forward(self, x):
        return self.head(self.body(x))

def is_model(name):
    return name == "tiny"

def list_models(_):
    return ["tiny"]

def create_model(name, pretrained=False):
    return Tiny()
"""
NAME = "timm:tiny,batch=2"


@pytest.fixture
def timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm").mkdir()
    (tmp_path / "timm" / "__init__.py").write_text(TIMM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    yield
    sys.modules.pop("timm", None)


def test_it_is_only_run_where_that_is_allowed():
    assert "the library's code, which was not allowed" in why_not(NAME, allow_model=False)
    assert why_not(NAME, allow_model=True) == ""
    with pytest.raises(RunError, match="not allowed"):
        construct(NAME, wanted=None, seed=0, allow_model=False)


def test_a_library_that_is_not_there_is_reported_in_a_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TraceError, match=r"needs the package timm, which is not installed here$"):
        construct(NAME, wanted=None, seed=0, allow_model=True)


def test_it_is_made_really_by_seed_and_is_the_model_that_was_planned(timm: None):
    graph = load(NAME, training=True).graph
    program = trace_for_run(NAME, training=True, dtype=None, graph=graph, samples={1, 4}, allow_model=True)
    assert program.reference == NAME
    first, again, other = (construct(NAME, wanted=None, seed=seed, allow_model=True) for seed in (0, 0, 1))
    weights = [built.module.get_parameter("head.weight") for built in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    only = construct(NAME, wanted={"head.weight"}, seed=0, allow_model=True).module
    assert only.get_parameter("body.0.weight").is_meta
    assert torch.equal(only.get_parameter("head.weight"), weights[0])


def test_its_samples_differ(timm: None):
    (images,) = make_samples(NAME, 4, seed=0, dtype=None, device="cpu", allow_model=True)
    assert images.shape == (4, 3, 8, 8)
    assert not torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])
