"""Loads computed from directed messages equal those of `loads`, whatever the sets."""

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.coarsening.coarsen import contract
from solvers.errors import InvalidPlan
from solvers.evaluation.load import loads
from solvers.problem.problem import Contiguity, Transfers
from solvers.schedules.assemble import assemble
from tests.random_problems import random_problem


@pytest.mark.parametrize("seed", range(80))
def test_messages_that_a_set_splits_are_what_its_device_pays(seed):
    rng = random.Random(seed)
    p = replace(random_problem(seed), contiguity=Contiguity.NONE, transfers=Transfers.DUPLEX)
    count = p.micro_batch_choices()[0]
    contracted = contract(p, p.mini_batch // count, merge_trivial=seed % 2 == 0)
    where = [rng.randrange(len(p.cluster)) for _ in range(len(contracted))]
    placement = [()] * len(p.graph)
    for node, members in enumerate(contracted.shape.members):
        for operator in members:
            placement[operator] = (where[node],)
    try:
        content = loads(p, assemble(p, placement, count))
    except InvalidPlan:
        return
    for device in p.cluster.accelerators:
        inside = np.array(where) == device
        sent, received = contracted.traffic.crossing(inside)
        for row, of_pass in enumerate((~contracted.traffic.backward, contracted.traffic.backward)):
            assert content.sent_s[row, device] == pytest.approx(contracted.message_s[sent & of_pass].sum())
            assert content.received_s[row, device] == pytest.approx(contracted.message_s[received & of_pass].sum())
            if contracted.supported[inside].all():
                assert content.compute_s[row, device] == pytest.approx(contracted.acc_pass_s[row, inside].sum())
