"""The state of one open page: what it asks, what is drawn on it, which jobs go on for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.jobs.requests import PlanSource, Request
from explorer.view.events import Event, ModelEvent, Prepared, ReplannedView, ResultEvent
from explorer.view.figures import Figures
from explorer.view.graph.elements import GraphView
from explorer.view.graph.node_data import NodeData
from explorer.view.graph.palette import Theme
from explorer.view.lessons.answering import Known
from explorer.view.lessons.lesson import Lesson
from explorer.view.plan_types import PlanView, Report, RunView, Skeleton, Step
from explorer.view.session import Look, RunOptions, Session
from explorer.view.timeline.gantt_rows import RowKind
from explorer.web.contract.messages import Outgoing, Status
from explorer.web.state.pairing import Comparing, Pairing
from explorer.web.state.server import Server

if TYPE_CHECKING:  # planners that a page does not load
    from explorer.jobs.answers import ChangeAnswer, Differing, WayOut
    from explorer.reviews.review import ReviewView
    from explorer.sweeps.sweep import RowView
    from explorer.sweeps.why_here import MoveRow

Listener = Callable[[Event], None]
"""What is done with an event of a job."""
RUNS = -1
"""The turn of what is sent to all pages about the server's one run."""


@dataclass
class Job:
    """listener: gets its events. id: the backend's, None where that does not know it. beside: whether it is about a
    plan, beside the search."""

    listener: Listener
    id: str | None = None
    beside: bool = False


@dataclass
class RunState:
    """What the page has of runs. shown: the one in the panel; laid: the last one that was measured, laid over the
    schedule while its own plan is on the page; checked: what was found of the plan on the page before it runs;
    checking and opening: turns of the jobs that look at that plan, or at a past run; wanted: what to run as soon as it
    is checked; postponed: a run that waits until somebody agrees, since the costs are of other hardware; agreed: plan
    and target of which somebody did; complaint: what did not happen, why, and the log until then; replanned: what a
    plan with measured costs was made to replace; stage and drawn_at: of the progress drawn last, and when."""

    target: str = ""
    shown: RunView | None = None
    laid: RunView | None = None
    checked: Prepared | None = None
    checking: int = 0
    opening: int = 0
    wanted: RunOptions | None = None
    postponed: RunOptions | None = None
    agreed: tuple[str, str] | None = None
    complaint: tuple[str, str, tuple[str, ...]] | None = None
    replanned: ReplannedView | None = None
    stage: tuple[float, str, bool] | None = None
    drawn_at: float = 0.0


@dataclass
class Changes:
    """Single changes that are tried. turn: of the job that goes on, or 0; of: how many will be answered, None before
    that is known; answers: so far. none: the result without a plan to which there are remedies, None where
    changes of a plan's question are tried."""

    turn: int = 0
    of: int | None = None
    answers: tuple[ChangeAnswer, ...] = ()
    ways: tuple[WayOut, ...] = ()
    none: ResultEvent | None = None


@dataclass(frozen=True)
class Pinning:
    """A pin that was set or taken, until the plan with it is there. words: what became of what; before: the question
    without it; objective_s: of its plan."""

    words: str
    before: Session
    objective_s: float


@dataclass
class SweepState:
    """turn: of the job that goes on, or 0; the rest: of the last sweep, words those of the values."""

    turn: int = 0
    axis: str = ""
    values: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    rows: tuple[RowView, ...] = ()


About = tuple[tuple[str, str], PlanSource]
"""What is selected, and the plan: an answer is shown for both or not at all."""


@dataclass
class Elsewhere:
    """What the selection would cost at other places. turn: of the job that goes on, or 0; about: what it is of; of: how
    many places there are; along: operators that have to come along; quick: whether the last answer was there at once;
    words: in place of the note."""

    turn: int = 0
    about: About | None = None
    of: int | None = None
    along: int = 0
    answers: tuple[MoveRow, ...] = ()
    words: str = ""
    quick: bool = False


@dataclass
class LessonState:
    """The step that is on, counted from 0. begun: the question that the page asked when the step began, once it has;
    then: figures of its plan; same_controls: whether the page left its controls as they were; answers_step: whether the
    plan on the page is of a question that was asked since."""

    lesson: Lesson | None = None
    step: int = 0
    begun: Session | None = None
    then: Known = field(default_factory=dict)
    same_controls: bool = False
    answers_step: bool = False


@dataclass(frozen=True)
class Scenario:
    """number: its name between page and server. source: where the plan is. cells: its figures as text, by the name of
    the card. figures: what is compared of it. picture: by theme. model: the hash of its graph."""

    number: int
    name: str
    source: PlanSource
    cells: Mapping[str, str]
    figures: Figures
    picture: Mapping[str, str]
    model: str


@dataclass
class PageState:
    """send: a message to the browser; deliver: brings an event of the job of a turn back to the page, on its own
    thread; visitor: whose page it is; may_ask: why a request is refused, or "".

    session: what the page asks; turn: of that question, and search_began its time; look, theme, canvas (pixels of the
    graph's place) and open (tabs and tables): how it is drawn.

    skeleton and view: the model, and its graph at some level of detail. plan: what is drawn over it, drawn: the session
    that it was made for, answered: its ``result`` event, once it is finished, current: whether it answers what the page
    asks. shown: its figures, earlier: those of the plan before. selected: kind and name. at_scale: whether it was drawn
    at the time scale of a pair, which ends at until_s. usual: the rows that the first plan of a model had, where nobody
    chose any, by the model's hash and objective.

    searched: the question of the search, planned: its ``model`` event, repeated: whether it is asked a second time,
    since the plan that came was of another graph; cancelling: whether somebody wants it to end. steps: of the search.
    standing: state, word and more of the status that stays until there is another plan. status: the newest one, and
    status_before the one before kernels were compiled, while they are.

    alone: session and answer that were shown ahead of the pair; wants_pair: whether to look for the missing plans.
    lean: the finished search whose front is shown beside the plan, and which of it is on the page (None: the answer
    itself). review: the plan that was looked over, and what was found (None while that goes on). tying: the names that
    shall share a device with what is selected next. pinning: a pin whose plan is looked for; pin_reported: the
    question for which it is stated what a pin costs. kept: plans kept beside each other, the first one first; baseline:
    the number of the one that others are compared with; compared: the number of the one whose difference is shown, and
    that (None while it is looked for). reading: the turn of the job that reads a file, or 0.
    """

    server: Server
    send: Callable[[Outgoing], None]
    deliver: Callable[[int, Event], None]
    visitor: str = ""
    may_ask: Callable[[Request], str] = lambda request: ""
    jobs: dict[int, Job] = field(default_factory=dict)
    turns: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    session: Session | None = None
    turn: int = 0
    search_began: float = 0.0
    look: Look = field(default_factory=Look)
    theme: Theme = "light"
    canvas: tuple[float, float] | None = None
    values: NodeData | None = None
    open: frozenset[str] = frozenset()

    skeleton: Skeleton | None = None
    view: GraphView | None = None
    plan: PlanView | None = None
    drawn: Session | None = None
    answered: ResultEvent | None = None
    current: bool = False
    shown: Figures | None = None
    earlier: Figures | None = None
    selected: tuple[str, str] | None = None
    at_scale: bool = False
    until_s: float = 0.0
    usual: tuple[str, RowKind] | None = None
    rebound_at: float = -math.inf

    searched: Session | None = None
    planned: ModelEvent | None = None
    repeated: bool = False
    cancelling: bool = False
    steps: list[Step] = field(default_factory=list)
    standing: tuple[str, str, str] = ("none", "no plan", "")
    status: Status | None = None
    status_before: Status | None = None

    comparing: Comparing = field(default_factory=Comparing)
    pairing: Pairing = field(default_factory=Pairing)
    alone: tuple[Session, ResultEvent] | None = None
    wants_pair: bool = False
    lean: tuple[ResultEvent, int | None] | None = None
    review: tuple[PlanSource, ReviewView | None] | None = None
    tying: tuple[str, ...] | None = None
    pinning: Pinning | None = None
    pin_reported: Session | None = None
    scenarios: tuple[Scenario, ...] = ()
    baseline: int = 0
    numbered: int = 0
    compared: tuple[int, Differing | None] | None = None
    reading: int = 0
    run: RunState = field(default_factory=RunState)
    changes: Changes = field(default_factory=Changes)
    sweep: SweepState = field(default_factory=SweepState)
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    lesson: LessonState = field(default_factory=LessonState)

    def goes_on(self, turn: int) -> bool:
        """Whether the job of a turn has not ended."""
        return turn in self.jobs

    @property
    def searching(self) -> bool:
        """Whether a search for what the page asks goes on."""
        return self.turn in self.jobs

    @property
    def held(self) -> str:
        """The name under which a worker holds the plan on the page, "" for one that is not finished."""
        return self.plan.get("held", "") if self.plan is not None else ""

    @property
    def runnable(self) -> bool:
        """Whether there is a plan to run: a finished one, of the question that stands on the page."""
        return bool(self.held) and self.current

    @property
    def source(self) -> PlanSource:
        """Where the plan on the page is; one that is not known if there is none that is finished."""
        if self.plan is None or self.searching:
            return PlanSource()
        packed = self.server.runs.text(self.held) if self.held else None
        return PlanSource(packed, self.plan.get("source", ""), self.held)

    @property
    def ran(self) -> RunView | None:
        """The run of the plan on the page, with measurements to lay over it."""
        laid = self.run.laid
        return laid if laid is not None and laid["held"] == self.held else None

    @property
    def measured(self) -> Report | None:
        """The comparison of the plan on the page with its run, if it has run."""
        return None if self.ran is None else self.ran["report"]

    @property
    def device_names(self) -> list[str]:
        """Of the plan on the page."""
        return [device["name"] for device in self.plan["devices"]] if self.plan is not None else []

    def fits(self, plan: PlanView | None) -> bool:
        """Whether a plan, if there is one, is of the graph on the page."""
        return plan is None or (self.skeleton is not None and self.skeleton["graph"] == plan["graph"])
