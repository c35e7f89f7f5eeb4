"""What a search reports, on a clock of the test's own."""

import math

import pytest

from explorer.jobs.progress_relay import DRAWING, LONGEST_S, REDRAW_S, ProgressRelay
from solvers.plan.plan import Action, Plan, Stage
from solvers.plan.result import Progress


def a_plan(operator):
    return Plan((Stage((operator,), (0,)),), ((Action(0, "F"),),))


A, B, C = (a_plan(i) for i in range(3))


class World:
    """Collects what is reported; reporting a plan costs ``cost`` seconds of work."""

    def __init__(self, cost=0.0):
        self.now, self.worked, self.cost = 0.0, 0.0, cost
        self.reported = []
        self.relay = ProgressRelay(self.report, lambda: self.now, lambda: self.worked)

    def report(self, progress, plan, since):
        self.reported.append((progress.objective_s, plan, [step.objective_s for step in since]))
        if plan is not None:
            self.worked += self.cost

    def step(self, at, objective, plan, note=""):
        self.now = at
        self.relay.step(Progress(at, objective, 0.0, note), plan)

    def poll(self, at):
        self.now = at
        self.relay.poll()


def test_steps_that_come_fast_are_reported_together_and_none_is_lost():
    world = World()
    for i, plan in enumerate((A, B, C)):
        world.step(0.01 * i, 9.0 - i, plan)
    assert world.reported == []
    world.poll(REDRAW_S + 0.01)
    assert world.reported == [(7.0, C, [9.0, 8.0])]
    world.poll(2.0)
    assert len(world.reported) == 1


def test_a_plan_is_drawn_once_however_often_it_is_named():
    world = World()
    world.step(1.0, 5.0, A)
    world.step(2.0, 5.0, A)
    world.step(3.0, 4.0, B)
    assert [plan for _, plan, _ in world.reported] == [A, None, B]


def test_a_note_is_reported_at_once_and_its_plan_when_it_is_time():
    world = World()
    world.step(1.0, 5.0, A)
    world.step(1.1, 4.0, B, "refining")
    assert world.reported[-1] == (4.0, None, [])
    world.poll(1.0 + REDRAW_S)
    assert world.reported[-1][1] is B


def test_a_first_step_without_a_plan_is_reported_too():
    world = World()
    world.step(1.0, math.inf, None)
    assert world.reported == [(math.inf, None, [])]


@pytest.mark.parametrize("cost", [0.1, 100.0])
def test_plans_that_are_dear_to_draw_are_drawn_more_rarely_but_not_never(cost):
    world = World(cost)
    world.step(1.0, 5.0, A)
    rest = min(LONGEST_S, cost / DRAWING)
    world.step(1.0 + 0.9 * rest, 4.0, B)
    assert [plan for _, plan, _ in world.reported] == [A]
    world.poll(1.0 + rest)
    assert [plan for _, plan, _ in world.reported] == [A, B]
