"""Which worker does which job, and when another worker is worth starting. No processes here: `jobs` has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from explorer.jobs.workers.fair_queue import FairQueue
from explorer.jobs.workers.job import Job, JobWorker
from explorer.jobs.workers.needs import model_of, plans_of


@dataclass(eq=False)
class Scheduler:
    """Workers and the jobs that wait for them.

    most: workers that search.
    interactive: whether one more is for brief jobs where all others are at searches.
    idle: workers that search which are started before any job needs them.
    """

    most: int = 1
    interactive: bool = False
    workers: list[JobWorker] = field(default_factory=list)
    queue: FairQueue = field(default_factory=FairQueue)
    idle: int = 0

    @property
    def searching(self) -> list[JobWorker]:
        """Those that are not for brief jobs only."""
        return [worker for worker in self.workers if not worker.brief_only]

    def line(self) -> list[Job]:
        """The jobs that wait, in the order in which they would be taken."""
        at_work = (worker.task for worker in self.workers)
        return self.queue.order(Counter(job.visitor for job in at_work if job is not None and not job.brief))

    def next(self) -> tuple[Job, JobWorker] | None:
        """A job whose turn it is and the worker to do it; None if none can begin."""
        free = [worker for worker in self.workers if worker.free()]
        if not free:
            return None
        for job in self.line():
            worker = self._worker_for(job, free)
            if worker is not None:
                return job, worker
        return None

    def lacks(self) -> str:
        """Which worker is worth starting now: "searching", "brief" or "". One at a time: the first has kernels to
        compile, which those after it find on disk."""
        if not all(worker.ready for worker in self.workers):
            return ""
        if len(self.searching) < min(self.idle, self.most):
            return "searching"
        if not self.queue:
            return ""
        line = self.line()
        waiting = sum(not job.brief and not self._has_to_wait(job) for job in line)
        soon = sum(worker.ends() for worker in self.searching)
        if not self.searching or (waiting > soon and len(self.searching) < self.most):
            return "searching"
        has_interactive = len(self.searching) < len(self.workers)
        return (
            "brief" if self.interactive and not has_interactive and not soon and any(job.brief for job in line) else ""
        )

    def places(self) -> list[tuple[Job, int]]:
        """How many come before each job that waits, one that is being done among them where all workers are busy."""
        searching = self.searching
        busy = bool(searching) and all(worker.task is not None and not worker.ends() for worker in searching)
        return [(job, place + (busy or self._has_to_wait(job))) for place, job in enumerate(self.line())]

    def _worker_for(self, job: Job, free: list[JobWorker]) -> JobWorker | None:
        """The free worker that knows most of what a job is about; None if it had better wait."""
        able = [worker for worker in free if job.brief or not worker.brief_only]
        if not able or self._has_to_wait(job):
            return None
        model, plans = model_of(job.request), set(plans_of(job.request))
        best = max(
            able, key=lambda worker: (model in worker.models, len(plans.intersection(worker.plans)), worker.brief_only)
        )
        if model and model not in best.models and any(other.ends() and model in other.models for other in self.workers):
            return None  # that worker is free in a moment
        return best

    def _has_to_wait(self, job: Job) -> bool:
        """Whether what takes long would leave no worker to first plans."""
        going = sum(worker.task is not None and worker.task.long for worker in self.workers)
        return job.long and going >= max(1, self.most - 1)
