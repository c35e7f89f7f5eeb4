"""What a search begins with is settled by the questions, not by who answers them when."""

from __future__ import annotations

import random

from explorer.sweeps.execution.order import Order, at_once
from explorer.sweeps.points import Axes, points
from explorer.sweeps.sweep import before, cells
from tests.explorer.view.small import branches_workload, chain_workload

GRID = points(Axes(devices=(1, 2, 4), memory_bytes=(8e9, 16e9, 32e9)))
QUESTIONS = cells([chain_workload(), branches_workload()], ["auto", "equal"], GRID)


def starts(planless: set[int], seed: int, workers: int) -> list[int | None]:
    """Answer questions of ASKED in any order, ``workers`` at a time."""
    rng = random.Random(seed)
    order = Order(len(QUESTIONS), before(QUESTIONS))
    running: list[int] = []
    while len(order):
        while len(running) < workers and (position := order.next()) is not None:
            running.append(position)
        done = running.pop(rng.randrange(len(running)))
        order.answered(done, done not in planless)
    return [order.start(position) for position in range(len(QUESTIONS))]


def test_the_starts_do_not_depend_on_workers_or_on_who_is_first() -> None:
    for planless in ({0}, {0, 1, 3}, {4, 10}, set(range(9))):
        one = starts(planless, 0, 1)
        assert {tuple(starts(planless, seed, workers)) for seed in range(5) for workers in (2, 3, 50)} == {tuple(one)}


def test_each_begins_with_the_nearest_plan_before_of_its_model_and_planner() -> None:
    nearest = starts(set(), 0, 2)
    # by rows of three caps: along a row from the one before, at its beginning from the row above
    assert nearest[:9] == [None, 0, 1, 0, 3, 4, 3, 6, 7]
    assert nearest[9:18] == [None] * 9  # equal begins afresh
    assert nearest[18:27] == [None, *(18 + start for start in nearest[1:9] if start is not None)]


def test_one_without_a_plan_is_passed_over() -> None:
    # 0 has none, so 1 begins afresh, and so does 3, whose nearest are 0, then 2 and 1 in two values
    assert starts({0}, 0, 2)[:4] == [None, None, 1, 2]


def test_how_many_can_be_solved_at_once() -> None:
    assert at_once(len(GRID), before(QUESTIONS[:9])) == 3
    assert at_once(4, before(cells([chain_workload()], ["auto"], points(Axes(devices=(1, 2, 4, 8)))))) == 1
    assert at_once(9, before(QUESTIONS[:9], fresh=True)) == 9
    assert at_once(0, before(())) == 0
