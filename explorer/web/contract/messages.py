"""Every message between the browser and the server, in and out; the scripts in assets/ are checked against this file.

What comes in is hostile until `read` has been through it: a field that is not of its type, or beyond its limits, is
left out, and has its default. pydantic does the reading, since FastAPI brings it along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from explorer.view.graph.find import Matches
from explorer.view.graph.node_data import BoxValues
from explorer.view.graph.palette import Theme
from explorer.view.graph.search import Curve
from explorer.view.instants.played import Played
from explorer.view.scene import BarsScene, GraphScene, OverlayScene, Path, PlanScene

MAX_TEXT = 400
"""Characters of a name that a message brings; what is longer is cut."""
MIN_CANVAS_PX, MAX_CANVAS_PX = 40, 20_000

# -- what the browser sends -------------------------------------------------------------------------

Text = Annotated[str, BeforeValidator(lambda value: value[:MAX_TEXT] if isinstance(value, str) else value)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Pixels = Annotated[float, Field(ge=MIN_CANVAS_PX, le=MAX_CANVAS_PX)]


class Message(BaseModel):
    """What all messages of the browser have: the types under which it sends them."""

    model_config = ConfigDict(frozen=True, strict=True)
    type: str

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_default(cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        """What is no such value is as if it had not been sent."""
        try:
            return read(value)
        except ValidationError:
            return cls.model_fields[info.field_name or ""].get_default()


class Plain(Message):
    """Messages that say all with their type."""

    type: Literal[
        "cancel", "stop-comparing", "pair", "unpair", "run-anyway", "plan-here", "cancel-run", "replan", "opening",
        "together", "keep", "share", "help", "stop-help", "stop-sweep", "leave-lesson", "course", "why-here",
        "stop-why-here", "drop-values",
    ]  # fmt: skip


class Pressed(Message):
    """A button, a row, a box or one of several was pressed. element: what stands there, a name or a number in decimal
    digits."""

    type: Literal[
        "expand", "collapse", "show-row", "show-pair", "show-run", "show-lean", "reopen", "export", "forget",
        "as-baseline", "differ", "go-help", "go-way", "sweep", "go-sweep", "run-target", "peek",
    ]  # fmt: skip
    element: Text = ""

    def position(self, count: int) -> int | None:
        """The number that was pressed, if it is one of ``count`` that begin with 0."""
        element = self.element
        number = int(element) if element.isascii() and element.isdecimal() and len(element) <= 6 else count
        return number if number < count else None


class PlanRequest(Message):
    """A plan is wanted. session: see `explorer.view.session.parse`; canvas: pixels of the place for the graph; fresh:
    whether cached answers do not count; every: of a comparison, whether for all contiguities."""

    type: Literal["solve", "compare"]
    session: dict[str, object] = {}
    canvas: Annotated[list[Pixels], Field(min_length=2, max_length=2)] | None = None
    fresh: bool = False
    every: bool = False


class ChooseTheme(Message):
    type: Literal["theme"]
    theme: Theme = "light"


class Deepen(Message):
    """Another level of modules."""

    type: Literal["depth"]
    step: Literal[-1, 1] = -1


class Select(Message):
    """id: of a box, or the number of the rest, as text."""

    type: Literal["select"]
    kind: Literal["box", "device", "stage", "operator", "none"] = "none"
    id: Text = ""


class Canvas(Message):
    """The place for the graph has another size, in pixels."""

    type: Literal["canvas"]
    width: Pixels | None = None
    height: Pixels | None = None


class Find(Message):
    type: Literal["find"]
    text: str | None = None


class OpenTabs(Message):
    """shown: the tabs and tables that somebody looks at."""

    type: Literal["open"]
    shown: list[Text] = []


class View(Message):
    """How the plan is drawn, as far as it changes: see `explorer.view.session.parse_look`."""

    type: Literal["view"]
    graph: object = None
    rows: object = None
    pair: object = None
    link_rows: object = None
    path: object = None
    times: object = None
    colour: object = None


class Window(Message):
    """The part of the schedule in sight, in the unit of its axis."""

    type: Literal["window"]
    start: Number | None = Field(None, alias="from")
    end: Number | None = Field(None, alias="to")


class Run(Message):
    """See `explorer.view.session.parse_run`."""

    type: Literal["run"]
    target: object = None
    steps: object = None
    verify: object = None


class Pin(Message):
    """What is selected shall be on a device, or (None) on any."""

    type: Literal["pin"]
    device: int | None = -1


class Rename(Message):
    """element: the number of a plan that is kept."""

    type: Literal["rename"]
    element: Text = ""
    name: str | None = None


class Same(Message):
    """plan: the hash in a link, of the plan that it was made of."""

    type: Literal["same"]
    plan: Annotated[str, Field(pattern="^[0-9a-f]{16}$")] | None = None


class OpenLesson(Message):
    """A step of a lesson, counted from 1. same_controls: whether the controls stay as they are."""

    type: Literal["lesson"]
    lesson: Text = ""
    step: int = 0
    same_controls: bool = False


class Waits(Message):
    """What a device waits for at an instant."""

    type: Literal["waits"]
    device: int = -1
    at_s: Number | None = None


INCOMING: dict[str, type[Message]] = {
    name: shape
    for shape in (
        Plain, Pressed, PlanRequest, ChooseTheme, Deepen, Select, Canvas, Find, OpenTabs, View, Window, Run, Pin,
        Rename, Same, OpenLesson, Waits,
    )
    for name in get_args(shape.model_fields["type"].annotation)
}  # fmt: skip
"""The shape of every message that a browser may send, by its type."""


def read(raw: Mapping[str, object]) -> Message | None:
    """The message that a browser sent; None for one of no known type."""
    name = raw.get("type")
    shape = INCOMING.get(name) if isinstance(name, str) else None
    return None if shape is None else shape.model_validate(raw)


# -- what the server sends --------------------------------------------------------------------------

Props = Mapping[str, Mapping[str, object]]
"""Properties of components of the page, by its id."""
Controls = Mapping[str, object]
"""Values of controls, by the names of settings in a link."""


class PropsMessage(TypedDict):
    type: Literal["props"]
    props: Props


class Status(TypedDict):
    """elapsed_s: of a search that goes on, so that the page can count. asked: whether ``turn`` is that of a new
    question: plans of earlier turns answer another one."""

    type: Literal["status"]
    state: str
    what: str
    more: str
    turn: int
    elapsed_s: NotRequired[float]
    asked: NotRequired[bool]
    query: NotRequired[str]


class ModelMessage(TypedDict):
    """memory_bytes: of the largest device of a file that states its own, 0 without a cap."""

    type: Literal["model"]
    objective: str
    memory_bytes: float | None


class Query(TypedDict):
    type: Literal["query"]
    query: str


class Adopt(TypedDict):
    """The controls that would have led to the plan which is shown."""

    type: Literal["adopt"]
    turn: int
    controls: Controls


class MatchesMessage(Matches):
    type: Literal["found"]
    text: str


class Peeked(TypedDict):
    """What is known of a box, in a line."""

    type: Literal["peeked"]
    id: str
    text: str


class ValuesMessage(TypedDict):
    """Numbers of somebody's own that colour the boxes; None: devices do again."""

    type: Literal["values"]
    values: BoxValues | None
    props: Props


class LessonMessage(TypedDict):
    """lesson: None for one that is not there, and nothing else then. back and next: lesson and step."""

    type: Literal["lesson"]
    lesson: str | None
    props: Props
    step: NotRequired[int]
    back: NotRequired[tuple[str, int] | None]
    next: NotRequired[tuple[str, int] | None]
    same_controls: NotRequired[bool]
    light: NotRequired[Sequence[str]]
    move: NotRequired[Sequence[str]]
    controls: NotRequired[Controls]


class Hello(TypedDict):
    """token: with which the page hands in files, of most_bytes at most."""

    type: Literal["hello"]
    token: str
    most_bytes: int


class Opened(TypedDict):
    """A file was opened. file: its name between page and server; memory_bytes: of the devices of a cluster."""

    type: Literal["opened"]
    what: str
    file: str
    name: str
    words: str
    memory_bytes: float | None
    controls: Controls


class Taking(TypedDict):
    """Whether the plan on the page can be exported, or why not. nearest: what to ask for in place of what failed."""

    type: Literal["taking"]
    can: bool
    why: str
    busy: NotRequired[bool]
    bad: NotRequired[bool]
    nearest: NotRequired[str]
    lines: NotRequired[Sequence[str]]


class Take(TypedDict):
    """A file to fetch. stay: whether the menu stays open, which has more to say."""

    type: Literal["take"]
    href: str
    name: str
    stay: bool


class Pins(TypedDict):
    """Every pin from now on, name to device, and every group that shares a device."""

    type: Literal["pins"]
    pins: Mapping[str, int]
    together: Sequence[Sequence[str]]
    words: str


class PlanStored(TypedDict):
    """number: of the plan that is stored now."""

    type: Literal["kept"]
    number: int


class Moved(TypedDict):
    """boxes: with operators that another plan has elsewhere."""

    type: Literal["moved"]
    boxes: Sequence[str]


class SameMessage(TypedDict):
    """Whether the plan on the page is the one of the link; hashes of both."""

    type: Literal["same"]
    same: bool
    found: str
    wanted: str


class Shared(TypedDict):
    """plan: the hash of the plan on the page, "" for none."""

    type: Literal["shared"]
    plan: str


class Go(TypedDict):
    type: Literal["go"]
    controls: Controls


class SweepPoint(TypedDict):
    objective_s: float | None
    bound_s: float | None
    text: str
    status: str
    reason: str


class SweepMessage(TypedDict):
    """knee: the position of the value beyond which more helps little."""

    type: Literal["sweep"]
    going: bool
    words: str
    points: Sequence[SweepPoint]
    axis: NotRequired[str]
    values: NotRequired[Sequence[float]]
    labels: NotRequired[Sequence[str]]
    knee: NotRequired[int | None]


class Graph(GraphScene):
    """of: the hash of the graph, which is that of every plan over it."""

    type: Literal["graph"]
    of: str
    props: Props


class Overlay(OverlayScene):
    type: Literal["overlay"]


class PlanPicture(PlanScene, OverlayScene):
    """What is drawn of a plan; of: as in `Graph`."""

    type: Literal["plan"]
    of: str
    props: Props


class PlanMessage(PlanPicture):
    """reason: "incumbent", "final", or what of the drawing changed; timing: milliseconds, see `picture.draw`."""

    reason: str
    turn: int
    timing: Mapping[str, float]


class BarsMessage(BarsScene):
    type: Literal["bars"]


class CurveText(Curve):
    """The numbers of a curve as text."""

    high: str
    low: str
    end: str
    best_text: str
    bound_text: str
    gap: str
    words: str


class SearchMessage(TypedDict):
    type: Literal["search"]
    running: bool
    elapsed_s: float
    curve: CurveText


class RunMessage(TypedDict):
    """state: "going", "measured" or ""; elapsed_s: of a run that goes on; times and colour: of the look."""

    type: Literal["run"]
    state: str
    times: str
    colour: str
    can_replan: bool
    props: Props
    elapsed_s: NotRequired[float]


class Announcement(TypedDict):
    """For those who listen to the page."""

    type: Literal["say"]
    text: str


class Banner(TypedDict):
    type: Literal["banner"]
    children: Sequence[object]


class CourseMessage(TypedDict):
    """course: None for a schedule that is too large, and ``words`` say so."""

    type: Literal["course"]
    course: Played | None
    words: NotRequired[str]


class WaitsMessage(TypedDict):
    """path: through the schedule; idle_s: from and to."""

    type: Literal["waits"]
    device: int
    path: Path
    idle_s: tuple[float, float]
    text: str
    props: Props


Outgoing = (
    PropsMessage | Status | ModelMessage | Query | Adopt | MatchesMessage | Peeked | ValuesMessage | LessonMessage
    | Hello | Opened | Taking | Take | Pins | PlanStored | Moved | SameMessage | Shared | Go | SweepMessage | Graph
    | Overlay | PlanMessage | BarsMessage | SearchMessage | RunMessage | Announcement | Banner | CourseMessage
    | WaitsMessage
)  # fmt: skip
"""Every message that the server sends."""
