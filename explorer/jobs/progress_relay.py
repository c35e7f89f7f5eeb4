"""When a search's steps and plans are reported: often enough to watch, seldom enough not to slow it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from solvers.plan.plan import Plan
from solvers.plan.result import Progress

REDRAW_S = 0.25
"""Steps are reported at most this often; the last one always arrives with the result."""
SOON_S = 0.2
"""Before this, what a planner turns to next is likely over before its incumbent is drawn."""
DRAWING = 0.1
"""Share of the search's time that may go into its pictures: a large plan is drawn more rarely,"""
LONGEST_S = 3.0
"""but at least this often."""

Report = Callable[[Progress, Plan | None, Sequence[Progress]], None]
"""Reports a step, the plan if it is a new one, and the steps since the last one reported."""


@dataclass
class ProgressRelay:
    """Passes on the progress of one search. A plan that came too soon after another is reported by the next
    `poll`, which the search calls many times a second, unless a better one comes first.

    clock counts seconds, effort seconds of work of this thread: another process on the same core is no
    reason to draw more rarely.
    """

    report: Report
    clock: Callable[[], float] = time.perf_counter
    effort: Callable[[], float] = time.thread_time
    _again_at: float = field(init=False)
    _since: list[Progress] = field(init=False, default_factory=list)
    _latest: tuple[Progress, Plan | None] | None = field(init=False, default=None)
    _shown: Plan | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._again_at = self.clock() + REDRAW_S

    def step(self, progress: Progress, plan: Plan | None) -> None:
        """A step of the search, and its best plan so far."""
        if self._latest is not None:
            self._since.append(self._latest[0])
        self._latest = (progress, plan)
        if self.clock() >= self._again_at:
            self._pass_on(plan)
        elif progress.note and progress.elapsed_s >= SOON_S:
            self.report(progress, None, tuple(self._since))
            self._since.clear()
            self._latest = (progress, plan) if plan is not self._shown else None

    def poll(self) -> None:
        """Tell what waits, if it is time."""
        if self._latest is not None and self.clock() >= self._again_at:
            self._pass_on(self._latest[1])

    def flush(self) -> None:
        """Tell what waits."""
        if self._latest is not None:
            self._pass_on(self._latest[1])

    def _pass_on(self, plan: Plan | None) -> None:
        assert self._latest is not None
        fresh = plan if plan is not self._shown else None
        began = self.effort()
        self.report(self._latest[0], fresh, tuple(self._since))
        spent = self.effort() - began
        self._since.clear()
        self._latest, self._shown = None, plan
        self._again_at = self.clock() + min(LONGEST_S, max(REDRAW_S, spent / DRAWING))
