"""Repeated blocks: which are equal, where they are cut, and that nothing changes by contracting them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from solvers.coarsening.blocks import repeated_blocks
from solvers.coarsening.contraction import contraction
from solvers.coarsening.pieces import group_order, pieces
from solvers.evaluation.evaluate import evaluate, judge
from solvers.planners.check import check
from solvers.problem.graph import Amount, OpGraph, Tensor
from solvers.problem.groups import together
from solvers.schedules.assemble import assemble
from tests.layered_models import LAYER, layered


def layers_of(problem):
    """The numbers of the layers in each family of equal blocks."""
    operators = problem.graph.operators
    return [
        [int(operators[together(problem.graph)[block[0]][0]].module_path.split(".")[2]) for block in family.members]
        for family in repeated_blocks(problem)
    ]


def test_equal_layers_are_one_family_and_both_ends_are_not_of_it():
    p = layered(5)
    (family,) = repeated_blocks(p)
    assert family.container == "model.layers"
    assert layers_of(p) == [[0, 1, 2, 3, 4]]
    names = [p.graph.operators[together(p.graph)[g][0]].op_type for g in family.members[3]]
    assert names == list(LAYER)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("up", {"op_type": "another"}),
        ("up", {"seconds": 2.5}),
        ("down", {"param_bytes": 3.0}),
        ("norm", {"saved_bytes": Amount(0.0, 2.0)}),
        ("add#2", {"flops": Amount(0.0, 1.0)}),
        ("attention", {"replicable": True}),
        ("attention", {"module_path": "model.layers.2.other"}),
    ],
)
def test_a_layer_that_differs_in_one_operator_is_not_contracted_with_the_others(name, fields):
    p = layered(5, changed={f"model.layers.2.{name}": fields})
    assert layers_of(p) == [[0, 1, 3, 4]]


def test_a_layer_that_differs_in_the_size_of_one_tensor_is_not_contracted_with_the_others():
    p = layered(5)
    graph = p.graph
    up = graph.index_of()["model.layers.2.up"]
    tensors = tuple(replace(t, nbytes=Amount(0.0, 9.0)) if t.producer == up else t for t in graph.tensors)
    assert layers_of(replace(p, graph=OpGraph(graph.operators, tensors))) == [[0, 1, 3, 4]]


def test_a_layer_with_one_edge_more_is_not_contracted_with_the_others():
    p = layered(5)
    graph = p.graph
    at = graph.index_of()
    more = Tensor(at["model.layers.2.norm"], (at["model.layers.2.down"],))
    assert layers_of(replace(p, graph=OpGraph(graph.operators, (*graph.tensors, more)))) == [[0, 1, 3, 4]]


def test_layers_that_are_pinned_or_share_parameters_are_left_alone():
    p = layered(5)
    assert layers_of(replace(p, pins={p.graph.index_of()["model.layers.1.up"]: 0})) == [[0, 2, 3, 4]]
    shared = {f"model.layers.{i}.down": {"colocation": "shared"} for i in (1, 3)}
    assert layers_of(layered(5, changed=shared)) == [[0, 2, 4]]


def test_layers_equal_in_two_ways_are_two_families():
    wide = {f"model.layers.{i}.up": {"param_bytes": 5.0} for i in (1, 3)}
    assert layers_of(layered(6, changed=wide)) == [[0, 2, 4, 5], [1, 3]]


def test_pieces_are_cut_where_least_is_handed_on_and_within_the_time():
    p = layered(3)
    (family,) = repeated_blocks(p)
    whole = pieces(p, family, most_s=100.0)
    assert whole == list(family.members), "a block that may stay whole does"
    parts = pieces(p, family, most_s=18.5)  # of 27.9 s: the cut after the first add crosses one tensor, others two
    assert parts == [part for block in family.members for part in (block[:3], block[3:])]
    assert [len(part) for part in pieces(p, family, most_s=0.0)] == [1] * (3 * len(LAYER))


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_of_units_is_judged_alike_before_and_after_it_is_expanded(seed):
    rng = random.Random(seed)
    p = layered(rng.randint(2, 6), recompute=True, memory=rng.choice([1e9, 300.0]))
    family = repeated_blocks(p) if seed % 2 else []
    units = [unit for f in family for unit in pieces(p, f, rng.choice([5.0, 20.0, 60.0]))]
    smaller = contraction(p, units)
    assert smaller is not None
    assert (len(smaller.question.graph) < len(p.graph)) == bool(units)
    order = group_order(smaller.question)
    cuts = sorted(rng.sample(range(1, len(order)), 2))
    placement = [()] * len(smaller.question.graph)
    for position, group in enumerate(order):
        for o in together(smaller.question.graph)[group]:
            placement[o] = (sum(position >= cut for cut in cuts),)
    plan = assemble(smaller.question, placement, 8)
    plan = replace(plan, stages=tuple(replace(s, recompute=rng.random() < 0.5) for s in plan.stages))
    whole = smaller.expanded(plan)
    assert bool(check(p, whole)) == bool(check(smaller.question, plan)) == (not judge(p, whole).feasible)
    before, after = evaluate(smaller.question, plan), evaluate(p, whole)
    assert after.iteration_s == pytest.approx(before.iteration_s, rel=1e-12)
    assert after.max_load_s == pytest.approx(before.max_load_s, rel=1e-12)
    assert after.cut_bytes == pytest.approx(before.cut_bytes, rel=1e-12)
    assert after.load_s == pytest.approx(before.load_s, rel=1e-12)
    assert after.static_bytes == pytest.approx(before.static_bytes, rel=1e-12)
    assert after.peak_memory_bytes == pytest.approx(before.peak_memory_bytes, rel=1e-12)
    assert judge(p, whole).feasible == judge(smaller.question, plan).feasible


def test_units_that_wait_for_each_other_are_not_contracted():
    p = layered(2)
    number = {p.graph.operators[group[0]].name: i for i, group in enumerate(together(p.graph))}
    ends = number["model.layers.0.norm"], number["model.layers.0.add"]
    assert contraction(p, [ends]) is None, "attention lies between"
