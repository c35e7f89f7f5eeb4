"""Whose turn it is, which worker does which job, when another is worth starting, and how long a job may go on.

A turn: brief jobs first, then first plans, then better ones, then what is found out beside them; among equals the
visitor who has least at work, and of these the one whose turn was longest ago.

A job may go on without a sign of getting on for its own limit and a margin, and a limit for what comes before. Signs
are the model, a row of a comparison, an answer of several, and the end of a compilation, which nothing else can
interrupt. Whoever asked learns what took too long, and what to do.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

from explorer.jobs.requests import KIND_OF, READ_S, RUN, PlanSource
from explorer.jobs.workers.job import FIRST, IMPROVING, LATER, Job, JobWorker
from explorer.words import text

TRACE_S = 600.0
"""For tracing or reading a model."""
MARGIN_S = 120.0
"""For what a search does beyond its time limit: a large plan is checked, sent and drawn."""
BRIEF_S = 120.0
"""For a job that ends by itself soon."""
NEVER = {kind.name for kind in KIND_OF.values() if kind.workers == RUN}
"""Runs of plans have limits of their own, and everybody sees and can end them."""
MOST_PASSED = 8
"""A job that so many others were taken before, because they had the better rank, has that rank too."""


class FairQueue:
    """Jobs that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._served: dict[str, int] = {}
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, job: Job) -> bool:
        return job in self._waiting

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    def put_back(self, job: Job) -> None:
        """One that was taken and never begun."""
        self._waiting.insert(0, job)

    def remove(self, job: Job) -> None:
        self._waiting.remove(job)

    def take(self, job: Job) -> None:
        """It is its turn."""
        self._waiting.remove(job)
        for other in self._waiting:
            if _rank(other) > _rank(job) >= FIRST and not job.first_only:
                other.passed += 1
        if job.brief:
            return
        self._turn += 1
        self._served[job.visitor] = self._turn
        if len(self._served) > 4096:  # visitors that are long gone
            self._served = dict(sorted(self._served.items(), key=lambda one: one[1])[-1024:])

    def order(self, at_work: Mapping[str, int]) -> list[Job]:
        """Those that wait, as they would be taken if none other came. at_work: searches of each visitor that run."""
        ranked: dict[int, dict[str, deque[Job]]] = defaultdict(lambda: defaultdict(deque))
        for job in self._waiting:
            ranked[_rank(job)][job.visitor].append(job)
        counts, served, turn = Counter(at_work), dict(self._served), self._turn
        ordered: list[Job] = []
        for _, queues in sorted(ranked.items()):
            places = {visitor: place for place, visitor in enumerate(queues)}
            while queues:
                next_one = min(queues, key=lambda visitor: (counts[visitor], served.get(visitor, 0), places[visitor]))
                ordered.append(queues[next_one].popleft())
                if not queues[next_one]:
                    del queues[next_one]
                turn += 1
                counts[next_one] += 1
                served[next_one] = turn
        return ordered


def _rank(job: Job) -> int:
    if job.brief:
        return 0
    if job.long and job.passed < MOST_PASSED:
        return LATER
    return IMPROVING if job.improving else FIRST


@runtime_checkable
class Search(Protocol):
    """A question whose first plan can be shown before its answer: one search serves all who ask it. before: the name of
    the plan that is shown before its own; first_only: whether it ends with its first plan."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def before(self) -> str: ...
    @property
    def first_only(self) -> bool: ...


def model_of(request: object) -> str:
    """The model that it names, "" for none."""
    model = getattr(getattr(request, "search", request), "model", "")
    return model if isinstance(model, str) else ""


def for_first_plan(request: object) -> Search | None:
    """The same question, to be ended with its first plan; None for one that cannot be."""
    return replace(request, first_only=True) if isinstance(request, Search) else None


def alone(request: Search) -> Search:
    """A question without the plan that is shown before its own."""
    return replace(request, before="")


def plans_of(request: object) -> Iterator[str]:
    """Names of the plans that a worker has to hold for it."""
    if not is_dataclass(request):
        return
    for one in fields(request):
        value = getattr(request, one.name)
        if isinstance(value, PlanSource):
            if value.held and value.text is None and not value.path:
                yield value.held
        elif one.name in ("held", "before") and isinstance(value, str) and value:
            yield value


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


def allowed_s(job: Job) -> float | None:
    """Seconds until the next sign, or the end; None for as long as it likes."""
    if job.kind in NEVER:
        return None
    if job.kind == "read":
        return READ_S
    if job.brief:
        return BRIEF_S
    if not job.steps and model_of(job.request):
        return TRACE_S
    return _limit_s(job.request) + MARGIN_S


def words(job: Job, seconds: float) -> str:
    """What was stopped after ``seconds``, and what to do."""
    took = f"more than {text.seconds(seconds)}"
    if job.kind == "read":
        return f"not read: it takes {took}"
    if job.brief:
        return f"this took {took} and was stopped: ask it of a smaller plan, or on the command line"
    if not job.steps and model_of(job.request):
        return f"tracing this model took {took} and was stopped: export it to a .pt2 and open that"
    limit = text.seconds(_limit_s(job.request))
    less = "fewer micro-batches, devices or operators take less"
    return f"the search, with a time limit of {limit}, took {took} and was stopped: {less}"


def _limit_s(request: object) -> float:
    limit_s = getattr(getattr(request, "search", request), "time_limit_s", 0.0)
    return float(limit_s) if isinstance(limit_s, (int, float)) else 0.0
