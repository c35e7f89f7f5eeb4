"""Moves of operators: each one is the plan it says, evaluated; what it calls forbidden breaks a rule."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.sweeps.moved import company, moved_plans, places
from explorer.sweeps.why_here import delta_words, moves, why_here
from solvers.errors import InvalidPlan, InvalidProblem, PlacementError
from solvers.evaluation.evaluate import evaluate, judge
from solvers.plan.result import Result, Status, StopReason
from solvers.planners.check import check
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity
from solvers.schedules.assemble import assemble
from tests.explorer.view.lattice import lattice_problem, operator_plan
from tests.explorer.view.small import branches_problem, chain_problem, drafted, even_plan
from tests.random_problems import random_placement, random_problem


def planned(seed):
    """Random plans that break no rule."""
    rng = random.Random(seed)
    p = random_problem(seed)
    for _ in range(4):
        try:
            plan = assemble(p, random_placement(rng, p), rng.choice(p.micro_batch_choices()))
        except InvalidPlan:
            continue
        if judge(p, plan).feasible:
            yield p, plan


def where(plan, operator):
    return plan.placement()[operator]


@pytest.mark.first(4)
@pytest.mark.parametrize("seed", range(40))
def test_a_delta_is_the_objective_of_the_moved_plan_which_breaks_no_rule(seed):
    for problem, plan in planned(seed):
        before_s = evaluate(problem, plan).objective_s(problem.objective)
        for operator in range(len(problem.graph)):
            moving = company(problem, [operator])
            for move in moves(problem, plan, [operator]):
                if move.plan is None:
                    continue
                assert check(problem, move.plan) == ()
                after_s = evaluate(problem, move.plan).objective_s(problem.objective)
                assert move.delta_s == pytest.approx(after_s - before_s, abs=1e-12)
                for other in range(len(problem.graph)):
                    expected = move.place if other in moving else where(plan, other)
                    assert where(move.plan, other) == expected
                if move.here:
                    assert move.plan is plan


@pytest.mark.first(15)
@pytest.mark.parametrize("seed", range(40))
def test_what_is_forbidden_is_so_however_the_placement_is_cut_into_stages(seed):
    for problem, plan in planned(seed):
        micro_batches = problem.mini_batch // plan.stages[0].micro_batch_size
        for operator in range(len(problem.graph)):
            moving = company(problem, [operator])
            for move in moves(problem, plan, [operator]):
                if move.delta_s is not None:
                    continue
                assert move.reason
                placement = [move.place if o in moving else where(plan, o) for o in range(len(problem.graph))]
                try:
                    alternative = assemble(problem, placement, micro_batches)
                except PlacementError:
                    continue
                assert check(problem, alternative) != (), (operator, move)


def test_every_place_is_tried_once_and_what_is_allowed_comes_first():
    problem = chain_problem()
    plan = even_plan(problem)
    shown = why_here(problem, plan, [23])
    assert sorted(move.place for move in shown.moves) == [(0,), (1,), (2,), (3,)] == places(problem, plan)
    assert [delta_words(move) for move in shown.moves] == ["here", "+919 µs", "not allowed", "not allowed"]
    assert shown.operators == (23, 168)  # its backward comes along
    assert shown.moves[1].changes[:1] == ("GPU 1: peak +56 MiB",)
    assert "not contiguous" in shown.moves[2].reason
    assert "GPU 2" in shown.moves[2].reason
    assert str(shown).splitlines()[0] == "2 operators, 164 ms where they are"


def test_a_whole_stage_goes_elsewhere_as_it_is():
    problem = replace(lattice_problem(), contiguity=Contiguity.NONE)
    plan = operator_plan(problem)
    first = next(moved_plans(problem, plan, company(problem, [5]), (3,)))
    assert len(first.stages) == len(plan.stages)
    assert sorted(map(len, first.order)) != sorted(map(len, plan.order)) or first.order != plan.order
    assert check(problem, first) == ()


def test_operators_join_and_leave_replicas_as_one_place():
    problem = replace(branches_problem(7), recompute=False)
    plan = drafted(problem, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12]], {0: 2})
    group = plan.stages[0].devices
    assert len(group) == 2
    shown = why_here(problem, plan, [8])
    assert group in [move.place for move in shown.moves]
    own = next(move for move in why_here(problem, plan, [0]).moves if move.here)
    assert own.place == group


def test_a_pin_forbids():
    problem = chain_problem()
    problem = replace(problem, pins={23: 0, 168: 0})
    shown = why_here(problem, even_plan(problem), [23])
    forbidden = [move for move in shown.moves if not move.here]
    assert all(move.delta_s is None for move in forbidden)
    assert any("is pinned to GPU 0" in move.reason for move in forbidden)


def test_a_cap_forbids_and_says_by_how_much():
    problem = chain_problem()
    plan = even_plan(problem)
    peaks = evaluate(problem, plan).peak_memory_bytes
    caps = [math.inf, peaks[1] * 1.001, math.inf, math.inf]
    devices = tuple(replace(d, memory_bytes=c) for d, c in zip(problem.cluster.devices, caps, strict=True))
    capped = replace(problem, cluster=replace(problem.cluster, devices=devices))
    move = next(m for m in why_here(capped, plan, [23]).moves if m.place == (1,))
    assert move.delta_s is None
    assert move.reason.startswith("GPU 1 would hold ")
    assert move.reason.endswith(" over its cap")
    tried = moved_plans(problem, plan, company(problem, [23]), (1,))
    least = min(evaluate(problem, moved).peak_memory_bytes[1] for moved in tried) - caps[1]
    assert f"{least / 2**20:.1f} MiB over" in move.reason


def test_a_kind_of_device_that_cannot_run_it_forbids():
    problem = chain_problem()
    blocked = problem.compute.seconds["toy"].copy()
    blocked[23] = np.inf
    devices = tuple(replace(d, kind="other") if i == 1 else d for i, d in enumerate(problem.cluster.devices))
    problem = replace(
        problem,
        cluster=replace(problem.cluster, devices=devices),
        compute=ComputeTable((1,), {"toy": problem.compute.seconds["toy"], "other": blocked}),
    )
    move = next(m for m in why_here(problem, even_plan(problem), [23]).moves if m.place == (1,))
    assert "cannot run on GPU 1" in move.reason


def test_what_is_kept_together_comes_along():
    problem = chain_problem()
    operators = list(problem.graph.operators)
    for i in (10, 23):
        operators[i] = replace(operators[i], colocation="kept")
    graph = replace(problem.graph, operators=tuple(operators))
    assert set(company(replace(problem, graph=graph), [23])) == {10, 181, 23, 168}
    assert company(problem, [23]) == next(frozenset(g) for g in together(problem.graph) if 23 in g)


def test_it_stops_when_requested_to():
    problem = chain_problem()
    assert list(moves(problem, even_plan(problem), [23], should_stop=lambda: True)) == []


def test_python_asks_by_name():
    problem = chain_problem()
    plan = even_plan(problem)
    result = Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, 1.0, 0.0, 0.0, "auto")
    by_name = explorer.why_here(result, "blocks.1.mlp.op11")
    assert by_name.moves == why_here(problem, plan, [23]).moves
    assert len(explorer.why_here(result, "blocks.1").operators) == 24
    with pytest.raises(InvalidProblem, match=r"did you mean 'blocks\.1\.mlp\.op11'"):
        explorer.why_here(result, "blocks.1.mlp.op1l")
