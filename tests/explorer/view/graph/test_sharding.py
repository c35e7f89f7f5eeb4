"""Boxes and edges say what members of a group have of tensors, and what they exchange."""

from __future__ import annotations

import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.view.graph.elements import expanded_to, graph_view
from explorer.view.graph.inspect import box_facts, box_words, device_facts
from explorer.view.graph.sharding import chips
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import plan_view
from explorer.view.scene import overlay_scene, schedule_scene
from explorer.view.session import Look
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def drawn():
    workload = load("gpt-small,tensor-parallel=2", training=True)
    problem = make_problem(workload, Settings(devices=4, mini_batch=32, micro_batches=4))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    outline = skeleton(workload)
    return workload.graph, outline, plan_view(problem, plan, planner="equal", objective_s=1.0, bound_s=0.0)


def box_of(graph, view, name: str) -> str:
    return view.owner[next(i for i, one in enumerate(graph.operators) if one.name == name)]


def test_one_edge_out_of_every_box_has_a_chip(drawn):
    graph, shown, plan = drawn
    view = graph_view(shown, expanded_to(shown, 4))
    by_edge = chips(view, shown, plan)
    edges = list(view.edges)
    sources = [edges[int(edge[2:])][0] for edge in by_edge]
    assert len(set(sources)) == len(sources)
    assert set(sources) == {source for source, _ in edges}
    by_source = {source: by_edge[edge] for source, edge in zip(sources, by_edge, strict=True)}
    assert by_source[box_of(graph, view, "blocks.0.attn.qkv/linear")] == ("S(heads)", False)
    words, exchanged = by_source[box_of(graph, view, "blocks.0.attn/all_gather")]
    gather = next(one for one in graph.operators if one.name == "blocks.0.attn/all_gather")
    nbytes = gather.exchanged_bytes.at(plan["samples"])
    assert exchanged
    assert words == f"all-gather {nbytes / 2**10:.0f} KiB → R"
    assert overlay_scene(view, shown, plan)["chips"] == by_edge


def test_a_shut_module_says_what_leaves_it(drawn):
    _, shown, plan = drawn
    view = graph_view(shown, expanded_to(shown, 1))
    by_edge = chips(view, shown, plan)
    edges = list(view.edges)
    of_block = next(words for edge, (words, _) in by_edge.items() if edges[int(edge[2:])][0] == "m:blocks")
    assert of_block == "R"


def test_facts_name_the_change_and_what_goes_over_links(drawn):
    graph, shown, plan = drawn
    view = graph_view(shown, expanded_to(shown, 4))
    box = box_of(graph, view, "blocks.0.attn/all_gather")
    facts = box_facts(box, view, shown, plan)
    assert facts is not None
    rows = dict(facts.rows)
    assert rows["On each of 2"] == "S(heads) → R"
    assert rows["Exchanges"].startswith("all-gather ")
    assert rows["Exchanges back"].startswith("reduce-scatter ")
    words = box_words(box, view, shown, plan)
    assert words is not None
    assert "S(heads) → R" in words


def test_memory_says_that_it_is_of_each_member(drawn):
    _, shown, plan = drawn
    cards = schedule_scene(shown, plan, "light", Look())["memory"]
    assert all(card["parts"].endswith("; per member of a group of 2") for card in cards)
    facts = device_facts(0, plan)
    assert facts is not None
    assert ("Group", "2 GPUs; memory is per member") in facts.rows


def test_a_whole_model_has_no_chips():
    workload = load("gpt-small", training=True)
    problem = make_problem(workload, Settings(devices=2, mini_batch=8))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    outline = skeleton(workload)
    assert "sharding" not in outline
    view = plan_view(problem, plan, planner="equal", objective_s=1.0, bound_s=0.0)
    assert chips(graph_view(outline, frozenset()), outline, view) == {}
    assert all("members" not in device for device in view["devices"])
