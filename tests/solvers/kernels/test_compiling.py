"""Compiling is no search time, and is reported; on a clock and with events of the test's own."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import pytest
from numba.core import event

from solvers.kernels.compiling import COMPILE, LOCK, REPORT_EVERY_S, Compiling
from solvers.plan.result import StopReason
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem


class Kernel:
    """Stands for a dispatcher."""

    def __init__(self, module):
        self.py_func = lambda: None
        self.py_func.__module__ = module


class World:
    """A clock, and compilations that take as long as the test says."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return self.now

    def compile(self, seconds, module="solvers.pipelines.timing.draft_kernel", inside=()):
        """inside: kernels compiled within it, after each of which ``seconds`` pass."""
        with event.trigger_event(LOCK), event.trigger_event(COMPILE, {"dispatcher": Kernel(module)}):
            for name in inside:
                self.compile(seconds, name)
            self.now += seconds

    def load(self, seconds):
        with event.trigger_event(LOCK):
            self.now += seconds


@pytest.fixture
def world():
    return World()


def chain():
    return problem(forward_graph([(0, 1)], 2), [1.0, 2.0], 2, objective=Objective.MAX_LOAD)


def test_compiling_and_loading_kernels_are_not_counted_by_the_monitor(world):
    with Compiling(world.clock) as compiling:
        monitor = Monitor(chain(), 10.0, clock=world.clock, uncounted_s=lambda: compiling.seconds)
        world.now += 3.0
        world.compile(57.0)
        world.load(1.0)
        assert monitor.elapsed_s == pytest.approx(3.0)
        assert monitor.remaining_s == pytest.approx(7.0)
        monitor.check()


def test_a_kernel_within_a_kernel_is_not_counted_twice(world):
    with Compiling(world.clock) as compiling:
        world.compile(2.0, inside=("solvers.kernels.heap_kernel", "solvers.kernels.heap_kernel"))
    assert compiling.seconds == pytest.approx(6.0)
    assert compiling.kernels == ["draft"]


def test_a_monitor_within_a_search_goes_on_from_what_was_compiled_before(world):
    with Compiling(world.clock) as compiling:
        world.compile(5.0)
        inner = Monitor(chain(), 1.0, clock=world.clock, uncounted_s=lambda: compiling.seconds)
        assert inner.elapsed_s == 0.0


def test_what_another_thread_compiles_is_not_taken_off(world):
    with Compiling(world.clock) as compiling:
        other = threading.Thread(target=world.compile, args=(9.0,))
        other.start()
        other.join()
        assert compiling.seconds == 0.0


def test_beginning_end_and_now_and_then_a_kernel_within_are_reported(world):
    messages = []
    with Compiling(world.clock, lambda kernel, seconds: messages.append((kernel, seconds))):
        world.compile(REPORT_EVERY_S * 0.75, inside=("a.b", "a.c"))
    assert [kernel for kernel, _ in messages] == ["draft", "draft", ""]
    assert [seconds for _, seconds in messages] == pytest.approx([0.0, 0.75, 1.125])


def test_a_compilation_that_fails_ends_too(world):
    with Compiling(world.clock) as compiling:
        with suppress(ZeroDivisionError), event.trigger_event(LOCK):
            world.now += 2.0
            raise ZeroDivisionError
        world.now += 5.0
        assert compiling.seconds == pytest.approx(2.0)


@dataclass(frozen=True)
class Compiles:
    """A planner that needs a kernel, then searches for as long as it may."""

    world: World
    cancels: list[bool]
    name: ClassVar[str] = "compiles"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, _):
        return None

    def __call__(self, problem, monitor):
        self.world.compile(60.0)
        self.cancels.append(True)
        for _ in range(1000):
            monitor.check()
            self.world.now += 0.5
        return False


def test_the_time_limit_is_for_searching_and_a_note_says_what_compiling_took(world):
    outcome = solve(chain(), Compiles(world, []), time_limit_s=2.0, clock=world.clock)
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    assert outcome.runtime_s == pytest.approx(2.0)
    assert any("60 s" in note for note in outcome.notes)


def test_a_cancel_while_a_kernel_compiles_is_heeded_as_soon_as_it_is_done(world):
    cancels = []
    outcome = solve(chain(), Compiles(world, cancels), time_limit_s=2.0, clock=world.clock, should_stop=lambda: cancels)
    assert outcome.stop_reason is StopReason.CANCELLED
    assert outcome.runtime_s == 0.0
