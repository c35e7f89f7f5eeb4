"""Which worker does which job, and when another worker is worth starting. No processes here: `jobs` has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from explorer.jobs.workers.job import Hand, Job
from explorer.jobs.workers.needs import model_of, plans_of
from explorer.jobs.workers.turns import Turns


@dataclass(eq=False)
class Crew:
    """Workers and the jobs that wait for them. most: workers that search; desk: whether one more is for brief jobs
    where all others are at searches. idle: workers that search which are started before any job needs them."""

    most: int = 1
    desk: bool = False
    hands: list[Hand] = field(default_factory=list)
    turns: Turns = field(default_factory=Turns)
    idle: int = 0

    @property
    def searching(self) -> list[Hand]:
        """Those that are not for brief jobs only."""
        return [hand for hand in self.hands if not hand.brief]

    def line(self) -> list[Job]:
        """The jobs that wait, in the order in which they would be taken."""
        at_work = (hand.job for hand in self.hands)
        return self.turns.order(Counter(job.visitor for job in at_work if job is not None and not job.brief))

    def next(self) -> tuple[Job, Hand] | None:
        """A job whose turn it is and the worker to do it; None if none can begin."""
        free = [hand for hand in self.hands if hand.free()]
        if not free:
            return None
        for job in self.line():
            hand = self._hand_for(job, free)
            if hand is not None:
                return job, hand
        return None

    def lacks(self) -> str:
        """Which worker is worth starting now: "searching", "brief" or "". One at a time: the first has kernels to
        compile, which those after it find on disk."""
        if not all(hand.ready for hand in self.hands):
            return ""
        if len(self.searching) < min(self.idle, self.most):
            return "searching"
        if not self.turns:
            return ""
        line = self.line()
        waiting = sum(not job.brief and not self._has_to_wait(job) for job in line)
        soon = sum(hand.ends() for hand in self.searching)
        if not self.searching or (waiting > soon and len(self.searching) < self.most):
            return "searching"
        has_desk = len(self.searching) < len(self.hands)
        return "brief" if self.desk and not has_desk and not soon and any(job.brief for job in line) else ""

    def places(self) -> list[tuple[Job, int]]:
        """How many come before each job that waits, one that is being done among them where all workers are busy."""
        searching = self.searching
        busy = bool(searching) and all(hand.job is not None and not hand.ends() for hand in searching)
        return [(job, place + (busy or self._has_to_wait(job))) for place, job in enumerate(self.line())]

    def _hand_for(self, job: Job, free: list[Hand]) -> Hand | None:
        """The free worker that knows most of what a job is about; None if it had better wait."""
        able = [hand for hand in free if job.brief or not hand.brief]
        if not able or self._has_to_wait(job):
            return None
        model, plans = model_of(job.request), set(plans_of(job.request))
        best = max(able, key=lambda hand: (model in hand.models, len(plans.intersection(hand.plans)), hand.brief))
        if model and model not in best.models and any(h.ends() and model in h.models for h in self.hands):
            return None  # that worker is free in a moment
        return best

    def _has_to_wait(self, job: Job) -> bool:
        """Whether what takes long would leave no worker to first plans."""
        going = sum(hand.job is not None and hand.job.long for hand in self.hands)
        return job.long and going >= max(1, self.most - 1)
