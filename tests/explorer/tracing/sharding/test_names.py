"""A divided graph says of every operator what its output is to the members of a group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.question.loading import load
from solvers.formats.graph_json import read_graph, write_graph
from solvers.formats.op_graph_json import graph_hash
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.graph import Phase

pytest.importorskip("torch")


def placements(model: str) -> dict[str, str]:
    graph = load(model, training=True).graph
    return {one.name: one.placement for one in graph.operators if one.phase is Phase.FORWARD}


def test_a_block_is_divided_by_heads_and_by_columns():
    placement_of = placements("gpt-small,tensor-parallel=2")
    assert placement_of["blocks.0.attn.qkv/linear"] == "S(heads)"
    assert placement_of["blocks.0.attn/scaled_dot_product_attention"] == "S(heads)"
    assert placement_of["blocks.0.mlp.up/linear"] == "S(columns)"
    assert placement_of["blocks.0.norm1/layer_norm"] == "R"
    assert "S(vocabulary)" in placement_of.values()
    assert all(placement_of.values())


def test_a_sum_is_partial_until_it_is_added_up():
    graph = load("llama-small,tensor-parallel=2", training=True).graph
    partial = [i for i, one in enumerate(graph.operators) if one.placement == "P"]
    assert partial
    for position in partial:
        readers = {c for t in graph.outputs[position] for c in graph.tensors[t].consumers}
        forward = [graph.operators[c] for c in readers if graph.operators[c].phase is Phase.FORWARD]
        assert forward
        assert {one.op_type.startswith(COLLECTIVE) for one in forward} == {True}


@pytest.mark.slow
def test_channels_and_classes_of_images_have_their_names():
    assert {"S(channels)", "S(classes)"} <= set(placements("inception-small,tensor-parallel=2").values())


def test_a_graph_without_a_group_says_nothing():
    assert set(placements("gpt-small").values()) == {""}


def test_files_keep_placements_which_do_not_name_a_graph():
    workload = load("gpt-small,tensor-parallel=2", training=True)
    read = read_graph(write_graph(workload).encode(), "graph.json")
    assert [one.placement for one in read.graph.operators] == [one.placement for one in workload.graph.operators]
    plain = replace(workload.graph, operators=tuple(replace(one, placement="") for one in workload.graph.operators))
    assert graph_hash(plain) == graph_hash(workload.graph)
