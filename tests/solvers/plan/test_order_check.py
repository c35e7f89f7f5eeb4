"""A plan's order runs every action of every stage once, where the stage is; anything else is refused in words."""

from __future__ import annotations

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import simulate
from solvers.plan.order_check import KINDS_OF, check_order
from solvers.plan.plan import ACTION_KINDS, PHASES_OF, Plan, Stage, parse_action
from solvers.problem.problem import Objective, Problem
from tests.instances import problem, training_graph


def chain(**options: object) -> Problem:
    """Two forward operators and their gradients, a mini-batch of 4 samples on two devices."""
    return problem(training_graph([(0, 1)], 2), [1.0] * 4, mini_batch=4, **options)  # type: ignore[arg-type]


FIRST, LAST = Stage((0, 2), (0,), 2), Stage((1, 3), (1,), 2)
ROWS = ("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")


def plan(*rows: str, stages: tuple[Stage, ...] = (FIRST, LAST)) -> Plan:
    return Plan(stages, tuple(tuple(map(parse_action, row.split())) for row in rows))


def test_an_order_that_is_whole_is_accepted() -> None:
    check_order(chain(), plan(*ROWS))
    check_order(chain(), plan("0F0 0F1 0I0 0I1", ROWS[1]))
    check_order(chain(objective=Objective.MAKESPAN), plan("0F0 0B0", "1F0 1B0"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((ROWS[1], ROWS[0]), r"order\[0\]\[0\]: 1F0 is on device 0, but stage 1 runs on device 1"),
        (("0F0 0F1 0B0 0B1 7F0", ROWS[1]), r"order\[0\]\[4\]: 7F0 names stage 7, but there are 2 stages \(0 to 1\)"),
        (("0F0 0F2 0B0 0B1", ROWS[1]), r"order\[0\]\[1\]: 0F2 names micro-batch 2, but stage 0 has 2 \(0 to 1\)"),
        (("0F0 0F1 0B0 0B" + "9" * 50, ROWS[1]), r"order\[0\]\[3\]: 0B99.* names micro-batch 99.*, but stage 0 has 2"),
        (("0F0 0F1 0F0 0B0 0B1", ROWS[1]), r"order\[0\]\[2\]: 0F0 is there twice \(first at order\[0\]\[0\]\)"),
        (("0F0 0F1 0B0", ROWS[1]), r"order\[0\]: 0B1 is missing: .* device 0 .* micro-batches 0 to 1 once each"),
        (("0F0 0F1", ROWS[1]), r"stages\[0\]: no action in the order runs operator \"a'\"; expected B or I"),
        (("0F0 0F1 0W0 0W1", ROWS[1]), r"stages\[0\]: no action in the order runs operator \"a'\""),
        (("0F0 0F1 0B0 0B1 0I0 0I1", ROWS[1]), r"order\[0\]\[4\]: 0I0 beside 0B0, of which it is a part"),
        ((ROWS[0], ""), r"stages\[1\]: no action in the order runs operator 'b'; expected F on device 1"),
        ((ROWS[0],), "order: has a row for 1 device, but there are 2"),
        ((*ROWS, ""), "order: has a row for 3 devices, but there are 2"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(rows: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message) as caught:
        check_order(chain(), plan(*rows))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_every_replica_runs_every_micro_batch() -> None:
    whole = Stage((0, 1, 2, 3), (0, 1), 2)
    check_order(chain(), plan("0F0 0F1 0B0 0B1", "0F0 0F1 0B0 0B1", stages=(whole,)))
    with pytest.raises(InvalidPlan, match=r"order\[1\]: 0B0 is missing"):
        check_order(chain(), plan("0F0 0F1 0B0 0B1", "0F0 0F1", stages=(whole,)))


def test_one_unsplit_pass_needs_micro_batch_0_alone() -> None:
    check_order(chain(), plan(*ROWS), Objective.MAKESPAN)
    check_order(chain(), plan("0F0 0B0", "1F0 1B0"), Objective.MAKESPAN)
    with pytest.raises(InvalidPlan, match=r"order\[1\]: 1B0 is missing"):
        check_order(chain(), plan("0F0 0B0", "1F0 1B1"), Objective.MAKESPAN)


def test_a_huge_mini_batch_needs_no_memory() -> None:
    many = problem(training_graph([], 1), [1.0] * 2, mini_batch=2**50)
    with pytest.raises(InvalidPlan, match=r"order\[0\]: 0F1 is missing: .* 0 to 1,125,899,906,842,623"):
        check_order(many, plan("0F0 0B0", "", stages=(Stage((0, 1), (0,)),)))


def test_micro_batches_must_divide_the_mini_batch() -> None:
    with pytest.raises(InvalidPlan, match=r"stages\[0\]: the mini-batch of 4 samples does not divide into .* of 3"):
        check_order(chain(), plan("0F0 0B0", "", stages=(Stage((0, 1, 2, 3), (0,), 3),)))


def test_a_simulation_checks_the_order() -> None:
    with pytest.raises(InvalidPlan, match="1F0 is on device 0"):
        simulate(chain(), plan(ROWS[1], ROWS[0]), Objective.ITERATION)


def test_the_kinds_that_run_a_phase_are_listed_once() -> None:
    for kind in ACTION_KINDS:
        assert {phase for phase, kinds in KINDS_OF.items() if kind in kinds} == set(PHASES_OF[kind])
