"""The demos' graphs that ship, or follow from them, are what tracing gives."""

from __future__ import annotations

import json

import pytest

from demo_models import MODELS
from explorer.jobs import job_kinds
from explorer.question.graphs.demos import FOLDER, SHIPPED, in_dtype, name_of, packed_graph, traced_before
from explorer.question.graphs.traced_by import STATED, of_today
from explorer.tracing import trace_demo
from explorer.view.graph.skeleton import skeleton
from solvers.formats.graph_json import write_graph

HINT = "trace them anew: python -m explorer.question.graphs.demos"
SMALL = [name for name in MODELS if name.endswith("-small")]
LARGE = [name for name in MODELS if name not in SMALL]


def check(shipped, traced):
    assert shipped is not None, HINT
    assert write_graph(shipped) == write_graph(traced), HINT
    assert skeleton(shipped)["hash"] == skeleton(traced)["hash"]


@pytest.mark.first(2)
@pytest.mark.parametrize("model", [*SMALL, *LARGE])
def test_a_graph_that_ships_is_that_of_its_model(model):
    check(traced_before(model, True, None), trace_demo(model))


@pytest.mark.first(2)
@pytest.mark.parametrize(("training", "dtype"), [way for way in SHIPPED if way != (True, None)])
@pytest.mark.parametrize("model", ["gpt-small", "transformer-small", "moe-small"])
def test_so_is_one_for_inference_and_in_bf16(model, training, dtype):
    check(traced_before(model, training, dtype), trace_demo(model, training, dtype))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", ["gpt-small", "rnnlm-small", "dlrm-small"])
def test_in_fp32_a_demo_is_what_it_is_as_built(model, training):
    check(in_dtype(traced_before(model, training, None), "fp32"), trace_demo(model, training, "fp32"))


def test_only_a_trace_tells_another_precision():
    own = traced_before("gpt-small", True, None)
    assert in_dtype(own, "bf16") is None
    assert in_dtype(own, "fp16") is None
    assert in_dtype(traced_before("gpt-small", True, "bf16"), "fp16") is None
    assert in_dtype(traced_before("gpt-small", True, "bf16"), "fp32") is None


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [None, "fp32", "bf16"])
def test_the_page_traces_no_demo(monkeypatch, training, dtype):
    monkeypatch.setattr(job_kinds, "load", None)
    monkeypatch.setattr(job_kinds, "_tracer", None)
    monkeypatch.setattr(job_kinds, "_workloads", job_kinds.OrderedDict())
    assert job_kinds.workload_of("gpt-small", training, dtype, lambda event: None, lambda: False).training is training


def test_they_were_traced_by_the_code_of_today():
    then = json.loads((FOLDER / STATED).read_text())
    today = of_today()
    assert (then["torch"], then["code"]) == (today.torch, today.code), HINT


def test_every_demo_ships_its_graphs_and_all_of_them_are_small():
    places = list(FOLDER.glob("*.gz"))
    assert {place.name for place in places} == {name_of(model, *way) for model in MODELS for way in SHIPPED}
    assert sum(place.stat().st_size for place in places) < 2 * 2**20


def test_only_what_was_traced_is_taken_from_there():
    assert traced_before("gpt-small", True, "fp16") is None
    assert traced_before("../gpt-small", True, None) is None
    assert traced_before("package.module:callable", True, None) is None


def test_the_same_graph_is_packed_to_the_same_bytes():
    shipped = traced_before("gpt-small", True, None)
    assert packed_graph(shipped) == (FOLDER / "gpt-small.json.gz").read_bytes()
