"""Layers of a model that is unrolled over time are split layer by layer, as its modules tell them."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.joint.lists.layers import layer_split, module_order, split_by_modules
from solvers.joint.passes.model import pass_model
from solvers.planners.solve import solve
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import Contiguity, Objective
from tests.instances import problem

STEPS = 6


def unrolled(paths=("layers.0", "layers.1"), gpus=2):
    """Two layers of six steps each, 1 s a step: step t of a layer reads step t - 1 and step t of the one below."""
    operators, tensors = [], []
    for t in range(STEPS):
        for layer, path in enumerate(paths):
            operators.append(Operator(f"{layer}@{t}", module_path=path))
            readers = [2 * t + 1] if layer == 0 else []
            readers += [2 * (t + 1) + layer] if t + 1 < STEPS else []
            if readers:
                tensors.append(Tensor(2 * t + layer, tuple(readers), Amount(0.0, 0.01)))
    graph = OpGraph(tuple(operators), tuple(tensors))
    seconds = [1.0] * len(operators)
    return problem(graph, seconds, gpus, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, training=False)


def test_steps_of_a_layer_are_neighbours():
    model = pass_model(unrolled())
    names = [model.problem.graph.operators[model.groups[g][0]].name for g in module_order(model)]
    assert names == [f"{layer}@{t}" for layer in (0, 1) for t in range(STEPS)]


def test_a_layer_a_device_runs_as_a_wavefront():
    """0: 0 1 2 3 4 5      one step and one transfer of 0.01 s behind, where cutting time in two leaves one
    1: . 0 1 2 3 4 5     device idle while the other works."""
    p = unrolled()
    model = pass_model(p)
    caps = np.full(2, np.inf)
    place = split_by_modules(model, module_order(model), caps, (0, 1), transfers=False)
    layer_of = [int(p.graph.operators[group[0]].name[0]) for group in model.groups]
    assert place.tolist() == layer_of
    assert layer_split(model, model.groups, caps, (0, 1), transfers=False).tolist() != layer_of
    assert solve(p, "layer-split").objective_s == pytest.approx(STEPS + 1.01)


def test_without_modules_the_order_is_topological():
    model = pass_model(unrolled(("", "")))
    assert module_order(model).tolist() == list(range(2 * STEPS))


def test_a_module_inside_another_stays_inside():
    operators = [Operator(f"o{i}", module_path=path) for i, path in enumerate(("a.x", "b", "a.y", "a.x"))]
    graph = OpGraph(tuple(operators), tuple(Tensor(i, (i + 1,)) for i in range(3)))
    p = problem(graph, [1.0] * 4, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, training=False)
    assert module_order(pass_model(p)).tolist() == [0, 3, 2, 1]
