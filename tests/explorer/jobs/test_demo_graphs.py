"""The demos' graphs that ship are what tracing them gives."""

from __future__ import annotations

import pytest

from demo_models import MODELS
from explorer.jobs.demo_graphs import FOLDER, packed_graph, traced_before
from explorer.question.loading import load
from explorer.view.graph.skeleton import skeleton
from solvers.formats.graph_json import write_graph


@pytest.mark.parametrize("model", [name for name in MODELS if name.endswith("-small")])
def test_a_graph_that_ships_is_that_of_its_model(model):
    traced, shipped = load(model), traced_before(model, True, None)
    hint = "trace them anew: python -m explorer.jobs.demo_graphs"
    assert shipped is not None, hint
    assert write_graph(shipped) == write_graph(traced), hint
    assert skeleton(shipped)["hash"] == skeleton(traced)["hash"]


def test_every_demo_ships_its_graph_and_all_of_them_are_small():
    places = list(FOLDER.glob("*.json.gz"))
    assert {place.name.removesuffix(".json.gz") for place in places} == set(MODELS)
    assert sum(place.stat().st_size for place in places) < 2 * 2**20


def test_only_what_was_traced_is_taken_from_there():
    assert traced_before("gpt-small", False, None) is None
    assert traced_before("gpt-small", True, "bf16") is None
    assert traced_before("../gpt-small", True, None) is None
    assert traced_before("package.module:callable", True, None) is None


def test_the_same_graph_is_packed_to_the_same_bytes():
    shipped = traced_before("gpt-small", True, None)
    assert packed_graph(shipped) == (FOLDER / "gpt-small.json.gz").read_bytes()
