"""Followers may always join their leader: no max-load grows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.variants import variant_of
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.noncontiguous.followers import by_leader, leaders
from solvers.noncontiguous.max_load_model import MaxLoadModel
from solvers.problem.problem import Contiguity, Objective, Pipeline, Transfers
from solvers.schedules.assemble import assemble
from tests.random_problems import random_problem


@pytest.mark.parametrize("seed", range(80))
def test_a_placement_is_no_worse_once_all_followers_have_joined(seed):
    p = random_problem(
        4000 + seed, 7, objective=Objective.MAX_LOAD, contiguity=Contiguity.NONE, transfers=Transfers.BLOCKING,
        pipeline=Pipeline.ONE_F_ONE_B, micro_batches=1, memory=float("inf"),
    )  # fmt: skip
    condensed = Condensed(p)
    contracted = condensed.at(p.mini_batch, merge_trivial=False)
    built = MaxLoadModel(condensed, contracted, variant_of(p), 10.0)
    rng = random.Random(seed)
    for _ in range(5):
        device_of = [rng.randrange(len(p.cluster)) for _ in range(len(contracted))]
        placement = [()] * len(p.graph)
        for members, device in zip(contracted.shape.members, device_of, strict=True):
            for operator in members:
                placement[operator] = (device,)
        try:
            before = judge(p, assemble(p, placement, 1))
            after = judge(p, assemble(p, built.placement(built.slots_for([(device,) for device in device_of])), 1))
        except InvalidPlan:
            continue
        if before.feasible:
            assert after.objective_s <= before.objective_s * (1 + 1e-12)


def test_a_follows_b_for_a_heavy_message_and_nobody_follows_in_a_circle():
    """Messages a-b of 5 s and b-c of 2 s, 1 s of work each: a and b would follow each other, c may not."""
    nets = {(0, 1): 5.0, (1, 2): 2.0}
    seconds = np.array([1.0, 1.0, 3.0])
    assert leaders(nets, seconds, np.ones(3, bool)) == [1, 1, 2]
    assert leaders(nets, seconds, np.array([False, True, True])) == [0, 0, 2]
    assert by_leader([1, 2, 2]) == [2, 1, 0]
