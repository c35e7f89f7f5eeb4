"""Pesto's integer program: against every plan of tiny passes, and its rows against schedules."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.evaluation.evaluate import judge
from solvers.joint.exact.cluster_schedule import simulated, timed
from solvers.joint.exact.program import PassProgram, renamed
from solvers.joint.exact.schedule_coarsening import coarsened
from solvers.joint.passes.clusters import clustered, uncoarsened
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import in_turn
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.programs import JointCP, PestoProgram
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from tests.instances import forward_graph, problem, training_graph
from tests.oracle.pass_oracle import best_makespan_s, pass_problem
from tests.random_problems import random_problem, random_two_level_problem

PASS = {
    "objective": Objective.MAKESPAN,
    "execution": Execution.OPERATOR,
    "contiguity": Contiguity.NONE,
    "transfers": Transfers.LINKS,
}
ROOM = {**PASS, "memory": math.inf}
LIMIT_S = 20.0


def solved(p, **options):
    result = solve(p, PestoProgram(**options), time_limit_s=LIMIT_S)
    assert result.plan is None or check(p, result.plan) == ()
    return result


def random_schedule(clusters, seed):
    """A random placement and order, timed; devices named as the program wants them."""
    rng = random.Random(seed)
    place = [rng.choice(np.flatnonzero(row).tolist()) for row in clusters.allowed]
    order = in_turn(clusters.successors, [rng.random() for _ in range(len(clusters))])
    return timed(clusters, renamed(clusters, place), order)


def test_tiny_passes_are_solved_as_by_trying_every_plan():
    """All placements and orders, judged. The program may serve links in an order that no plan has, so its bound may
    lie lower; where it says OPTIMAL there is nothing lower."""
    proved = 0
    for seed in range(30):
        p = replace(pass_problem(seed, 4), transfers=Transfers.LINKS)
        if PestoProgram().unsupported(p) is not None:
            continue
        result, best = solved(p), best_makespan_s(p)
        assert result.bound_s <= best * (1 + 1e-6), f"seed {seed}"
        if result.plan is not None:
            assert result.objective_s >= best * (1 - 1e-6) or not _all_orders(p), f"seed {seed}"
        if result.status is Status.OPTIMAL:
            assert result.objective_s <= best * (1 + 1e-5), f"seed {seed}"
            proved += 1
        assert result.status is not Status.INFEASIBLE or math.isinf(best), f"seed {seed}"
    assert proved >= 15


def _all_orders(p):
    """Whether the oracle has tried every order, rather than a sample."""
    return len(p.graph) <= 4


def test_constraint_programming_finds_the_same():
    """Two formulations of one problem, of up to 16 operators: neither bound exceeds the result of the other."""
    if reason := JointCP().unsupported(random_problem(7, 5, **ROOM)):
        pytest.skip(reason)
    agreed = 0
    for seed in (3, 14, 21, 61):
        p = random_problem(seed, 5, **ROOM)
        assert len(p.graph) <= 16
        first, other = solved(p), solve(p, "joint-cp", time_limit_s=LIMIT_S)
        assert first.bound_s <= other.objective_s * (1 + 1e-6), f"seed {seed}"
        assert other.bound_s <= first.objective_s * (1 + 1e-6), f"seed {seed}"
        agreed += first.objective_s == pytest.approx(other.objective_s, rel=1e-5)
    assert agreed == 4


@pytest.mark.parametrize("find", [random_problem, random_two_level_problem])
def test_every_schedule_satisfies_the_rows(find):
    """Otherwise the program would cut off plans. Random placements and orders, of operators and of clusters."""
    tried = 0
    for seed in range(25):
        model = pass_model(find(seed, 6, **ROOM))
        for clusters in (uncoarsened(model), coarsened(model, 5)):
            schedule = random_schedule(clusters, seed)
            if 0 < schedule.makespan_s < math.inf:
                program = PassProgram(clusters, clusters.static_bytes, schedule.makespan_s * (1 + 1e-9))
                assert program.model.violation(program.values_of(schedule)) < 1e-4, f"seed {seed}"
                tried += 1
    assert tried > 40


def test_simulated_plans_satisfy_the_rows():
    """The times that plans are judged by, too, whatever order links served."""
    tried = 0
    for seed in range(40):
        model = pass_model(random_problem(seed, 6, **ROOM))
        clusters, simulator, rng = uncoarsened(model), Simulator(model), random.Random(seed)
        place = renamed(clusters, [rng.choice(np.flatnonzero(row).tolist()) for row in clusters.allowed])
        seconds = simulator.by_rank_s(
            clusters.place_of_groups(place), np.array([rng.random() for _ in range(model.operators)])
        )
        if 0 < seconds < math.inf:
            schedule = simulated(clusters, simulator, place)
            assert schedule.makespan_s == seconds
            program = PassProgram(clusters, clusters.static_bytes, seconds * (1 + 1e-9))
            assert program.model.violation(program.values_of(schedule)) < 1e-4, f"seed {seed}"
            tried += 1
    assert tried > 30


def test_a_broken_schedule_breaks_a_row():
    """a and b, both on one device at once; and c before what it reads."""
    model = pass_model(problem(forward_graph([(0, 2)], 3, nbytes=1.0), [1.0, 1.0, 1.0], **ROOM))
    clusters = uncoarsened(model)
    schedule = timed(clusters, [0, 0, 0], [0, 1, 2])
    program = PassProgram(clusters, clusters.static_bytes, 3.0)
    assert program.model.violation(program.values_of(schedule)) < 1e-6
    together = replace(schedule, start_s=(0.0, 0.0, 1.0), end_s=(1.0, 1.0, 2.0))
    assert program.model.violation(program.values_of(together)) > 1.0
    early = replace(schedule, start_s=(0.0, 1.0, 0.0), end_s=(1.0, 2.0, 1.0))
    assert program.model.violation(program.values_of(early)) > 1.0


def test_a_transfer_is_paid_once_per_destination():
    """a feeds b and c on the other device with 4 s: 1 + 4 + 1 + 1, not 1 + 4 + 4 + 1; all on one take 3 + 9."""
    graph = forward_graph([(0, 1), (0, 2)], 3, nbytes=4.0)
    p = problem(graph, [1.0, 1.0, 1.0], 2, pins={0: 0, 1: 1, 2: 1}, **ROOM)
    assert solved(p).objective_s == pytest.approx(7.0)


@pytest.mark.parametrize(("resource", "seconds"), [("", 6.0), ("root", 10.0)])
def test_a_shared_wire_carries_one_transfer_at_a_time(resource, seconds):
    """a on 0 feeds c on 1, b on 1 feeds d on 0, 4 s each: at once, or one after the other."""
    graph = forward_graph([(0, 2), (1, 3)], 4, nbytes=4.0)
    links = (Link(0, 1, 1.0, 0.0, resource), Link(1, 0, 1.0, 0.0, resource))
    cluster = Cluster((Device("a", "gpu"), Device("b", "gpu")), links)
    p = replace(problem(graph, [1.0] * 4, 2, **ROOM), cluster=cluster, pins={0: 0, 1: 1, 2: 1, 3: 0})
    result = solved(p)
    assert (result.objective_s, result.status) == (pytest.approx(seconds), Status.OPTIMAL)


def test_without_transfers_independent_operators_are_balanced():
    """3, 3, 2, 2, 2 on two devices: 6 seconds."""
    p = problem(forward_graph([], 5), [3.0, 3.0, 2.0, 2.0, 2.0], 2, **ROOM)
    result = solved(p)
    assert (result.objective_s, result.status) == (6.0, Status.OPTIMAL)


def test_slow_links_leave_everything_on_one_device():
    p = problem(forward_graph([(0, 1), (0, 2)], 3, nbytes=1.0), [1.0] * 3, 2, bandwidth=1e-6, **ROOM)
    result = solved(p)
    assert len(result.plan.devices_used()) == 1
    assert (result.objective_s, result.status) == (3.0, Status.OPTIMAL)


def test_memory_keeps_operators_apart():
    """Each holds 4 x 10 bytes: no two of the three fit on a device of 79."""
    graph = training_graph([(0, 1), (1, 2)], 3, param_bytes=10.0)
    p = problem(graph, [1.0] * 6, 3, **{**PASS, "memory": 79.0})
    assert len(solved(p).plan.devices_used()) == 3
    result = solved(replace(p, cluster=problem(graph, [1.0] * 6, 2, memory=79.0).cluster))
    assert (result.plan, result.status) == (None, Status.INFEASIBLE)


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_both_solvers_agree(solver):
    p = problem(forward_graph([(0, 2), (1, 2), (1, 3)], 4, nbytes=1.0), [2.0, 3.0, 4.0, 2.0], 2, **ROOM)
    result = solved(p, solver=solver)
    assert (result.objective_s, result.status) == (pytest.approx(best_makespan_s(p)), Status.OPTIMAL)


def test_what_is_joined_is_judged_by_its_operators_and_proves_nothing():
    for seed in (7, 10):
        p = random_problem(seed, 6, **ROOM)
        quick = solved(p, operators=0, clusters=4)
        exact = solved(p)
        assert quick.objective_s == judge(p, quick.plan).objective_s
        assert quick.objective_s >= exact.bound_s * (1 - 1e-6)
        combinatorial = solve(p, "single", time_limit_s=1).bound_s
        assert quick.bound_s == min(combinatorial, quick.objective_s)


def test_other_problems_are_refused_in_one_line():
    p = problem(forward_graph([(0, 1)], 2), [1.0, 1.0], 2, **PASS)
    assert PestoProgram().unsupported(p) is None
    for other in (
        replace(p, transfers=Transfers.LANE),
        replace(p, objective=Objective.ITERATION),
        replace(p, execution=Execution.CALL),
        replace(p, contiguity=Contiguity.ACYCLIC),
    ):
        assert "\n" not in PestoProgram().unsupported(other)
    assert "gurobi" in PestoProgram(solver="gurobi").unsupported(p)


def test_a_unit_goes_where_most_of_its_work_is():
    model = pass_model(problem(forward_graph([(0, 1), (1, 2)], 3), [1.0, 3.0, 1.0], 2, **ROOM))
    clusters = clustered(model, [0, 0, 1])
    assert clusters.model.gathered(clusters.unit_of_group, np.array([0, 1, 0])).tolist() == [1, 0]
    assert clusters.sequences([1, 0], [0, 1]) == [[2], [0, 1]]
