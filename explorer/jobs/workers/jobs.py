"""Trace, solve and compare as kinds of job in warm worker processes: start, progress, cancel, result.

The process that starts jobs never imports torch. A worker does one job at a time; those that wait do so here, so that
nothing that happens to one job (a cancel that is not heeded, a deadline, a crash) ends another.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.jobs.workers import deadlines
from explorer.jobs.workers.alarms import Alarms
from explorer.jobs.workers.crew import Crew
from explorer.jobs.workers.job import Hand, Job, new_hand
from explorer.jobs.workers.kits import ORDERLY_S, SOLVING, Kit
from explorer.jobs.workers.listeners import Event, OnEvent
from explorer.jobs.workers.needs import alone, for_first_plan, model_of, plans_of, same_question
from explorer.jobs.workers.plans import Plans
from explorer.jobs.workers.turns import Turns
from explorer.view import events
from explorer.words import text

MOST_TRIES = 2
"""How often a job that never began is given to a worker."""
FAILED_STARTS = 8
"""Workers in a row that end while they start, after which jobs that wait fail, unless another worker is there for them.
"""
PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
"""Before the next start after a failed one: doubled with each in a row."""
WORKED, MOST_PATIENCE = 0.5, 3.0
"""A worker that got less than this share of its time to heed a cancel has up to so many times as long."""
CANCELLED = "the job was cancelled before it began"
SIGNS = ("model", "row", "part")


@dataclass(eq=False)
class Jobs:
    """Worker processes of one kit and the jobs they were given.

    The first worker starts with the first job, or `warm`; others, up to ``most``, while a job waits, and never before
    the first has loaded its kernels: what it has to compile, it compiles once. desk: whether one more is started for
    brief jobs where all others are at searches. on_event of a job is called from threads of this object's, one event
    after the other; every job ends with exactly one of `events.LAST`. Whoever asks what is being searched already hears
    of that search. While others wait, a search is ended with its first plan, and made again, to its end, when all have
    one.
    """

    kit: Kit = SOLVING
    most: int = 1
    desk: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _jobs: dict[str, Job] = field(default_factory=dict)
    """By the id of everybody who waits for it."""
    _plans: Plans = field(default_factory=Plans)
    _crew: Crew = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _alarms: Alarms = field(default_factory=Alarms)
    _failed_starts: int = 0
    _pausing: bool = False
    _closed: bool = False

    def __post_init__(self) -> None:
        self._crew = Crew(self.most, self.desk)

    def start(self, kind: str, request: Any, on_event: OnEvent, visitor: str = "") -> str:
        """Queue a job; returns its id. kind is a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asks: those who
        wait are served in turn."""
        with self._lock:
            if self._closed:
                raise RuntimeError("these jobs were closed")
            name = f"job{next(self._numbers)}"
            job = self._same(request)
            if job is None:
                job = self._jobs[name] = Job(name, kind, request, on_event, visitor)
                self._crew.turns.add(job)
                self._serve()
            else:
                self._jobs[name] = job
                job.listeners.names.add(name)
        if job.identifier != name and not job.listeners.join(name, on_event):
            return self.start(kind, request, on_event, visitor)  # it has ended in the meantime
        self._tell_places()
        return name

    def _same(self, request: Any) -> Job | None:
        """The job that answers the same question, if everybody may hear of it: not one that shows a plan which another
        had before, unless it can be left out, for it has not begun."""
        for job in self._jobs.values():
            if job.cancelled or job.ended or not same_question(request, job.request):
                continue
            before = job.request.before
            if before in ("", request.before) or not (job.hand or job.improving):
                job.request = job.request if before == request.before else alone(job.request)
                return job
        return None

    def cancel(self, identifier: str) -> None:
        """Ask a job to stop; it still reports its best plan. One that waits ends at once. Unknown ids are ignored."""
        with self._lock:
            job = self._jobs.get(identifier)
            if job is None:
                return
            hand, shared = job.hand, len(job.listeners.names) > 1
            if job.cancelled:
                return
            if hand is None or shared:
                del self._jobs[identifier]
                job.listeners.names.discard(identifier)
            if shared:
                job.listeners.end(identifier, _last(job, events.failed(CANCELLED), cancelled=True))
                return
            job.cancelled = True
            if hand is None:
                self._crew.turns.remove(job)
            else:
                hand.send("cancel", job.identifier)
                if not job.brief:
                    self._kill_later(job, hand)
        if hand is None:
            self._pass_on(job, events.failed(CANCELLED))
        self._tell_places()

    def warm(self, workers: int = 1) -> None:
        """Start so many workers now, one after the other, and another for each that ends, so that no job waits for
        one to start."""
        with self._lock:
            self._crew.idle = workers
            self._serve()

    def close(self) -> None:
        """End the workers; running jobs report ``failed``."""
        with self._lock:
            self._closed = True
            hands, self._crew.hands = self._crew.hands, []
        for hand in hands:
            # Not closed from here: its reader could go on with a descriptor that is another worker's by then.
            hand.send("close")
        for hand in hands:
            if self.kit.orderly:
                hand.process.join(ORDERLY_S)
            hand.process.terminate()
        for hand in hands:
            hand.process.join(5)
        self._fail_all("the server is shutting down")

    # -- who does what ------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Give jobs that wait to workers that are free, in turn, and start another worker if that is not enough."""
        if self._closed:
            return
        while (found := self._crew.next()) is not None:
            self._give(*found)
        lacks = self._crew.lacks()
        if lacks and not self._pausing:
            self._start(brief=lacks == "brief")

    def _give(self, job: Job, hand: Hand) -> None:
        others = any(other is not job and not other.brief and not other.long for other in self._crew.line())
        short = for_first_plan(job.request) if others and not job.improving else None
        job.first_only = short is not None
        self._crew.turns.take(job)
        job.hand, hand.job = hand, job
        job.tries, job.signs, job.signed_s = job.tries + 1, 0, time.monotonic()
        plans = {
            name: plan
            for name in plans_of(job.request)
            if name not in hand.plans and (plan := self._plans.get(name)) is not None
        }
        hand.plans.extend(plans)
        hand.send("start", job.identifier, job.kind, short or job.request, plans)
        self._watch(job, hand)

    def _start(self, brief: bool = False) -> None:
        hand = new_hand(self.kit, brief)
        self._crew.hands.append(hand)
        threading.Thread(target=self._read, args=(hand,), name="placement-events", daemon=True).start()

    # -- what workers tell ----------------------------------------------------------------------------

    def _read(self, hand: Hand) -> None:
        while True:
            try:
                told = hand.connection.recv()
            except (EOFError, OSError):
                break
            self._hear(hand, *told)
        self._lost(hand)

    def _hear(self, hand: Hand, what: str, *told: Any) -> None:
        match what:
            case "event":
                self._deliver(hand, *told)
            case "held":
                name, plan = told
                with self._lock:
                    self._plans.keep(name, plan)
                    hand.plans.append(name)
            case "ready":
                with self._lock:
                    hand.ready, self._failed_starts = True, 0
                    self._serve()
                self._tell_places()
            case "over":
                self._over(hand)

    def _deliver(self, hand: Hand, identifier: str, event: Event) -> None:
        compiling = event["kind"] == "compiling"
        with self._lock:
            job = hand.job
            if job is None or (job.identifier != identifier and not (compiling and not identifier)):
                first = not hand.ready and hand in self._crew.hands[:1]
                waiting = self._crew.line() if compiling and first else []
            elif job.identifier != identifier:  # it waits for what its worker began to prepare before
                waiting = [job]
                job.compiling, job.signed_s = event["kernel"] != "", time.monotonic()
            else:
                waiting = [job]
                job.heard = True
                if compiling:
                    job.compiling, job.signed_s = event["kernel"] != "", time.monotonic()
                if event["kind"] in SIGNS:
                    job.signs, job.signed_s = job.signs + 1, time.monotonic()
                    self._watch(job, hand)
                job.ended = event["kind"] in events.LAST
                if event["kind"] == "model":
                    hand.models.add(model_of(job.request))
        for one in waiting:
            self._pass_on(one, event)

    def _over(self, hand: Hand) -> None:
        with self._lock:
            job = self._let_go(hand)
            again = job is not None and job.first_only and not job.ended and not job.cancelled
            if job is not None and again:
                job.hand, job.first_only, job.improving, job.heard, job.tries = None, False, True, False, 0
                self._crew.turns.add(job)
            elif job is not None:
                self._forget(job)
            self._serve()
        if job is not None and not again:
            self._pass_on(job, events.failed(CANCELLED))
        self._tell_places()

    def _lost(self, hand: Hand) -> None:
        """A worker is gone: the job that it had begun fails, and others are done by another worker."""
        hand.process.join(5)
        failed: list[Job] = []
        with self._lock:
            if self._closed:
                return
            if hand in self._crew.hands:
                self._crew.hands.remove(hand)
            job = self._let_go(hand)
            if not hand.ready:
                failed = self._failed_start()
            why = self._ended(hand)
            if job is not None:
                if job.heard or job.cancelled or job.tries >= MOST_TRIES:
                    failed.append(job)
                else:
                    job.hand = None
                    self._crew.turns.put_back(job)
            for one in failed:
                self._forget(one)
                if one in self._crew.turns:
                    self._crew.turns.remove(one)
            self._serve()
            if hand.ready and not self._crew.searching:
                self._start()  # the next question does not wait for it
        for one in failed:
            self._pass_on(one, events.failed(why))
        self._tell_places()

    def _failed_start(self) -> list[Job]:
        """A worker ended before it could begin: the next is started after a pause. Returns the jobs that are given up,
        after too many in a row."""
        self._failed_starts += 1
        self._pausing = True
        pause_s = PAUSE_S * 2.0 ** min(self._failed_starts - 1, FAILED_STARTS)
        self._alarms.after(min(LONGEST_PAUSE_S, pause_s), self._start_again)
        if self._failed_starts < FAILED_STARTS or self._crew.searching:
            return []
        self._crew.idle = 0  # the next question tries again
        return self._crew.line()

    def _start_again(self) -> None:
        with self._lock:
            self._pausing = False
            self._serve()

    def _forget(self, job: Job) -> None:
        """It is over."""
        for name in job.listeners.names:
            self._jobs.pop(name, None)

    def _let_go(self, hand: Hand) -> Job | None:
        """The worker does it no longer."""
        job, hand.job = hand.job, None
        if job is not None:
            self._alarms.forget(job.alarm)
        return job

    def _ended(self, hand: Hand) -> str:
        code = hand.process.exitcode
        maybe = f", maybe for want of memory: a worker may take {text.nbytes(self.kit.memory_bytes)}"
        why = maybe if code in (-6, -11) and self.kit.memory_bytes else ""
        how = "unexpectedly" if hand.ready else f"{self._failed_starts} times in a row while it started"
        return f"the {self.kit.verb} process ended {how} (exit code {code}){why}"

    def _fail_all(self, message: str) -> None:
        with self._lock:
            jobs, self._jobs, self._crew.turns = set(self._jobs.values()), {}, Turns()
        for job in jobs:
            self._pass_on(job, events.failed(message))

    # -- what is told of a job --------------------------------------------------------------------------

    def _pass_on(self, job: Job, event: Event) -> None:
        job.listeners.pass_on(_last(job, event) if event["kind"] in events.LAST else event)

    def _tell_places(self) -> None:
        """To those who wait, how many come before them and what else keeps them waiting, where that has changed."""
        with self._lock:
            trouble = self._failed_starts and not self._crew.searching
            why = f"the {self.kit.verb} process ended while it started; another is started" if trouble else ""
            changed = [(job, told) for job, before in self._crew.places() if job.waits != (told := (before, why))]
            for job, told in changed:
                job.waits = told
        for job, told in changed:
            job.listeners.pass_on(events.waiting(*told), partial(_waits, job, told))

    # -- what does not end by itself -----------------------------------------------------------------------

    def _watch(self, job: Job, hand: Hand) -> None:
        self._alarms.forget(job.alarm)
        seconds = deadlines.allowed_s(job)
        if seconds is not None:
            left_s = max(0.0, job.signed_s + seconds - time.monotonic())
            job.alarm = self._alarms.after(left_s, lambda: self._strike(job, hand))

    def _strike(self, job: Job, hand: Hand) -> None:
        """End a job that takes too long, unless it has shown that it gets on."""
        with self._lock:
            seconds = deadlines.allowed_s(job)
            if hand.job is not job or seconds is None:
                return
            if job.compiling:
                job.signed_s = time.monotonic()
            if job.signed_s + seconds > time.monotonic():
                self._watch(job, hand)
                return
            job.cancelled, job.why = True, job.why or deadlines.words(job, seconds)
            hand.send("cancel", job.identifier)
            self._kill_later(job, hand)

    def _kill_later(self, job: Job, hand: Hand, since: tuple[float, float] | None = None) -> None:
        """since: when the job was cancelled, as of time.monotonic, and the worker's seconds of work then."""
        asked = since or (time.monotonic(), hand.cpu_s())
        self._alarms.after(self.kit.heed_s, lambda: self._kill(job, hand, asked))

    def _kill(self, job: Job, hand: Hand, since: tuple[float, float]) -> None:
        """End the worker of a job that does not heed its cancel, if it still is at that. What it compiles heeds nothing
        until it is done; the next job would have to compile the same. One that others keep from the processor, on a
        busy machine, is given more time."""
        with self._lock:
            if hand.job is not job:
                return
            heed_s = self.kit.heed_s
            starved = not self.kit.orderly and hand.cpu_s() - since[1] < heed_s * WORKED
            if job.compiling:
                self._kill_later(job, hand)
            elif starved and time.monotonic() - since[0] < heed_s * MOST_PATIENCE:
                self._kill_later(job, hand, since)
            else:
                hand.process.kill()


def _waits(job: Job, told: tuple[int, str]) -> bool:
    return job.hand is None and job.waits == told


def _last(job: Job, event: Event, cancelled: bool = False) -> Event:
    """The end of a job as it is told: with why it was ended from here, and with its best plan where that is known."""
    if event["kind"] == "failed":
        why = job.why or event["message"]
        if job.kind == "solve" and job.listeners.best is not None:
            return events.cut_off(job.listeners.best, "" if (cancelled or job.cancelled) and not job.why else why)
        return events.failed(why)
    return {**event, "cut_off": job.why} if job.why else event
