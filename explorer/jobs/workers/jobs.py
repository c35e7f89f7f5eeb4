"""Trace, solve and compare as kinds of job in warm worker processes: start, progress, cancel, result.

The process that starts jobs never imports torch. A worker does one job at a time; those that wait do so here, so that
nothing that happens to one job (a cancel that is not heeded, a deadline, a crash) ends another.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from explorer.jobs.workers import deadlines
from explorer.jobs.workers.alarms import Alarms
from explorer.jobs.workers.crew import Crew
from explorer.jobs.workers.job import Event, Hand, Job, OnEvent, new_hand
from explorer.jobs.workers.kits import ORDERLY_S, SOLVING, Kit
from explorer.jobs.workers.needs import model_of, plans_of
from explorer.jobs.workers.plans import Plans
from explorer.jobs.workers.turns import Turns
from explorer.view import events
from explorer.words import text

MOST_TRIES = 2
"""How often a job that never began is given to a worker."""
MOST_STILLBORN = 2
"""Workers in a row that end before they can begin: then it is told rather than tried again, or where another worker is
there for those who wait, tried again after REST_S."""
REST_S = 15.0
WORKED, MOST_PATIENCE = 0.5, 3.0
"""A worker that got less than this share of its time to heed a cancel has up to so many times as long."""
SIGNS = ("model", "row", "part")

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Jobs:
    """Worker processes of one kit and the jobs they were given.

    The first worker starts with the first job, or `warm`; others, up to ``most``, while a job waits, and never before
    the first has loaded its kernels: what it has to compile, it compiles once. desk: whether one more is started for
    brief jobs where all others are at searches. on_event of a job is called from threads of this object's, one event
    after the other; every job ends with exactly one of `events.LAST`.
    """

    kit: Kit = SOLVING
    most: int = 1
    desk: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _jobs: dict[str, Job] = field(default_factory=dict)
    _plans: Plans = field(default_factory=Plans)
    _crew: Crew = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _alarms: Alarms = field(default_factory=Alarms)
    _stillborn: int = 0
    _resting: bool = False
    _closed: bool = False

    def __post_init__(self) -> None:
        self._crew = Crew(self.most, self.desk)

    def start(self, kind: str, request: Any, on_event: OnEvent, visitor: str = "") -> str:
        """Queue a job; returns its id. kind is a name of `explorer.jobs.job_kinds.KINDS`. visitor: who asks: those who
        wait are served in turn."""
        with self._lock:
            if self._closed:
                raise RuntimeError("these jobs were closed")
            job = Job(f"job{next(self._numbers)}", kind, request, on_event, visitor)
            self._jobs[job.identifier] = job
            self._crew.turns.add(job)
            self._serve()
        self._tell_places()
        return job.identifier

    def cancel(self, identifier: str) -> None:
        """Ask a job to stop; it still reports its best plan. One that waits ends at once. Unknown ids are ignored."""
        with self._lock:
            job = self._jobs.get(identifier)
            if job is None:
                return
            hand = job.hand
            if job.cancelled:
                return
            if hand is None:
                self._crew.turns.remove(job)
                del self._jobs[identifier]
            else:
                job.cancelled = True
                hand.send("cancel", identifier)
                if not job.brief:
                    self._kill_later(job, hand)
        if hand is None:
            self._pass_on(job, events.failed("the job was cancelled before it began"))
        self._tell_places()

    def warm(self) -> None:
        """Start the first worker now, so that the first job does not wait for it."""
        with self._lock:
            if not self._crew.hands and not self._closed:
                self._start()

    def close(self) -> None:
        """End the workers; running jobs report ``failed``."""
        with self._lock:
            self._closed = True
            hands, self._crew.hands = self._crew.hands, []
        for hand in hands:
            if self.kit.orderly:
                hand.send("close")  # a read on it goes on elsewhere: closing alone would not be noticed
        for hand in hands:
            if self.kit.orderly:
                hand.process.join(ORDERLY_S)
            with suppress(OSError):
                hand.connection.close()
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
        if lacks and not (self._resting and self._crew.searching):
            self._start(brief=lacks == "brief")

    def _give(self, job: Job, hand: Hand) -> None:
        self._crew.turns.take(job)
        job.hand, hand.job = hand, job
        job.tries, job.signs, job.signed_s = job.tries + 1, 0, time.monotonic()
        plans = {
            name: plan
            for name in plans_of(job.request)
            if name not in hand.plans and (plan := self._plans.get(name)) is not None
        }
        hand.plans.extend(plans)
        hand.send("start", job.identifier, job.kind, job.request, plans)
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
            except (EOFError, OSError, TypeError):  # TypeError: closed by another thread while it is being read
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
                    hand.ready, self._stillborn = True, 0
                    self._serve()
                self._tell_places()
            case "over":
                self._over(hand)

    def _deliver(self, hand: Hand, identifier: str, event: Event) -> None:
        compiling = event["kind"] == "compiling"
        with self._lock:
            job = hand.job
            if job is None or job.identifier != identifier:
                first = not hand.ready and hand in self._crew.hands[:1]
                waiting = self._crew.line() if compiling and first else []
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
            if job is not None:
                self._jobs.pop(job.identifier, None)
            self._serve()
        if job is not None:
            self._pass_on(job, events.failed("the job was cancelled before it began"))
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
                self._stillborn += 1
                if self._stillborn >= MOST_STILLBORN:
                    self._stillborn = 0
                    if self._crew.searching:
                        self._resting = True
                        self._alarms.after(REST_S, self._rested)
                    else:
                        failed = self._crew.line()
            if job is not None:
                if job.heard or job.cancelled or job.tries >= MOST_TRIES:
                    failed.append(job)
                else:
                    job.hand = None
                    self._crew.turns.put_back(job)
            for one in failed:
                self._jobs.pop(one.identifier, None)
                if one in self._crew.turns:
                    self._crew.turns.remove(one)
            self._serve()
            if hand.ready and not self._crew.searching:
                self._start()  # the next question does not wait for it
        for one in failed:
            self._pass_on(one, events.failed(self._ended(hand.process.exitcode)))
        self._tell_places()

    def _rested(self) -> None:
        with self._lock:
            self._resting = False
            self._serve()

    def _let_go(self, hand: Hand) -> Job | None:
        """The worker does it no longer."""
        job, hand.job = hand.job, None
        if job is not None:
            self._alarms.forget(job.alarm)
        return job

    def _ended(self, code: int | None) -> str:
        maybe = f", maybe for want of memory: a worker may take {text.nbytes(self.kit.memory_bytes)}"
        why = maybe if code in (-6, -11) and self.kit.memory_bytes else ""
        return f"the {self.kit.verb} process ended unexpectedly (exit code {code}){why}"

    def _fail_all(self, message: str) -> None:
        with self._lock:
            jobs, self._jobs, self._crew.turns = list(self._jobs.values()), {}, Turns()
        for job in jobs:
            self._pass_on(job, events.failed(message))

    # -- what is told of a job --------------------------------------------------------------------------

    def _pass_on(self, job: Job, event: Event) -> None:
        with job.gate:
            if job.over:
                return
            if event["kind"] == "progress" and event["plan"] is not None:
                job.best = event
            if event["kind"] in events.LAST:
                job.over = True
                event = _last(job, event)
            _tell(job, event)

    def _tell_places(self) -> None:
        """To those who wait, how many come before them, where that has changed."""
        with self._lock:
            changed = [(job, before) for job, before in self._crew.places() if job.before != before]
            for job, before in changed:
                job.before = before
        for job, before in changed:
            with job.gate:
                if job.hand is None and not job.over and job.before == before:
                    _tell(job, events.waiting(before))

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


def _tell(job: Job, event: Event) -> None:
    """What goes wrong where it is heard is no reason not to hear the next."""
    try:
        job.on_event(event)
    except Exception:
        log.exception("an event could not be passed on")


def _last(job: Job, event: Event) -> Event:
    """The end of a job as it is told: with why it was ended from here, and with its best plan where that is known."""
    if event["kind"] == "failed":
        why = job.why or event["message"]
        if job.kind == "solve" and job.best is not None:
            return events.cut_off(job.best, "" if job.cancelled and not job.why else why)
        return events.failed(why)
    return {**event, "cut_off": job.why} if job.why else event
