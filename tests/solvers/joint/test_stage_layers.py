"""Layers of a pipeline: their costs are those of one pass, and stages recompute where memory asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.joint.lists.layers import cut_layers, layer_split
from solvers.joint.lists.stage_layers import StageLayers
from solvers.joint.passes.model import pass_model
from solvers.joint.planners.layer_split import LayerSplit
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Problem
from tests.instances import problem, training_graph
from tests.random_problems import random_problem


@pytest.mark.parametrize("transfers", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_layers_are_cut_as_those_of_a_pass(seed, transfers):
    p = random_problem(seed, 8, cpus=0, micro_batches=1, contiguity=Contiguity.ACYCLIC)
    if seed % 3 == 0:
        p = replace(p, pins={0: 0})
    members = Condensed(p, ordered=True).at(p.mini_batch, merge_trivial=False).shape.members
    model, layers, devices = pass_model(p), StageLayers(p, members), p.cluster.accelerators
    caps = np.full(len(p.cluster), np.inf)
    crossing = (lambda row: layers.crossing_s(p.mini_batch, row)) if transfers else None
    cut = cut_layers(layers.at(p.mini_batch), caps, devices, crossing)
    assert cut.tolist() == layer_split(model, members, caps, devices, transfers=transfers).tolist()


def tight(memory: float, *, recompute: bool) -> Problem:
    """Four operators in a row that save 10 bytes a sample and hand on 1, in 4 micro-batches on 4 devices."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0, saved=10.0)
    return problem(
        graph, [1] * 8, 4, memory=memory, bandwidth=100.0, mini_batch=4, micro_batches=4, recompute=recompute,
        objective=Objective.ITERATION,
    )  # fmt: skip


def test_without_recomputation_nothing_fits_where_a_stage_keeps_four_micro_batches():
    assert solve(tight(25.0, recompute=False), LayerSplit()).status is Status.NO_PLAN


def test_only_the_stages_that_hold_most_micro_batches_recompute():
    """Stages keep 40, 30, 20 and 10 bytes: the first two do not fit into 25, beside which come the buffers."""
    p = tight(25.0, recompute=True)
    plan = solve(p, LayerSplit()).plan
    assert [stage.recompute for stage in plan.stages] == [True, True, False, False]
    assert check(p, plan) == ()
