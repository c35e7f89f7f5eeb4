"""A demo is traced once with a batch or a precision that does not ship, and again after any change of its code."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import explorer.tracing.trace
from explorer.question.graphs import stored
from explorer.question.loading import load, traced_already
from solvers.errors import InvalidProblem
from solvers.formats.graph_json import write_graph
from solvers.formats.workload import Workload

MODEL = "candle_uno-small,batch=6"


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is traced."""
    names: list[str] = []
    trace = explorer.tracing.trace.trace_demo

    def counted(name: str, *args: object) -> Workload:
        names.append(name)
        return trace(name, *args)

    monkeypatch.setattr(explorer.tracing.trace, "trace_demo", counted)
    return names


def test_a_demo_that_ships_is_not_traced(traces: list[str]) -> None:
    assert load("gpt-small").reference == "gpt-small"
    assert load("gpt-small", training=False, dtype="bf16").training is False
    assert load("gpt-small", dtype="fp32").training is True
    assert traces == []


def test_another_batch_is_traced_once(traces: list[str], tmp_path: Path) -> None:
    first = load(MODEL, graphs=tmp_path / "graphs")
    again = load(MODEL, graphs=tmp_path / "graphs")
    assert traces == ["candle_uno-small"]
    assert write_graph(again) == write_graph(first)
    assert again.graph.samples == 6


@pytest.mark.parametrize(
    ("model", "training", "dtype"),
    [("candle_uno-small,batch=7", True, None), (MODEL, False, None), (MODEL, True, "fp16"), (MODEL, True, "fp32")],
)
def test_other_settings_are_another_graph(tmp_path: Path, model: str, training: bool, dtype: str | None) -> None:
    stored.store(tmp_path, load(MODEL), None)
    assert stored.find(tmp_path, MODEL, True, None) is not None
    assert stored.find(tmp_path, model, training, dtype) is None


@pytest.mark.parametrize("changed", ["2.13.0 other-sources", "2.14.0 these-sources"])
def test_other_code_or_another_pytorch_traces_again(
    traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.setattr(stored, "traced_here", lambda: "2.13.0 these-sources")
    load(MODEL, graphs=tmp_path)
    monkeypatch.setattr(stored, "traced_here", lambda: changed)
    load(MODEL, graphs=tmp_path)
    assert len(traces) == 2


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", gzip.compress(b"{", mtime=0), gzip.compress(b'{"format": 1}', mtime=0)]
)
def test_what_is_damaged_is_removed_and_traced_again(traces: list[str], tmp_path: Path, content: bytes) -> None:
    load(MODEL, graphs=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert traced_already(MODEL, True, None, tmp_path) is None
    assert not path.exists()
    load(MODEL, graphs=tmp_path)
    assert len(traces) == 2


def test_the_graph_of_another_model_is_not_taken_for_it(tmp_path: Path) -> None:
    stored.store(tmp_path, load("gpt-small"), None)
    (path,) = tmp_path.iterdir()
    path.rename(stored._path(tmp_path, MODEL, True, None, ""))
    assert stored.find(tmp_path, MODEL, True, None) is None


def test_a_folder_that_cannot_be_made_costs_a_trace_and_no_more(traces: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for _ in range(2):
        assert load(MODEL, graphs=tmp_path / "file" / "graphs").graph.samples == 6
    assert len(traces) == 2


def test_those_that_were_not_used_for_longest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST", 2)
    workload, dtypes = load("gpt-small"), ("bf16", "fp16", "fp32")
    for second, dtype in enumerate(dtypes):
        stored.store(tmp_path, workload, dtype)
        os.utime(stored._path(tmp_path, "gpt-small", True, dtype, ""), (second, second))
    assert [stored.find(tmp_path, "gpt-small", True, dtype) is None for dtype in dtypes] == [True, False, False]


def test_only_the_user_can_read_them(tmp_path: Path) -> None:
    stored.store(tmp_path / "graphs", load("gpt-small"), None)
    (path,) = (tmp_path / "graphs").iterdir()
    assert [path.stat().st_mode & 0o077 for path in (path, path.parent)] == [0, 0]


def test_what_is_no_example_of_a_demo_is_refused_before_anything_is_looked_up(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="image is for models"):
        traced_already("gpt-small,image=8", True, None, tmp_path)
    assert traced_already("package.module:make", True, None, tmp_path) is None
