"""Statuses are derived, bounds hold, and an infeasible problem is explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from solvers.errors import InvalidPlan, InvalidProblem, UnsupportedProblem
from solvers.plan.plan import Plan
from solvers.plan.result import Status, StopReason
from solvers.planners.infeasibility import explain_infeasible, with_cap
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Transfers
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_problem

CHAIN = [(0, 1), (1, 2), (2, 3)]


def chain(**options):
    options.setdefault("objective", Objective.MAX_LOAD)
    return problem(
        training_graph(CHAIN, 4, nbytes=0.01, param_bytes=10.0), [1, 2, 3, 4] * 2, 2, mini_batch=4, micro_batches=4,
        **options,
    )  # fmt: skip


@dataclass(frozen=True)
class Scripted:
    """Offers the plans it is given, then says whether it covered everything."""

    name: ClassVar[str] = "scripted"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"
    plans: tuple[Plan, ...] = ()
    covered: bool = False
    bound_s: float = 0.0

    def unsupported(self, problem):
        return None

    def __call__(self, problem, monitor):
        for plan in self.plans:
            monitor.offer(plan)
        monitor.raise_bound(self.bound_s)
        monitor.check()
        return self.covered


def balanced(p):
    return assemble(p, [(0,), (0,), (0,), (1,)] * 2, 4)


@pytest.mark.parametrize(
    ("covered", "bound", "status"),
    [(False, 0.0, Status.FEASIBLE), (True, 0.0, Status.OPTIMAL), (False, 1e9, Status.OPTIMAL)],
)
def test_a_status_is_derived_from_coverage_and_bound(covered, bound, status):
    p = chain()
    result = solve(p, Scripted((balanced(p),), covered, bound))
    assert result.status is status
    assert result.bound_s <= result.objective_s


def test_no_plan_after_covering_everything_is_infeasible_and_otherwise_unknown():
    p = chain()
    assert solve(p, Scripted(covered=True)).status is Status.INFEASIBLE
    assert solve(p, Scripted(covered=False)).status is Status.NO_PLAN


def test_a_fake_clock_ends_the_search_at_the_time_limit():
    p = chain()
    ticks = iter(range(1000))
    result = solve(p, Scripted((balanced(p),), True), time_limit_s=1.5, clock=lambda: float(next(ticks)))
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.status is Status.FEASIBLE
    assert result.plan is not None


def test_a_reached_gap_ends_the_search():
    p = chain()
    result = solve(p, Scripted((balanced(p),), True), gap=0.9)
    assert (result.stop_reason, result.status) == (StopReason.FINISHED, Status.FEASIBLE)


def test_a_start_plan_is_never_lost():
    p = chain()
    assert solve(p, Scripted(), start=balanced(p)).plan == balanced(p)


def test_an_unknown_planner_is_named_with_those_there_are():
    with pytest.raises(InvalidProblem, match="unknown planner 'magic'; there are: auto"):
        solve(chain(), "magic")


def test_a_planner_says_what_it_cannot_represent():
    big = problem(forward_graph([], 20), [1] * 20, 3, training=False)
    with pytest.raises(UnsupportedProblem, match="brute-force: 20 groups"):
        solve(big, "brute-force")


def test_a_planner_that_breaks_a_rule_is_detected():
    p = chain()
    broken = Plan(balanced(p).stages[:1], balanced(p).order)
    with pytest.raises(InvalidPlan):
        solve(p, Scripted((broken,)))


def supported(name, p):
    return PLANNERS[name]().unsupported(p) is None


@pytest.mark.parametrize("seed", range(40))
def test_the_default_planner_is_never_worse_than_its_members(seed):
    p = random_problem(seed, objective=Objective.ITERATION)
    best = solve(p, "auto")
    for name in ("linear-dp", "equal", "single"):
        if supported(name, p):
            assert best.objective_s <= solve(p, name).objective_s * (1 + 1e-12)


@pytest.mark.slow
def test_auto_finds_the_optimal_iteration_on_most_tiny_problems():
    optimal = total = 0
    for seed in range(60):
        p = random_problem(seed, largest=4, objective=Objective.ITERATION, contiguity=Contiguity.ACYCLIC)
        oracle = solve(p, "brute-force")
        if oracle.plan is None:
            continue
        total += 1
        optimal += solve(p, "auto").objective_s <= oracle.objective_s * (1 + 1e-9)
    assert total > 30
    assert optimal >= 0.8 * total


def test_an_infeasible_cap_is_explained_by_blame_bound_and_the_smallest_cap_that_fits():
    """Four groups of 40 bytes on two devices, and 0.01 bytes sent and received at the border."""
    p = chain(memory=39.0)
    explanation = explain_infeasible(p)
    assert explanation.cap_lower_bound_bytes == 80.0
    assert explanation.smallest_cap_bytes == pytest.approx(80.02, rel=0.005)
    assert explanation.operators
    assert solve(with_cap(p, explanation.smallest_cap_bytes)).plan is not None
    assert solve(with_cap(p, explanation.cap_lower_bound_bytes * 0.99)).status is Status.INFEASIBLE


def test_a_search_for_the_smallest_cap_that_time_ended_says_so():
    now = iter(range(10**9))
    hurried = explain_infeasible(chain(memory=39.0), time_limit_s=60.0, clock=lambda: float(next(now)))
    patient = explain_infeasible(chain(memory=39.0), clock=lambda: 0.0)
    assert (hurried.searched, patient.searched) == (False, True)
    assert hurried.smallest_cap_bytes > patient.smallest_cap_bytes


@pytest.mark.parametrize(("planner", "least"), [("single", 160.0), ("gpipe", 120.0), ("auto", 80.0)])
def test_the_cap_that_is_reported_does_for_the_planner_that_was_run(planner, least):
    """Four groups of 40 bytes, the last of which takes longest: `gpipe` leaves it alone."""
    p = problem(
        training_graph(CHAIN, 4, nbytes=0.01, param_bytes=10.0), [1, 1, 1, 9] * 2, 2, mini_batch=4, micro_batches=4,
        objective=Objective.MAX_LOAD, memory=39.0,
    )  # fmt: skip
    cap = explain_infeasible(p, PLANNERS[planner]()).smallest_cap_bytes
    assert cap == pytest.approx(least, rel=0.005)
    assert solve(with_cap(p, cap), planner).plan is not None


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_cap_does_and_the_bound_below_it_holds(seed):
    p = random_problem(seed, largest=4, cpus=0, memory=1.0, training=True)
    if all(o.param_bytes == 0 for o in p.graph.operators):
        return
    explanation = explain_infeasible(p)
    assert explanation.smallest_cap_bytes is not None
    assert explanation.cap_lower_bound_bytes <= explanation.smallest_cap_bytes * (1 + 1e-9)
    assert solve(with_cap(p, explanation.smallest_cap_bytes)).plan is not None


def test_more_devices_and_more_memory_are_never_worse():
    for seed in range(30):
        p = random_problem(seed, largest=4, objective=Objective.MAX_LOAD, contiguity=Contiguity.NONE, memory=60.0)
        tight, roomy = solve(p, "brute-force"), solve(with_cap(p, 120.0), "brute-force")
        assert roomy.objective_s <= tight.objective_s * (1 + 1e-12)


def test_a_relaxed_contiguity_is_never_worse():
    for seed in range(30):
        p = random_problem(seed, largest=4, objective=Objective.MAX_LOAD)
        values = [
            solve(replace(p, contiguity=c), "brute-force").objective_s
            for c in (Contiguity.NONE, Contiguity.CONVEX, Contiguity.ACYCLIC)
        ]
        assert values == sorted(values)


def test_convex_can_beat_acyclic():
    """k = 2, a 7 -> b 6 and c 4 -> d 3, w = 0.001: {a, d}, {b, c} is convex but its quotient is cyclic."""
    g = forward_graph([(0, 1), (2, 3)], 4, nbytes=0.001)
    values = {}
    for contiguity in (Contiguity.ACYCLIC, Contiguity.CONVEX):
        p = problem(
            g, [7, 6, 4, 3], 2, objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING, contiguity=contiguity,
            training=False,
        )  # fmt: skip
        values[contiguity] = solve(p, "brute-force").objective_s
    assert values == {Contiguity.ACYCLIC: pytest.approx(11.002), Contiguity.CONVEX: pytest.approx(10.002)}


def test_a_second_judgement_chooses_among_the_finalists_and_never_what_it_judges_worse():
    """One device takes 80 s; two take less, but a run of theirs pays for every action."""
    p = replace(chain(objective=Objective.ITERATION), micro_batches=None)
    alone = assemble(p, [(0,)] * 8, 1)
    split = [assemble(p, [(0,), (0,), (1,), (1,)] * 2, count) for count in (4, 2)]
    seconds = {id(plan): solve(p, Scripted((plan,))).objective_s for plan in (alone, *split)}
    assert seconds[id(split[0])] < seconds[id(split[1])] < seconds[id(alone)]

    def estimating(each_s: float):
        def second(_, plan):
            return seconds[id(plan)] + each_s * sum(map(len, plan.order))

        return solve(p, Scripted((alone, *split), covered=True), second=second)

    for each_s, answer in ((0.0, split[0]), (1.0, split[1]), (1000.0, alone)):
        result = estimating(each_s)
        assert result.plan is answer
        assert result.objective_s == seconds[id(answer)]
        assert result.bound_s <= seconds[id(split[0])]
        assert (result.status is Status.OPTIMAL) == (answer is split[0])
        assert any("takes least in a run" in note for note in result.notes) == (answer is not split[0])
    untold = solve(p, Scripted((alone, *split)), second=lambda *_: None)
    assert untold.plan is split[0]
