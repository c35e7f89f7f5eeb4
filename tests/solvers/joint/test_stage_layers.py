"""Layers of a pipeline: their costs are those of one pass, and stages recompute where memory asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.joint.lists.layers import Layers
from solvers.joint.passes.model import pass_model
from solvers.joint.planners.layer_split import LayerSplit
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import two_level_cluster
from solvers.problem.problem import Contiguity, Objective, Problem
from tests.instances import problem, training_graph
from tests.random_problems import random_problem


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_crosses_a_cut_is_every_message_with_ends_on_both_sides(seed, alone):
    p = random_problem(seed, 8, cpus=0, micro_batches=1, contiguity=Contiguity.ACYCLIC)
    members = Condensed(p, ordered=True).at(p.mini_batch, merge_trivial=False).shape.members
    model, row = pass_model(p), np.arange(int(alone), len(members))
    layer_of = {operator: number for number, operators in enumerate(members) for operator in operators}
    expected = np.zeros(len(row) + 1)
    for message, seconds in zip(model.messages, model.mean_transfer_s, strict=True):
        ends = {layer_of[o] - int(alone) for o in (*message.producers, *message.readers)} - {-1}
        for cut in range(len(row) + 1):
            expected[cut] += seconds * (any(end < cut for end in ends) and any(end >= cut for end in ends))
    assert Layers(p, members).crossing_s(p.mini_batch, row) == pytest.approx(expected)


def test_what_crosses_a_cut_takes_what_a_link_takes_on_average():
    p = tight(100.0, recompute=False)
    nodes = [replace(device, node=number // 2) for number, device in enumerate(p.cluster.devices)]
    p = replace(p, cluster=two_level_cluster(nodes, 10.0, 0.0, 1.0, 0.0))
    layers = Layers(p, Condensed(p, ordered=True).at(p.mini_batch, merge_trivial=False).shape.members)
    inside, between = 4, 8  # of the ordered pairs of 4 devices in 2 nodes
    mean_s = (inside * 0.1 + between * 1.0) / (inside + between)
    one = layers.crossing_s(1, np.arange(4))[1]
    assert one == pytest.approx(2 * mean_s)  # a tensor of a byte, and its gradient


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
