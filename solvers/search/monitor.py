"""What a planner sees of the world: a clock, a stop signal, and a place to offer plans."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from solvers.errors import earlier_names
from solvers.evaluation.evaluate import Judged, cut_bytes, judge
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, StopReason
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from solvers.search.finalists import Finalists
from solvers.search.front import Front

PROVED = 1e-9
"""Relative gap below which a bound proves a plan optimal."""
TIED = 1e-6
"""Plans whose objectives differ by less, relatively, are distinguished by memory, devices and cut bytes."""


class Stop(Exception):
    """Raised by `Monitor.check` to end a search; `solve` turns it into a stop reason."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def never() -> bool:
    """No cancel."""
    return False


def nothing() -> float:
    """No seconds."""
    return 0.0


def ignore(_: Progress, __: Plan | None) -> None:
    """No listener of progress."""


@dataclass
class Monitor:
    """A planner's only way out.

    A planner calls `check` at least every tenth of a second, `offer` for every plan it finds and
    `raise_bound` for every lower bound it proves. It never states an objective, a status or a time:
    `offer` evaluates the plan itself. Clock, stop signal and progress are handed in. uncounted_s: seconds so
    far that are not search time, such as those of compiling kernels. effort: what share a planner does of the work
    that its options say.
    """

    if not TYPE_CHECKING:  # which is to know no other attributes
        __getattr__ = earlier_names(asking="for_question", apart="independent")

    problem: Problem
    time_limit_s: float = math.inf
    gap: float = 0.0
    seed: int = 0
    should_stop: Callable[[], bool] = never
    on_progress: Callable[[Progress, Plan | None], None] = ignore
    clock: Callable[[], float] = time.perf_counter
    uncounted_s: Callable[[], float] = nothing
    effort: Effort = Effort.NORMAL
    member: str = field(default="", init=False)
    """The planner at work, where one runs others in turn."""
    best: Plan | None = field(default=None, init=False)
    judged: Judged | None = field(default=None, init=False)
    least_s: float = field(default=math.inf, init=False)
    """The least objective of any plan offered: that of the best, or by less than TIED below."""
    bound_s: float = field(default=0.0, init=False)
    trace: list[Progress] = field(default_factory=list, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    infeasible: str | None = field(default=None, init=False)
    front: Front = field(default_factory=Front, init=False)
    given: list[tuple[Plan, Judged]] = field(default_factory=list, init=False)
    """What the search was given to start from, as far as it fits."""
    finalists: Finalists | None = field(default=None, init=False)
    """Where plans are judged a second time: those for it."""
    _for: Monitor | None = field(default=None, init=False)
    """Of the search that this is a part of."""

    def __post_init__(self) -> None:
        self.started_s = self.clock() - self.uncounted_s()
        self.rng = random.Random(self.seed)

    def independent(self) -> Monitor:
        """A monitor for a search within this one, which starts from the given plans alone.

        It searches as it would by itself, so this search never ends with less than that one. What is offered to it is
        offered here, too.
        """
        inner = replace(self, on_progress=ignore)
        inner.started_s = self.started_s
        inner.bound_s = self.bound_s
        for plan, judged in self.given:
            inner._take(plan, judged)
        inner._for = self
        return inner

    def for_question(self, question: Problem, taken_over: Callable[[Plan], Plan] | None = None) -> Monitor:
        """A monitor for another question within this search.

        taken_over: makes a plan of that question one of this; then each best plan that improves on the best here is
            offered here, and which planner is at work is reported. Without it nothing is.
        """
        inner = replace(self, problem=question, time_limit_s=self.remaining_s, gap=0.0, on_progress=ignore)
        least_s = math.inf

        def report(step: Progress, plan: Plan | None) -> None:
            nonlocal least_s
            self.member = step.member or self.member
            if step.note:
                self.begin(step.note)
            if plan is not None and taken_over is not None and inner.objective_s < least_s:
                least_s = inner.objective_s
                if least_s < self.objective_s:
                    self.offer(taken_over(plan))

        if taken_over is not None:
            inner.on_progress = report
        return inner

    def begin_with(self, plan: Plan) -> bool:
        """Offer a plan that was given to start from; whether it fits."""
        judged = judge(self.problem, plan)
        if judged.feasible:
            self.given.append((plan, judged))
            self._take(plan, judged)
        return judged.feasible

    @property
    def objective_s(self) -> float:
        """Objective of the best plan so far; inf without one."""
        return math.inf if self.judged is None else self.judged.objective_s

    def is_proved(self) -> bool:
        """Whether the best plan so far is proved optimal."""
        return self.best is not None and self.bound_s >= self.least_s * (1 - PROVED)

    @property
    def elapsed_s(self) -> float:
        """Seconds of searching."""
        return self.clock() - self.uncounted_s() - self.started_s

    @property
    def remaining_s(self) -> float:
        """Seconds until the time limit."""
        return self.time_limit_s - self.elapsed_s

    def check(self) -> None:
        """Raises Stop on cancel, at the time limit, or when the asked-for gap is reached."""
        if self.should_stop():
            raise Stop(StopReason.CANCELLED)
        if self.remaining_s <= 0:
            raise Stop(StopReason.TIME_LIMIT)
        if self.gap > 0 and self.best is not None and self.bound_s >= self.objective_s * (1 - self.gap):
            raise Stop(StopReason.FINISHED)

    def offer(self, plan: Plan) -> float:
        """Judge a plan, and store it if it is the best that fits.

        The best has the least objective, and among those within TIED of that the lowest peak memory, then the fewest
        devices, then the fewest cut bytes.

        Returns its objective in seconds, inf if it breaks a rule (a memory cap, a pin, an operator that cannot run
        where it is placed).
        """
        judged = judge(self.problem, plan)
        if not judged.feasible:
            return math.inf
        self._take(plan, judged)
        return judged.objective_s

    def _take(self, plan: Plan, judged: Judged) -> None:
        """Keep a plan that fits, if it is the best or worth offering beside it."""
        self.least_s = min(self.least_s, judged.objective_s)
        self.front.add(plan, judged.objective_s, judged.peak_bytes)
        if self.finalists is not None:
            self.finalists.add(plan, judged.objective_s, judged.peak_bytes)
        if self._for is not None:
            self._for._take(plan, judged)
        if self._is_best(plan, judged):
            self.best, self.judged = plan, judged
            self._report("")

    def _is_best(self, plan: Plan, judged: Judged) -> bool:
        if self.best is None or self.judged is None:
            return True
        most_s = self.least_s * (1 + TIED)
        if judged.objective_s > most_s or self.judged.objective_s > most_s:
            return judged.objective_s < self.judged.objective_s
        if judged.peak_bytes != self.judged.peak_bytes:
            return judged.peak_bytes < self.judged.peak_bytes
        devices = len(plan.devices_used()) - len(self.best.devices_used())
        return devices < 0 or (devices == 0 and cut_bytes(self.problem, plan) < cut_bytes(self.problem, self.best))

    def raise_bound(self, bound_s: float) -> None:
        """Record a proved lower bound on the objective, in seconds."""
        if self._for is not None:
            self._for.raise_bound(bound_s)
        if bound_s > self.bound_s:
            self.bound_s = min(bound_s, self.least_s)
            self._report("")

    def prove_infeasible(self, why: str) -> None:
        """Record a proof that no plan exists; ``why`` is one sentence for people."""
        self.infeasible = why
        if self._for is not None:
            self._for.prove_infeasible(why)

    def note(self, text: str) -> None:
        """Note something worth reading beside the result (a fallback taken, a limit met), once."""
        if text not in self.notes:
            self.notes.append(text)
            if self._for is not None:
                self._for.note(text)
            self._report(text)

    def begin(self, text: str) -> None:
        """Report what the search turns to next; shown while it lasts, not kept with the result."""
        if self._for is not None:
            self._for.begin(text)
        self._report(text)

    def _report(self, text: str) -> None:
        step = Progress(self.elapsed_s, self.objective_s, self.bound_s, text, self.member)
        self.trace.append(step)
        self.on_progress(step, self.best)


@contextmanager
def also_checking(monitor: Monitor, look: Callable[[], None]) -> Iterator[None]:
    """While this lasts, every check looks first, which may raise."""
    before = monitor.should_stop

    def should_stop() -> bool:
        look()
        return before()

    monitor.should_stop = should_stop
    try:
        yield
    finally:
        monitor.should_stop = before


@contextmanager
def at_most(monitor: Monitor, checks: int) -> Iterator[None]:
    """Within this context `check` raises Stop (STATE_LIMIT) after so many calls.

    A limit of work, for a search that calls it after equal pieces of work.
    """
    left = checks

    def look() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stop(StopReason.STATE_LIMIT)

    with also_checking(monitor, look):
        yield
