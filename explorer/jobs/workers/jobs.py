"""Trace, solve and compare as kinds of job in warm worker processes: start, progress, cancel, result.

The process that starts jobs never imports torch. A worker does one job at a time; those that wait do so here, so that
nothing that happens to one job (a cancel that is not heeded, a deadline, a crash) ends another.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import cast

from explorer.jobs.workers import scheduler
from explorer.jobs.workers.job import Job, JobWorker, OnEvent
from explorer.jobs.workers.plans import Plans
from explorer.jobs.workers.scheduler import FairQueue, Scheduler, Search, alone, for_first_plan, model_of, plans_of
from explorer.jobs.workers.specs import SOLVING, WorkerSpec
from explorer.jobs.workers.worker import process_spec
from explorer.question.packing import PackedPlan
from explorer.view import events
from explorer.view.events import Event
from explorer.words import text
from solvers.programs.processes.pool import WorkerPool

CANCELLED = "the job was cancelled before it began"
STEPS = ("model", "row", "part")
"""Kinds of event that show that a job gets on."""


class Jobs(WorkerPool[Job, JobWorker]):
    """Worker processes of one kind and the jobs they were given.

    The first worker starts with the first job, or `warm`; others, up to ``most``, while a job waits, and never before
    the first has loaded its kernels: what it has to compile, it compiles once. interactive: whether one more is started
    for brief jobs where all others are at searches. on_event of a job is called from threads of this object's, one
    event after the other; every job ends with exactly one of `events.LAST`. A question that is being searched already
    joins that search. While others wait, a search is ended with its first plan, and made again, to its end, when all
    have one.
    """

    def __init__(self, kind: WorkerSpec = SOLVING, most: int = 1, interactive: bool = False) -> None:
        super().__init__(process_spec(kind))
        self._verb = kind.verb
        self._scheduler = Scheduler(most, interactive, self.workers)
        self._numbers = itertools.count(1)
        self._jobs: dict[str, Job] = {}
        """By the id of everybody who waits for it."""
        self._plans = Plans()

    def start(self, kind: str, request: object, on_event: OnEvent, visitor: str = "") -> str:
        """Queue a job; returns its id. kind is a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asks: those who
        wait are served in turn."""
        with self.lock:
            if self.closed:
                raise RuntimeError("these jobs were closed")
            name = f"job{next(self._numbers)}"
            job = self._same(request)
            if job is None:
                job = self._jobs[name] = Job(name, kind, request, on_event, visitor)
                self._scheduler.queue.add(job)
                self.serve()
            else:
                self._jobs[name] = job
                job.listeners.names.add(name)
        if job.identifier != name and not job.listeners.join(name, on_event):
            return self.start(kind, request, on_event, visitor)  # it has ended in the meantime
        self.changed()
        return name

    def _same(self, request: object) -> Job | None:
        """The job that answers the same question, if everybody may hear of it: not one that shows a plan which another
        had before, unless it can be left out, for it has not begun."""
        for job in self._jobs.values():
            running = job.request
            if not isinstance(request, Search) or not isinstance(running, Search):
                continue
            if job.cancelled or job.ended or type(request) is not type(running) or alone(request) != alone(running):
                continue
            if running.before in ("", request.before) or not (job.worker or job.improving):
                job.request = running if running.before == request.before else alone(running)
                return job
        return None

    def cancel(self, identifier: str) -> None:
        """Ask a job to stop; it still reports its best plan. One that waits ends at once. Unknown ids are ignored."""
        with self.lock:
            job = self._jobs.get(identifier)
            if job is None or job.cancelled:
                return
            worker, shared = job.worker, len(job.listeners.names) > 1
            if worker is None or shared:
                del self._jobs[identifier]
                job.listeners.names.discard(identifier)
            if shared:
                job.listeners.end(identifier, _last(job, events.failed(CANCELLED), cancelled=True))
                return
            if worker is None:
                job.cancelled = True
                self._scheduler.queue.remove(job)
            else:
                self.cancel_running(job, worker, kill=not job.brief)
        if worker is None:
            self._pass_on(job, events.failed(CANCELLED))
        self.changed()

    def warm(self, workers: int = 1) -> None:
        """Start so many workers now, one after the other, and another for each that ends, so that no job waits for
        one to start."""
        with self.lock:
            self._scheduler.idle = workers
            self.serve()

    def close(self) -> None:
        """End the workers; running jobs report ``failed``."""
        self.stop_workers()
        with self.lock:
            jobs, self._jobs, self._scheduler.queue = set(self._jobs.values()), {}, FairQueue()
        for job in jobs:
            self._pass_on(job, events.failed("the server is shutting down"))

    # -- who does what ------------------------------------------------------------------------------

    def next(self) -> tuple[Job, JobWorker] | None:
        begins = self._scheduler.next()
        if begins is not None:
            job = begins[0]
            others = any(other is not job and not other.brief and not other.long for other in self._scheduler.line())
            job.first_only = others and not job.improving and for_first_plan(job.request) is not None
            self._scheduler.queue.take(job)
        return begins

    def missing(self) -> JobWorker | None:
        lacks = self._scheduler.lacks()
        return JobWorker(brief_only=lacks == "brief") if lacks else None

    def payload(self, job: Job, worker: JobWorker) -> tuple[str, object, dict[str, PackedPlan]]:
        plans = {
            name: plan
            for name in plans_of(job.request)
            if name not in worker.plans and (plan := self._plans.get(name)) is not None
        }
        worker.plans.extend(plans)
        return job.kind, for_first_plan(job.request) if job.first_only else job.request, plans

    def wait_again(self, job: Job) -> None:
        self._scheduler.queue.put_back(job)

    def give_up(self) -> list[Job]:
        if self._scheduler.searching:
            return []
        self._scheduler.idle = 0  # the next question tries again
        waiting = self._scheduler.line()
        for job in waiting:
            self._scheduler.queue.remove(job)
        return waiting

    # -- what workers send ----------------------------------------------------------------------------

    def received(self, worker: JobWorker, kind: str, *content: object) -> None:
        match kind:
            case "event":
                self._deliver(worker, *cast("tuple[str, Event]", content))
            case "compiling":
                identifier, kernel, seconds = cast("tuple[str, str, float]", content)
                self._compiling(worker, identifier, events.compiling(kernel, seconds))
            case "held":
                name, plan = cast("tuple[str, PackedPlan]", content)
                with self.lock:
                    self._plans.put(name, plan)
                    worker.plans.append(name)

    def _deliver(self, worker: JobWorker, identifier: str, event: Event) -> None:
        with self.lock:
            job = worker.task
            if job is None or job.identifier != identifier:
                return
            job.begun = True
            if event["kind"] in STEPS:
                self.stepped(job, worker)
            job.ended = event["kind"] in events.LAST
            if event["kind"] == "model":
                worker.models.add(model_of(job.request))
        self._pass_on(job, event)

    def _compiling(self, worker: JobWorker, identifier: str, event: Event) -> None:
        """To whom it keeps waiting: the job of the worker, although it may have begun before that job was given to it;
        or all, while the first worker starts."""
        with self.lock:
            first = not worker.ready and worker in self.workers[:1]
            if worker.task is not None and identifier in ("", worker.task.identifier):
                waiting = [worker.task]
            else:
                waiting = self._scheduler.line() if first else []
        for job in waiting:
            self._pass_on(job, event)

    def again(self, job: Job) -> bool:
        if not job.first_only or job.ended or job.cancelled:
            return False
        job.first_only, job.improving, job.tries = False, True, 0
        self._scheduler.queue.add(job)
        return True

    def finished(self, job: Job) -> None:
        self._pass_on(job, events.failed(CANCELLED))

    def failed(self, job: Job, why: str) -> None:
        self._pass_on(job, events.failed(why))

    def forget(self, job: Job) -> None:
        for name in job.listeners.names:
            self._jobs.pop(name, None)

    def lost(self, worker: JobWorker) -> None:
        if worker.ready:
            self._scheduler.idle = max(1, self._scheduler.idle)  # the next question does not wait for another start

    def describe_end(self, worker: JobWorker, exit_code: int | None) -> str:
        limit = self.spec.memory_bytes
        maybe = f", maybe for want of memory: a worker may take {text.nbytes(limit)}"
        ended = f"the {self._verb} process {super().describe_end(worker, exit_code)}"
        return ended + (maybe if exit_code in (-6, -11) and limit else "")

    # -- what is reported of a job --------------------------------------------------------------------------

    def _pass_on(self, job: Job, event: Event) -> None:
        job.listeners.pass_on(_last(job, event) if event["kind"] in events.LAST else event)

    def changed(self) -> None:
        """Lets those who wait know how many come before them and what else keeps them waiting, where that changed."""
        with self.lock:
            trouble = self.failed_starts and not self._scheduler.searching
            why = f"the {self._verb} process ended while it started; another is started" if trouble else ""
            places = [(job, (before, why)) for job, before in self._scheduler.places()]
            changed = [(job, place) for job, place in places if job.waits != place]
            for job, place in changed:
                job.waits = place
        for job, place in changed:
            job.listeners.pass_on(events.waiting(*place), partial(_waits, job, place))

    # -- what does not end by itself -----------------------------------------------------------------------

    def allowed_s(self, job: Job) -> float | None:
        return scheduler.allowed_s(job)

    def too_long(self, job: Job, seconds: float) -> str:
        return scheduler.words(job, seconds)


def _waits(job: Job, place: tuple[int, str]) -> bool:
    return job.worker is None and job.waits == place


def _last(job: Job, event: Event, cancelled: bool = False) -> Event:
    """The end of a job as reported: with why it was cancelled from here, and with its best plan where that is known."""
    if event["kind"] == "failed":
        why = job.why or event["message"]
        best = job.listeners.best
        if job.kind == "solve" and best is not None and best["plan"] is not None:
            return events.cut_off(best, "" if (cancelled or job.cancelled) and not job.why else why)
        return events.failed(why)
    if job.why and event["kind"] == "result":
        return {**event, "cut_off": job.why}
    return {**event, "cut_off": job.why} if job.why and event["kind"] == "done" else event
