"""Contraction: what is joined, what is summed, and a cut that equals the communication."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.coarsening.coarsen import contract
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.load import loads
from solvers.formats.msr2020 import read_msr2020
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Objective, Transfers
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_problem
from tests.solvers.msr_instances import as_problem, random_file


def test_a_backward_operator_sits_with_its_forward_and_their_times_add():
    p = problem(training_graph([(0, 1)], 2, nbytes=3.0), [1, 2, 10, 20])
    c = contract(p, 1)
    assert c.shape.members == ((0, 2), (1, 3))
    assert c.acc_s.tolist() == [11, 22]
    assert c.shape.edges == ((0, 1),)
    assert c.shape.nets == ((0, 1),)
    assert c.net_s.tolist() == [6.0], "the activation and its gradient are one hyperedge"


def test_a_cycle_that_colocation_closes_is_fused():
    operators = (Operator("a", colocation="x"), Operator("b"), Operator("c", colocation="x"), Operator("d"))
    graph = OpGraph(operators, (Tensor(0, (1,)), Tensor(1, (2,)), Tensor(2, (3,))))
    c = contract(problem(graph, [1, 1, 1, 1]), 1)
    assert c.shape.members == ((0, 1, 2), (3,))


def test_an_orphan_backward_operator_is_ordered_against_its_tensors():
    """a -> b, b' -> g -> a': g belongs to no forward operator; it may not come before a nor after b."""
    operators = (
        Operator("a"),
        Operator("b"),
        Operator("b'", phase=Phase.BACKWARD_INPUT, forward_of=1),
        Operator("g", phase=Phase.BACKWARD_INPUT),
        Operator("a'", phase=Phase.BACKWARD_INPUT, forward_of=0),
    )
    graph = OpGraph(operators, (Tensor(0, (1,)), Tensor(2, (3,)), Tensor(3, (4,))))
    c = contract(problem(graph, [1] * 5), 1)
    assert c.shape.members == ((0, 4), (3,), (1, 2))
    assert (0, 1) in c.shape.edges
    assert (1, 2) in c.shape.edges


def test_the_update_counts_once_a_mini_batch():
    operators = (Operator("a"), Operator("u", phase=Phase.UPDATE, forward_of=0))
    p = problem(OpGraph(operators, ()), [2.0, 6.0], 1, mini_batch=8, micro_batches=4)
    assert contract(p, 2).acc_s.tolist() == [2.0 + 6.0]


def test_latency_is_shared_by_the_samples_of_a_micro_batch():
    p = problem(forward_graph([(0, 1)], 2, nbytes=10.0), [1, 1], bandwidth=5.0, latency=4.0, mini_batch=8)
    assert contract(p, 1).net_s.tolist() == [6.0]
    assert contract(p, 8).net_s.tolist() == [2.5]


def test_bytes_and_supported_kinds_add_up():
    graph = OpGraph(
        (
            Operator("a", param_bytes=3, saved_bytes=Amount(1, 2), workspace_bytes=Amount(0, 5), colocation="x"),
            Operator("b", param_bytes=4, saved_bytes=Amount(0, 1), workspace_bytes=Amount(0, 9), colocation="x"),
            Operator("a'", phase=Phase.BACKWARD_INPUT, forward_of=0),
        ),
        (),
    )
    c = contract(problem(graph, [1, float("inf"), 1], 1, cpus=1, cpu_seconds=[1, 2, 3], mini_batch=4), 4)
    assert c.static_bytes.tolist() == [4 * 7]
    assert c.saved_bytes.tolist() == [1 + 8 + 4]
    assert c.workspace_bytes.tolist() == [36]
    assert c.supported.tolist() == [False]
    assert c.cpu_s.tolist() == [6]


def test_operators_without_work_join_their_only_neighbour_and_their_memory_is_counted_separately():
    """A weight (no work) feeds one matmul: a leaf of the order."""
    graph = forward_graph([(0, 2), (1, 2), (2, 3)], 4, nbytes=1.0, param_bytes=5.0)
    p = problem(graph, [0, 3, 3, 3], training=False)
    c = contract(p, 1)
    assert c.shape.members == ((1,), (0, 2), (3,))
    assert c.static_bytes.tolist() == [5, 10, 5]
    assert c.core_bytes.tolist() == [5, 5, 5]
    assert c.has_merged
    assert not contract(p, 1, merge_trivial=False).has_merged


def test_an_operator_that_only_a_cpu_can_run_is_not_merged_into_one_that_any_device_can():
    graph = forward_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(graph, [float("inf"), 3], 1, cpus=1, cpu_seconds=[0, 3], training=False)
    assert len(contract(p, 1)) == 2


def test_a_backward_operator_that_feeds_a_forward_one_is_refused_by_name():
    graph = OpGraph((Operator("a"), Operator("b'", phase=Phase.BACKWARD_INPUT)), (Tensor(1, (0,)),))
    with pytest.raises(InvalidProblem, match="\"b'\" feeds forward operator 'a'"):
        contract(problem(graph, [1, 1]), 1)


def check_cut(p, samples: int, rng: random.Random) -> int:
    """Compare load and cut for random sets on the first device; how many could be assembled."""
    c = contract(p, samples, merge_trivial=False)
    compared = 0
    for _ in range(6):
        inside = np.array([rng.random() < 0.5 for _ in range(len(c))])
        placement = [()] * len(p.graph)
        for node, members in enumerate(c.shape.members):
            for operator in members:
                placement[operator] = (0,) if inside[node] else (1,)
        try:
            plan = assemble(p, placement, p.mini_batch // samples)
        except InvalidPlan:
            continue
        compared += 1
        split = [w for w, pins in zip(c.net_s, c.shape.nets, strict=True) if len({bool(inside[v]) for v in pins}) == 2]
        content = loads(p, plan)
        assert content.compute_s.sum(axis=0)[0] == pytest.approx(c.acc_s[inside].sum())
        assert (content.sent_s + content.received_s).sum(axis=0)[0] == pytest.approx(sum(split))
    return compared


@pytest.mark.parametrize("seed", range(20))
def test_the_hypergraph_cut_is_the_communication_of_a_device(seed):
    rng = random.Random(seed)
    p = random_problem(
        seed,
        cpus=0,
        objective=Objective.MAX_LOAD,
        transfers=Transfers.BLOCKING,
        micro_batches=2,
        training=bool(seed % 2),
    )
    if len(p.cluster) >= 2:
        assert check_cut(p, 2, rng) > 0
    file = random_file(seed, 0) | {"maxFPGAs": 2}
    for node in file["nodes"]:
        node["supportedOnFpga"] = True
    check_cut(as_problem(read_msr2020(file, "random")), 1, rng)
