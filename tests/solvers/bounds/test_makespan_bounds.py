"""No plan of one pass of single operators beats the bounds, and they know what transfers cost."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import bound_with_s, improved_bound_s, lower_bound_s
from solvers.bounds.makespan.one_machine_kernel import preemptive_span
from solvers.bounds.makespan.shape import pass_shape
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.graph import Operator, OpGraph, Tensor
from solvers.problem.problem import Contiguity, Objective, Problem, Transfers
from tests.instances import forward_graph, problem
from tests.oracle.pass_oracle import best_makespan_s, orders, pass_problem, plan_of

EXACT = 1 + 1e-9


def one_pass(graph: OpGraph, seconds: list[float], gpus: int = 2, **options: object) -> Problem:
    return problem(
        graph, seconds, gpus, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, training=False, **options
    )  # type: ignore[arg-type]


def shared(p: Problem) -> Problem:
    """The same with one wire for all links."""
    return replace(p, cluster=Cluster(p.cluster.devices, tuple(replace(x, resource="root") for x in p.cluster.links)))


@pytest.mark.first(25)
@pytest.mark.parametrize("seed", range(60))
def test_no_plan_is_shorter_than_a_bound(seed: int) -> None:
    p = pass_problem(seed)
    best = best_makespan_s(p)
    quick = lower_bound_s(p)
    assert quick <= best * EXACT
    for upper in (best, 2 * best + 1):
        improved = improved_bound_s(p, upper, budget=1e5)
        assert quick - 1e-12 <= improved <= best * EXACT


@pytest.mark.parametrize("transfers", list(Transfers))
def test_copies_of_an_operator_are_below_no_bound_either(transfers: Transfers) -> None:
    """A mask that may be copied is made where it is read, so nothing is sent."""
    graph = forward_graph([(0, 1), (0, 2)], 3, nbytes=9.0)
    copied = replace(graph, operators=(replace(graph.operators[0], replicable=True), *graph.operators[1:]))
    p = one_pass(copied, [1.0, 5.0, 5.0], transfers=transfers)
    assert improved_bound_s(p, 10.0, budget=1e5) <= 6.0
    assert improved_bound_s(replace(p, graph=graph), 11.0, budget=1e5) == pytest.approx(11.0, rel=2e-3)


def test_branches_whose_inputs_cost_more_than_they_take_run_one_after_the_other() -> None:
    """a feeds b and c, which feed d; a transfer takes 4 s and a branch 3 s, so both branches stay with a and d."""
    graph = forward_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4, nbytes=4.0)
    p = one_pass(graph, [1.0, 3.0, 3.0, 1.0])
    assert bound_with_s(p, 1) == 5.0
    assert lower_bound_s(p) == 8.0 == best_makespan_s(p)


def test_memory_that_forces_a_split_forces_a_transfer() -> None:
    graph = forward_graph([(0, 1), (1, 2)], 3, nbytes=2.0, param_bytes=10.0)
    p = one_pass(graph, [3.0, 3.0, 3.0], memory=26.0)
    assert bound_with_s(p, 1) == 9.0
    assert improved_bound_s(p, 20.0, budget=1e5) == pytest.approx(11.0, rel=4e-3)
    assert best_makespan_s(p) == 11.0


def test_a_pin_apart_pays_the_transfer_at_once() -> None:
    graph = forward_graph([(0, 1)], 2, nbytes=2.0)
    p = one_pass(graph, [3.0, 3.0], pins={0: 0, 1: 1})
    assert lower_bound_s(p) == 8.0 == best_makespan_s(p)


def test_one_wire_carries_one_transfer_at_a_time() -> None:
    """Three operators pinned to one device feed one each on the other: 3 transfers of 5 s, then 1 s."""
    operators = tuple(Operator(name) for name in "abcxyz")
    graph = OpGraph(operators, tuple(Tensor(i, (i + 3,), replace_bytes(5.0)) for i in range(3)))
    p = one_pass(graph, [1.0] * 6, pins={i: i // 3 for i in range(6)})
    assert bound_with_s(p, 1) == 3.0
    assert lower_bound_s(p) < 17.0
    assert improved_bound_s(p, 30.0, budget=1e6) == pytest.approx(17.0, rel=4e-3)
    assert best_makespan_s(p) == 17.0


def replace_bytes(nbytes: float):
    return forward_graph([(0, 1)], 2, nbytes=nbytes).tensors[0].nbytes


def test_both_directions_share_a_wire_only_if_there_is_one() -> None:
    operators = tuple(Operator(name) for name in "axby")
    graph = OpGraph(operators, (Tensor(0, (1,), replace_bytes(5.0)), Tensor(2, (3,), replace_bytes(5.0))))
    p = one_pass(graph, [1.0] * 4, pins={0: 0, 1: 1, 2: 1, 3: 0})
    assert improved_bound_s(p, 20.0, budget=1e6) <= best_makespan_s(p) == 7.0
    assert improved_bound_s(shared(p), 20.0, budget=1e6) == pytest.approx(12.0, rel=4e-3)
    assert best_makespan_s(shared(p)) == 12.0


def test_unlike_devices_share_work_by_their_speed() -> None:
    """12 operators of 1 s, or of 2 s on the slower device: 8 on the one, 4 on the other."""
    graph = OpGraph(tuple(Operator(f"o{i}") for i in range(12)), ())
    p = one_pass(graph, [1.0] * 12, 1, cpus=1, cpu_seconds=[2.0] * 12)
    assert 7.9 <= lower_bound_s(p) <= 8.0


def test_a_full_device_leaves_work_to_the_slow_one() -> None:
    """Of 10 operators of 1 s only 4 fit the fast device; the other 6 take 30 s on the slow one."""
    graph = OpGraph(tuple(Operator(f"o{i}", param_bytes=1.0) for i in range(10)), ())
    p = one_pass(graph, [1.0] * 10, 1, cpus=1, cpu_seconds=[5.0] * 10, memory=4.0)
    assert 27.0 <= lower_bound_s(p) <= 30.0


def test_three_equal_groups_do_not_fit_side_by_side_on_two_devices() -> None:
    """Three jobs of 4 s and two of 1 s: 14 s divided are 7 s, yet two of 4 s share a device."""
    options = {"objective": Objective.MAKESPAN, "contiguity": Contiguity.NONE, "training": False}
    p = problem(forward_graph([], 5), [4, 4, 4, 1, 1], **options)
    assert lower_bound_s(p) == pytest.approx(8) == best_makespan_s(p)


def test_operators_that_share_a_device_wait_for_each_other() -> None:
    graph = OpGraph((*(Operator(f"o{i}", colocation="x") for i in range(3)), Operator("z")), (Tensor(2, (3,)),))
    p = one_pass(graph, [2.0, 2.0, 2.0, 1.0], 3)
    assert bound_with_s(p, 1) == 3.0
    assert lower_bound_s(p) == 6.0 == best_makespan_s(p)


def test_the_same_budget_gives_the_same_bound_and_more_of_it_no_less_than_the_quick_one() -> None:
    p = pass_problem(4, 8)
    bounds = [improved_bound_s(p, 60.0, budget=budget) for budget in (0.0, 1e3, 1e3, 1e5)]
    assert bounds[0] == lower_bound_s(p)
    assert bounds[1] == bounds[2]
    assert all(bound >= bounds[0] for bound in bounds)


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_reported_as_they_rise(seed: int) -> None:
    p = pass_problem(seed)
    best = best_makespan_s(p)
    messages: list[float] = []
    improved = improved_bound_s(p, best, budget=1e5, on_bound=messages.append)
    assert messages == sorted(messages)
    assert improved == pytest.approx(max([lower_bound_s(p), *messages]), rel=1e-9)
    assert improved <= best * EXACT


def test_a_stop_loses_no_bound() -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        if messages:
            raise Stopped

    messages: list[float] = []
    graph = forward_graph([(0, 1), (1, 2)], 3, nbytes=2.0, param_bytes=10.0)
    p = one_pass(graph, [3.0, 3.0, 3.0], memory=26.0)
    with pytest.raises(Stopped):
        improved_bound_s(p, 20.0, stop, 1e5, messages.append)
    assert len(messages) == 1
    assert lower_bound_s(p) < messages[0] < 11.0


def test_a_bound_without_a_plan_is_the_quick_one() -> None:
    p = one_pass(forward_graph([(0, 1)], 2), [3.0, 3.0])
    assert improved_bound_s(p, math.inf) == lower_bound_s(p)


def test_the_search_for_a_bound_can_be_stopped() -> None:
    class Enough(Exception):
        pass

    def check() -> None:
        raise Enough

    with pytest.raises(Enough):
        improved_bound_s(one_pass(forward_graph([(0, 1), (0, 2)], 3, nbytes=3.0), [3.0] * 3), 12.0, check)


def test_replicated_stages_are_left_to_the_plain_bound() -> None:
    p = replace(one_pass(forward_graph([(0, 1)], 2, nbytes=9.0), [4.0, 4.0]), max_replicas=2)
    assert pass_shape(p) is None
    assert lower_bound_s(p) == bound_with_s(p, 1)


def test_a_missing_link_keeps_operators_together() -> None:
    p = one_pass(forward_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4, nbytes=1.0), [1.0, 3.0, 3.0, 1.0])
    p = replace(p, cluster=Cluster(p.cluster.devices, (Link(0, 1, 1.0),)))
    assert lower_bound_s(p) <= best_makespan_s(p) * EXACT
    alone = replace(p, cluster=Cluster((Device("0", "gpu"), Device("1", "gpu"))))
    assert lower_bound_s(alone) == 8.0 == best_makespan_s(alone)


@pytest.mark.parametrize("seed", range(40))
def test_one_machine_that_may_interrupt_is_never_slower_than_one_that_may_not(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 5)
    head, seconds, tail = (np.array([float(rng.randint(0, 9)) for _ in range(count)]) for _ in range(3))
    best = math.inf
    for order in itertools.permutations(range(count)):
        now = span = 0.0
        for job in order:
            now = max(now, head[job]) + seconds[job]
            span = max(span, now + tail[job])
        best = min(best, span)
    span = preemptive_span(np.arange(count), count, head, seconds, tail)
    assert span <= best
    for few in itertools.chain.from_iterable(itertools.combinations(range(count), n) for n in range(1, count + 1)):
        chosen = list(few)
        assert span >= head[chosen].min() + seconds[chosen].sum() + tail[chosen].min()


def test_the_oracle_knows_an_order_that_the_simulator_accepts() -> None:
    """The oracle is only as good as its plans: it distinguishes two orders of one device."""
    p = one_pass(forward_graph([(0, 2)], 3, nbytes=1.0), [1.0, 5.0, 5.0], pins={0: 0, 1: 0, 2: 1})
    assert {len(orders(p.graph, 9, random.Random(0)))} == {3}
    assert best_makespan_s(p) == 7.0
    assert len(plan_of(p, {0: 0, 1: 0, 2: 1}, (1, 0, 2)).stages) == 3
