"""The model of a person's own file, "path/file.py:callable", where its code is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from explorer.question.loading import load
from explorer.runner.model.construct import construct
from explorer.runner.model.permission import why_not
from explorer.runner.model.program import trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import hold
from solvers.errors import RunError

MODEL = """
import torch
from sizes_beside import WIDTH

LAYER = torch.nn.Linear(WIDTH, WIDTH)

def make():
    head = torch.nn.Linear(WIDTH, 1)
    return torch.nn.Sequential(LAYER, torch.nn.Tanh(), head), torch.randn(4, WIDTH)
"""


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend("")  # what the file puts there is taken away again
    (tmp_path / "sizes_beside.py").write_text("WIDTH = 6\n")
    (tmp_path / "mine.py").write_text(MODEL)
    return f"{tmp_path / 'mine.py'}:make"


def test_a_path_is_run_only_where_its_code_is_allowed(reference: str) -> None:
    assert "which was not allowed" in why_not(reference, allow_model=False)
    assert why_not(reference, allow_model=True) == ""
    with pytest.raises(RunError, match="not allowed"):
        construct(reference, wanted=None, seed=0, allow_model=False)


def test_every_rank_makes_the_same_parameters_of_its_part(reference: str) -> None:
    graph = load(reference).graph
    program = trace_for_run(reference, training=True, dtype=None, graph=graph, samples=[2, 4], allow_model=True)
    names = program.parameters_of(range(len(program.folded.groups)))
    assert names == ("0.bias", "0.weight", "2.bias", "2.weight")
    whole = hold(reference, names, seed=3, dtype=None, device="cpu", allow_model=True)
    part = hold(reference, ["2.weight"], seed=3, dtype=None, device="cpu", allow_model=True)
    assert list(part.parameters) == ["2.weight"]
    assert torch.equal(part.parameters["2.weight"], whole.parameters["2.weight"])
    (given,) = make_samples(reference, 8, seed=0, dtype=None, device="cpu", allow_model=True)
    assert given.shape == (8, 6)


@pytest.mark.parametrize("name", ["none.py:make", "mine.py:other"])
def test_what_is_not_there_is_reported_in_a_line(reference: str, name: str) -> None:
    folder = Path(reference.rpartition(":")[0]).parent
    with pytest.raises(RunError, match=r"no such file|has no attribute 'other'") as error:
        construct(f"{folder}/{name}", wanted=None, seed=0, allow_model=True)
    assert "\n" not in str(error.value)
