"""Planners of one pass state the order of messages that they decide: what they claim is what such plans take."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.joint.passes.plans import crossing, in_time, plan_of, stating
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.joint import Joint
from solvers.joint.planners.programs import JointCP, PestoProgram
from solvers.plan.plan import MessageOrder
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.problem import Problem, Transfers
from tests.benchmarks.joint.joint_instances import Instance, make
from tests.oracle import pass_oracle
from tests.oracle.message_orders import served
from tests.solvers.evaluation.test_message_order import three_transfers
from tests.solvers.joint.test_operator_pass import random_pass

MOST = 24
"""Orders of messages tried of one plan."""


def pinned() -> Problem:
    """`three_transfers` with every operator where it is there."""
    return three_transfers(pins={i: i // 3 for i in range(6)})[0]


def all_orders(order: MessageOrder) -> Iterator[MessageOrder]:
    rows = (itertools.permutations(row) for _, row in order)
    for chosen in itertools.islice(itertools.product(*rows), MOST):
        yield tuple((link, row) for (link, _), row in zip(order, chosen, strict=True))


def least_s(problem: Problem) -> float:
    """The least makespan over placements, orders of operators and orders of messages."""
    best = math.inf
    ways = pass_oracle.orders(problem.graph, 60, random.Random(0))
    for device_of in pass_oracle.placements(problem):
        tried = set()
        for way in ways:
            plan = pass_oracle.plan_of(problem, device_of, way)
            if any(device_of[o] != d for o, d in problem.pins.items()) or plan in tried:
                continue
            tried.add(plan)
            try:
                order = served(problem, plan)
            except InvalidPlan:
                continue
            for messages in all_orders(order):
                try:
                    judged = judge(problem, replace(plan, messages=messages))
                except InvalidPlan:
                    continue  # it deadlocks
                if judged.feasible:
                    best = min(best, judged.objective_s)
    return best


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_plans_with_the_order_of_a_simulation_take_what_it_took(first: int) -> None:
    stated = 0
    for seed in range(first, first + 40):
        problem, model, place, rank = random_pass(seed, transfers=Transfers.LINKS)
        simulator = Simulator(model)
        listed_s = simulator.by_rank_s(place, rank)
        if math.isinf(listed_s):
            continue
        listed = simulator.planned(place)
        sequences = simulator.sequences()
        ordered_s = simulator.in_order_s(place, sequences)
        ordered = simulator.planned(place)
        for plan, seconds in ((listed, listed_s), (ordered, ordered_s)):
            stated += bool(plan.messages)
            assert simulate(problem, plan).makespan_s == pytest.approx(seconds, rel=1e-12), seed
    assert stated > 20


def test_any_times_give_an_order_that_cannot_deadlock() -> None:
    rng = random.Random(0)
    crossed = 0
    for seed in range(80):
        problem, model, place, rank = random_pass(seed, transfers=Transfers.LINKS, memory=math.inf)
        simulator = Simulator(model)
        if math.isinf(simulator.by_rank_s(place, rank)):
            continue
        sequences = simulator.sequences()
        starts = [rng.random() for _ in range(model.operators)]
        sent = {move: rng.random() for move in crossing(model, place)}
        plan = stating(model, plan_of(model, place, sequences), in_time(model, place, sequences, starts, sent))
        crossed += len(sent)
        assert sum(len(row) for _, row in plan.messages) == len(sent)
        judge(problem, plan)
    assert crossed > 50


def test_nothing_is_stated_where_transfers_do_not_occupy_links() -> None:
    for transfers in (Transfers.LANE, Transfers.DUPLEX, Transfers.BLOCKING):
        problem = replace(pinned(), transfers=transfers)
        plan = solve(problem, Joint(evaluations=50)).plan
        assert plan is not None
        assert plan.messages == ()


@pytest.mark.parametrize("planner", [JointCP(), PestoProgram()], ids=["joint-cp", "pesto"])
def test_exact_planners_state_the_order_that_is_best(planner: JointCP | PestoProgram) -> None:
    pytest.importorskip("ortools" if isinstance(planner, JointCP) else "pulp")
    problem = pinned()
    result = solve(problem, planner)
    assert result.plan is not None
    assert result.status is Status.OPTIMAL
    assert result.objective_s == pytest.approx(least_s(problem), rel=1e-6)
    assert result.objective_s == pytest.approx(9, rel=1e-6)  # 10 in the order of `three_transfers`
    assert result.plan.messages
    again = read_plan(write_plan(problem, result.plan, result))
    assert again.plan == result.plan
    assert judge(problem, again.plan).objective_s == result.objective_s


@pytest.mark.slow
def test_joint_cp_is_best_of_all_placements_orders_and_orders_of_messages() -> None:
    pytest.importorskip("ortools")
    proved = 0
    for seed in range(120):
        problem = pass_oracle.pass_problem(seed, 4)
        if problem.transfers is not Transfers.LINKS or len(problem.graph) > 5 or len(problem.cluster) == 1:
            continue
        least = least_s(problem)
        result = solve(problem, JointCP())
        assert result.bound_s <= least * (1 + 1e-9), seed
        assert result.objective_s <= least * (1 + 1e-9) or result.status is not Status.OPTIMAL, seed
        if result.status is Status.OPTIMAL and math.isfinite(least):
            assert result.objective_s == pytest.approx(least, rel=1e-9), seed
            proved += 1
        if proved == 12:
            return
    pytest.fail(f"{proved} were proved")


def test_a_gap_closes_where_links_must_wait() -> None:
    """Once a gap of 1.4 %: the best schedule lets a wire idle, or serve another order than that of readers."""
    pytest.importorskip("ortools")
    problem = make(Instance("layered", 16, False, 4, "PCIe", False, 1))
    result = solve(problem, JointCP())
    assert result.plan is not None
    assert result.status is Status.OPTIMAL
    assert judge(problem, replace(result.plan, messages=())).objective_s > result.objective_s * 1.001


@pytest.mark.parametrize("transfers", [Transfers.LINKS, Transfers.LANE])
def test_what_joint_claims_is_what_its_plan_takes(transfers: Transfers) -> None:
    problem = replace(make(Instance("layered", 16, True, 2, "PCIe", False, 2)), transfers=transfers)
    result = solve(problem, Joint(evaluations=2000))
    assert result.plan is not None
    assert bool(result.plan.messages) is (transfers is Transfers.LINKS)
    assert judge(problem, result.plan).objective_s == result.objective_s
