"""What is asked of workers, those that solve and the one that runs, and how they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from explorer.question.packing import PackedProblem
from explorer.question.settings import Settings
from explorer.view.events import Event
from explorer.view.graph.palette import Theme
from solvers.problem.problem import Contiguity
from solvers.search.effort import Effort
from solvers.search.planner import Planner

Emit = Callable[[Event], None]
Work = Callable[..., None]
"""A kind of job: (request, emit an event, asked to stop?)."""


SEARCH, RUN, READ = "search", "run", "read"
"""Workers: those that solve, the one that runs plans, the one that reads files."""
UPLOAD_BYTES = 128 * 2**20
"""Of one file. The largest workload of the field is 9 MB; exported on the meta device a model has no weights."""
MAX_OPERATORS = 50_000
"""Of a graph that a page can show and plan without making everybody wait."""
READ_BYTES = 4 * 2**30
"""Memory of the process that reads."""
READ_S = 60.0
"""A file that takes longer is given up."""


class Request:
    """What a worker can be asked: one of those below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of files that take the place of settings, "" for none. profile: measured costs; cluster: devices and
    links, or the name of a cluster; times: operator times. Whoever solves reads them: they are data from outside."""

    profile: str = ""
    cluster: str = ""
    times: str = ""


@dataclass(frozen=True, slots=True)
class SolveRequest(Request):
    """Plan ``model`` under ``settings``. seed and effort: as for `solvers.planners.solve.solve`. before: the name of
    the plan on the page, which is shown first. fresh: search, even where the library knows the answer. first_only: end
    with the first plan, without an answer, if that takes a moment."""

    model: str
    settings: Settings
    planner: str = "auto"
    time_limit_s: float = 10.0
    seed: int = 0
    effort: Effort = Effort.NORMAL
    files: Files = Files()
    before: str = ""
    fresh: bool = False
    first_only: bool = False


@dataclass(frozen=True, slots=True)
class AskRequest(Request):
    """Solve a problem that the asking program made itself, see `explorer.question.packing`. reference: of its model;
    before: the name of the plan that is shown, which is shown first; explain: whether the smallest cap that fits is
    looked for where none does; the rest: as in SolveRequest."""

    question: PackedProblem
    reference: str
    planner: Planner | str = "auto"
    time_limit_s: float = 60.0
    seed: int = 0
    effort: Effort = Effort.NORMAL
    before: str = ""
    fresh: bool = False
    explain: bool = True


@dataclass(frozen=True, slots=True)
class ReadRequest(Request):
    """Look at the file at ``path``, which people know as ``name``."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class PlaceRequest(Request):
    """Judge the placement in the file at ``path``, known as ``name``, under ``settings`` of ``model``."""

    model: str
    settings: Settings
    path: str
    name: str
    files: Files = Files()


@dataclass(frozen=True, slots=True)
class CompareRequest(Request):
    """Run ``planners`` (none: every one that makes sense) on ``model`` under ``settings``, each for at
    most time_limit_s and for each of ``contiguities`` (none: that of the settings). seed and effort: as in
    SolveRequest."""

    model: str
    settings: Settings
    planners: tuple[str, ...] = ()
    contiguities: tuple[Contiguity, ...] = ()
    time_limit_s: float = 10.0
    seed: int = 0
    effort: Effort = Effort.NORMAL
    files: Files = Files()


@dataclass(frozen=True, slots=True)
class PrepareRequest(Request):
    """The file of a plan, and what there is to say before it runs on ``target``. held: the name of a plan that
    the worker holds (`explorer.jobs.held_plans`). text: the packed file, if it is known already."""

    held: str
    target: str
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class RunPlanRequest(Request):
    """Run a plan on ``target``. held: the plan's name in requests; text: its packed file. steps, verify and
    allow_model: as in `explorer.runner.bundles.request.RunRequest`; the rest is as the target says."""

    held: str
    text: bytes
    target: str
    steps: int = 5
    verify: bool = False
    allow_model: bool = False


@dataclass(frozen=True, slots=True)
class ShowRunRequest(Request):
    """A past run again. bundle: the name of its folder among the runs that are kept."""

    bundle: str


@dataclass(frozen=True, slots=True)
class ReplanRequest(Request):
    """Measure operators and links on ``target``, then plan again with what was measured. held and text: of the
    plan that is to be improved; the rest: what was asked when it was made."""

    held: str
    text: bytes
    target: str
    model: str
    settings: Settings
    planner: str
    time_limit_s: float
    seed: int = 0
    allow_model: bool = False
    effort: Effort = Effort.NORMAL


@dataclass(frozen=True, slots=True)
class PlanSource:
    """Where a plan is: held by the solving worker under a name, in a file that was handed in (its path), or as the
    packed text of a file. What is given first counts."""

    text: bytes | None = None
    path: str = ""
    held: str = ""

    @property
    def known(self) -> bool:
        return bool(self.text or self.path or self.held)


@dataclass(frozen=True, slots=True)
class ExportRequest(Request):
    """Write a plan in a format (`explorer.exports.formats.FORMATS`), a picture in a theme. nearest: of a launcher,
    snap cuts to module boundaries where it has no others."""

    plan: PlanSource
    to: str
    theme: Theme = "light"
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class ReviewRequest(Request):
    """Look a plan over."""

    plan: PlanSource


@dataclass(frozen=True, slots=True)
class LeanRequest(Request):
    """The view of a plan that was found beside an answer: of its ``front``, the one at this position."""

    plan: PlanSource
    position: int


@dataclass(frozen=True, slots=True)
class HelpRequest(Request):
    """Answer the question that a plan answers with one thing changed, each change in turn. most_devices: what a page
    can ask for."""

    search: SolveRequest
    plan: PlanSource
    most_devices: int


@dataclass(frozen=True, slots=True)
class RemedyRequest(Request):
    """Look for remedies for a question that has no plan. most_devices: what a page can ask for."""

    search: SolveRequest
    most_devices: int


@dataclass(frozen=True, slots=True)
class WhyHereRequest(Request):
    """What it would cost to have these operators of a plan, positions in its graph, at every other place."""

    plan: PlanSource
    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SweepRequest(Request):
    """Answer a question at several values of one axis, see `explorer.sweeps.points`."""

    search: SolveRequest
    axis: str


@dataclass(frozen=True, slots=True)
class DifferRequest(Request):
    """How the second plan differs from the first."""

    first: PlanSource
    second: PlanSource


@dataclass(frozen=True, slots=True)
class LayTracesRequest(Request):
    """Lay the traces in the file at ``path``, known as ``name``, over a plan."""

    plan: PlanSource
    path: str
    name: str


@dataclass(frozen=True, slots=True)
class HashRequest(Request):
    """The name of a plan: equal questions with equal answers have equal ones."""

    plan: PlanSource


class JobKind(NamedTuple):
    """name: see `explorer.jobs.job_kinds.KINDS`. brief: it ends by itself soon: nothing is killed when it is cancelled,
    and it does not wait behind searches. long: it is many searches: it leaves one worker to first plans, where there
    are several. workers: SEARCH, or RUN (which ends only with its processes), or READ."""

    name: str
    brief: bool = False
    long: bool = False
    workers: str = SEARCH


KIND_OF: Mapping[type[Request], JobKind] = {
    SolveRequest: JobKind("solve"),
    AskRequest: JobKind("ask"),
    PlaceRequest: JobKind("place"),
    CompareRequest: JobKind("compare", long=True),
    HelpRequest: JobKind("help", long=True),
    RemedyRequest: JobKind("remedy", long=True),
    SweepRequest: JobKind("sweep", long=True),
    PrepareRequest: JobKind("prepare", brief=True),
    ShowRunRequest: JobKind("show-run", brief=True),
    ExportRequest: JobKind("export", brief=True),
    ReviewRequest: JobKind("review", brief=True),
    LeanRequest: JobKind("lean", brief=True),
    DifferRequest: JobKind("differ", brief=True),
    HashRequest: JobKind("hash", brief=True),
    WhyHereRequest: JobKind("why-here", brief=True),
    RunPlanRequest: JobKind("run", workers=RUN),
    ReplanRequest: JobKind("replan", workers=RUN),
    ReadRequest: JobKind("read", workers=READ),
    LayTracesRequest: JobKind("lay-traces", workers=READ),
}
"""What a worker makes of each request."""
