"""Ask many questions of a Ray cluster: one job over the Ray Jobs REST API, whose answers are read out of its log.

Nothing of Ray is needed here. A job that was left behind, when whoever asked was killed, is found again by its name,
and so are the answers that it gave meanwhile.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from explorer.runner.bundles.words import one_line
from explorer.runner.targets.ray_http import Stopped, Unreachable, server_of
from explorer.runner.targets.ray_jobs import ENVIRONMENT, MAX_WORDS, JobReport, JobStatus, RayJobs
from explorer.runner.targets.ray_package import code, package_of
from explorer.runner.targets.target_file import RaySetup
from explorer.sweeps.execution.job_text import SHEET, AnswerLog, Sheet, make_sheet
from explorer.sweeps.execution.order import Order
from explorer.sweeps.execution.questions import FAILED, Answer, Question, read_answer, refused, start_text
from explorer.sweeps.execution.queue import Answered, Answers, AnswerStore, Course
from solvers.errors import InvalidProblem, PlacementError, RunError
from solvers.search.monitor import never

MOST_JOBS = 1_000
"""Of one sweep that was interrupted again and again."""
SHARE = 5
"""A log is fetched whole each time: between two times passes this many times of what one takes."""


class Interrupted(RunError):
    """The cluster was lost in the middle; what came from it is there."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster to ask. most: questions at a time; 0: one a core. owner: who asks, as a text: jobs of another one are
    left alone. resume: whether jobs that were left behind are gone on with. patience_s: one that does not answer for so
    long has vanished."""

    setup: RaySetup
    token: str = field(default="", repr=False)
    most: int = 0
    owner: str = ""
    resume: bool = True
    patience_s: float = 30.0
    poll_s: float = 0.3


def ask_cluster(
    cluster: Cluster,
    count: int,
    before: Callable[[int], Sequence[int]],
    question: Callable[[int], Question],
    library: AnswerStore,
    *,
    should_stop: Callable[[], bool] = never,
    on_course: Callable[[Course], None] = lambda _: None,
) -> Iterator[Answered]:
    """As `ask_all`, on a cluster; answers are verified here and kept before anybody gets them. When
    ``should_stop`` turns true, the job is stopped, and what it was at is given up.

    Raises RunError where the cluster cannot be asked at all, and Interrupted where it was lost in the middle.
    """
    answers = _ClusterAnswers(Order(count, before), library)
    jobs = RayJobs(server_of(cluster.setup, cluster.token), never)
    yield from answers.without_cluster(question, should_stop)
    if not len(answers.order) or should_stop():
        return
    questions = [answers.sent.get(position) for position in range(count)]
    for position in range(count):
        if position not in answers.sent and position not in answers.plans:
            try:
                questions[position] = answers.sent[position] = question(position)
            except InvalidProblem as error:
                answers.invalid[position] = refused(error)
    starts = {at: start_text(plan) if plan else "" for at, plan in answers.plans.items()}
    sheet = make_sheet(questions, before, starts | dict.fromkeys(answers.invalid, ""))
    job = _Job(cluster, jobs, sheet, answers, should_stop, on_course)
    yield from job.all()


class _ClusterAnswers(Answers):
    """And what can be asked of a cluster."""

    def __init__(self, order: Order, library: AnswerStore) -> None:
        super().__init__(order, library)
        self.sent: dict[int, Question] = {}
        self.invalid: dict[int, Answer] = {}
        """Nothing can be asked there; reported when its turn comes."""
        self._turn: set[int] = set()

    def without_cluster(
        self, question: Callable[[int], Question], should_stop: Callable[[], bool]
    ) -> Iterator[Answered]:
        """What is known without the cluster, as far as what follows from it."""
        while not should_stop() and (position := self.order.next()) is not None:
            self._turn.add(position)
            try:
                sent = self.sent[position] = question(position)
            except InvalidProblem as error:
                yield self.add(position, refused(error))
                continue
            if (known := self.known(position, sent)) is not None:
                yield known

    def take(self, position: int, text: str) -> Iterator[Answered]:
        """An answer of the cluster, if it is a new one; and what is known now."""
        if position in self.plans:
            return
        question = self.sent.get(position)
        if question is None or position not in self._turn:
            raise RunError(f"the cluster answers what nobody asked (position {position})")
        try:
            answer = read_answer(text, question.problem)
        except PlacementError as error:
            answer = Answer(FAILED, reason=f"the cluster's answer cannot be used: {error}")
        yield self.add_new(position, question, answer)
        while (following := self.order.next()) is not None:
            self._turn.add(following)
            if following in self.invalid:
                yield self.add(following, self.invalid[following])


class _Job:
    """The jobs of one sweep, one after the other: those that were left behind, and one of our own."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: RayJobs,
        sheet: Sheet,
        answers: _ClusterAnswers,
        should_stop: Callable[[], bool],
        on_course: Callable[[Course], None],
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._sheet = sheet
        self._answers = answers
        self._should_stop = should_stop
        self._on_course = on_course
        self._submitted = False
        owner = hashlib.sha256(cluster.owner.encode()).hexdigest()[:8]
        self._name = f"placement-explorer-sweep-{sheet.name}-{owner}"

    def all(self) -> Iterator[Answered]:
        self._jobs.version()
        number = 1
        while len(self._answers.order) and not self._should_stop():
            name = f"{self._name}-{number}"
            if number > MOST_JOBS:
                raise RunError(f"there are {MOST_JOBS:,} jobs of this sweep on the cluster already")
            if not self._jobs.has_job(name):
                if self._submitted:
                    return
                self._submit(name)
                self._submitted = True
            elif not self._cluster.resume:
                number += 1
                continue
            yield from self._follow(name)
            number += 1

    def _submit(self, name: str) -> None:
        setup, most = self._cluster.setup, self._cluster.most
        questions = package_of([(SHEET, self._sheet.text().encode())], "the questions make")
        modules = None if setup.installed else package_of(code(), "the program makes")
        for package in filter(None, (questions, modules)):
            self._jobs.upload(package)
        words = [
            setup.python,
            "-m",
            "explorer.sweeps.execution.ray_driver",
            "--most",
            str(most),
            "--code",
            self._sheet.code,
        ]
        environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
        entrypoint = "exec " + shlex.join(words)
        self._jobs.submit(name, entrypoint, questions.name, environment, "" if modules is None else modules.name)

    def _follow(self, name: str) -> Iterator[Answered]:
        """Until it has ended. Raises RunError if it gave nothing, and Interrupted if it ended before its time."""
        log = AnswerLog()
        had, times = len(self._answers), self._cluster
        jobs = replace(self._jobs, should_stop=self._should_stop)
        try:
            for report in jobs.follow(name, poll_s=times.poll_s, patience_s=times.patience_s, share=SHARE):
                for position, answer in log.feed(report.log, ended=report.ended):
                    yield from self._answers.take(position, answer)
                self._show(log)
        except Stopped:  # what it printed until then counts
            self._jobs.end(name)
            for position, answer in log.feed(self._jobs.last_log(name), ended=True):
                yield from self._answers.take(position, answer)
            return
        except BaseException as error:  # of whoever listens, too: nothing of it may go on without them
            self._jobs.end(name)
            if isinstance(error, Unreachable):
                raise Interrupted(f"the cluster vanished: {error}; the job {name} may still run there") from None
            raise
        self._judge(name, log, report, len(self._answers) > had)

    def _judge(self, name: str, log: AnswerLog, report: JobReport, gave: bool) -> None:
        if not len(self._answers.order) or not self._submitted:
            return  # of one that was left behind: what it did not answer is asked again
        reason = log.refusal or f"its last words: {log.last or one_line(report.message, MAX_WORDS)}"
        if "No module named" in reason and self._cluster.setup.installed:
            reason += " (another version is installed there; leave out installed in the target's settings to send ours)"
        if report.status is JobStatus.STOPPED:
            reason = "somebody stopped it"
        kind = Interrupted if gave else RunError
        raise kind(f"target {self._cluster.setup.name}: the job {name} ended without all answers: {reason}")

    def _show(self, log: AnswerLog) -> None:
        running = tuple(position for position in log.running if position not in self._answers.plans)
        self._on_course(Course(len(self._answers), self._answers.cached, running))
