"""The covering bound beside a search: never above an optimum, between hosts too, and heard by the integer program."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.noncontiguous.covering import beside, covering
from solvers.noncontiguous.planners import max_load_ip
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.cluster import two_level_cluster
from solvers.problem.problem import Contiguity, Objective, Transfers
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem

pytest.importorskip("highspy", reason="the covering bound needs HiGHS: pip install 'placement-explorer[planners]'")


def on_two_hosts(p, near=1.0, far=0.25):
    """Every second device in another host, links between them slower."""
    devices = tuple(replace(d, node=number % 2) for number, d in enumerate(p.cluster.devices))
    return replace(p, cluster=two_level_cluster(devices, near, 0.0, far, 0.1), transfer_s=None)


def proved_s(p, plan):
    """What the bound comes to from a plan, once its child has ended."""
    monitor = Monitor(p)
    monitor.offer(plan)
    bound = covering(p, Condensed(p), monitor)
    assert bound.start()
    try:
        ends = time.monotonic() + 240
        with beside(monitor, bound):
            while not bound.done and time.monotonic() < ends:
                monitor.check()
                time.sleep(0.01)
            monitor.check()
        assert bound.done
    finally:
        bound.close()
    assert monitor.notes == []
    return monitor.bound_s


@pytest.mark.parametrize("seed", range(6))
def test_no_placement_on_two_hosts_is_below_the_bound(seed):
    p = random_problem(
        3000 + seed, largest=4, objective=Objective.MAX_LOAD, contiguity=[Contiguity.NONE, Contiguity.CONVEX][seed % 2],
        transfers=[Transfers.BLOCKING, Transfers.LANE][seed // 2 % 2], micro_batches=2, memory=float("inf"),
    )  # fmt: skip
    p = on_two_hosts(p)
    expected = solve(p, BruteForce())
    assert 0 < proved_s(p, expected.plan) <= expected.objective_s * (1 + 1e-9)


def test_the_bound_counts_messages_inside_hosts():
    """Two chains of two operators of 3 s, 2 B inside each at 1 B/s: apart they take 3 + 2 s, together 6 s; work alone
    says that four devices take 3 s."""
    p = problem(forward_graph([(0, 1), (2, 3)], 4, nbytes=2.0), [3] * 4, 4, objective=Objective.MAX_LOAD,
                transfers=Transfers.BLOCKING, training=False, contiguity=Contiguity.NONE)  # fmt: skip
    p = on_two_hosts(p)
    expected = solve(p, BruteForce())
    assert expected.objective_s == pytest.approx(5.0)
    assert proved_s(p, expected.plan) == pytest.approx(5.0, rel=1e-3)


def test_the_portfolio_proves_it_between_hosts_too():
    p = problem(forward_graph([(0, 1), (2, 3)], 4, nbytes=2.0), [3] * 4, 4, objective=Objective.MAX_LOAD,
                transfers=Transfers.BLOCKING, training=False, contiguity=Contiguity.NONE)  # fmt: skip
    result = solve(on_two_hosts(p), NonContiguous(enumerated=0, patience=1), effort=Effort.QUICK)
    assert result.bound_s == pytest.approx(5.0, rel=1e-3)
    assert result.objective_s >= 5.0 * (1 - 1e-9)


def test_where_the_bound_does_not_hold_there_is_none():
    p = problem(forward_graph([(0, 1)], 2), [1, 1], 4, objective=Objective.MAX_LOAD, contiguity=Contiguity.NONE)
    assert covering(p, Condensed(p), Monitor(p)) is not None
    for question in (
        replace(p, max_replicas=2),
        replace(p, transfers=Transfers.DUPLEX),
        replace(p, objective=Objective.ITERATION),
        replace(p, micro_batches=None, mini_batch=4),
    ):
        assert covering(question, Condensed(question), Monitor(question)) is None


def test_the_program_hears_the_bound(monkeypatch):
    """With HiGHS silent, what is proved of the program's start is what covering proves."""

    def silent(_model, monitor, _on_incumbent, _on_bound, **_options):
        ends = time.monotonic() + 240
        while time.monotonic() < ends:
            monitor.check()
            time.sleep(0.01)

    monkeypatch.setattr(max_load_ip, "COVER_AFTER_S", 0.0)
    monkeypatch.setattr(max_load_ip, "solve_model", silent)
    p = problem(forward_graph([(0, 1), (2, 3)], 4, nbytes=2.0), [3] * 4, 4, objective=Objective.MAX_LOAD,
                transfers=Transfers.BLOCKING, training=False, contiguity=Contiguity.NONE)  # fmt: skip
    p = on_two_hosts(p)
    result = solve(p, MaxLoadIP(), start=solve(p, BruteForce()).plan, gap=1e-3)
    assert result.objective_s == pytest.approx(5.0)
    assert result.bound_s == pytest.approx(5.0, rel=1e-3)
