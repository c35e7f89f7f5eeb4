"""The state of one page: one value that fits in a query string. Nothing of it is trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from demo_models import MODELS
from explorer.question.accelerators import DEFAULT_DEVICES
from explorer.question.loading import is_traced
from explorer.question.models.example import divided_by, in_parts, undivided
from explorer.question.nodes.wired import Wiring
from explorer.question.settings import (
    GROUPS,
    MAX_TIME_LIMIT_S,
    SETTINGS,
    TIME_LIMIT_S,
    SearchSettings,
    Settings,
    declared,
)
from explorer.question.written.declaring import Group
from explorer.question.written.kinds import AUTO_WORD, MAX_NAME, SEARCHED, Switch, Whole, one_of, plain, shown
from explorer.view.graph.palette import THEMES, Theme
from solvers.errors import InvalidProblem
from solvers.problem.problem import Precision
from solvers.search.effort import Effort

LINKED = tuple(group for group in GROUPS if group is not SearchSettings)
"""What a session's ``settings`` hold; the rest are fields of its own."""
MAX_FIELDS = 40
"""Of a link."""
MAX_QUERY = 12_000
"""Characters."""
GRAPHS = ("operators", "stages")
ROWS = ("auto", "devices", "stages")
LINKS = ("auto", "on", "off")
TIMES = ("both", "predicted", "measured")
COLOURS = ("devices", "errors")
MAX_RUN_STEPS = 1000
FIRST_MICRO_BATCHES = 8
"""Of a page that is opened without a question: bars that can be distinguished."""
VERSION = "3"
"""Of the query strings that are written, as ``v``. Those of the first version state none."""
MEANT = (("pipeline", "1f1b", "kfkb"),)
"""Values of query strings before the third version, and what they are called now: 1F1B left planners free to run
ahead."""
FIRST_SAMPLES_PER_DEVICE = 16
"""What a query string of the first version asks for where it leaves out the mini-batch of a model that is traced."""
IN_SEQUENCE = "/in-sequence"
"""After the name of a planner in a pair: its plan under the setting ``in_sequence``."""
PAIR = ("graph-pipeline", "pipedream-iter" + IN_SEQUENCE)
"""What is shown side by side unless others are named: a DAG of stages and a chain of them."""

_FILE = re.compile("file-[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Look:
    """What the page draws of a plan. graph: of GRAPHS, what the boxes are. rows: of ROWS, what a row of
    the schedule is. pair: two planners (see IN_SEQUENCE) whose plans are shown in turn, at one time scale;
    or none. links: of LINKS, whether links have rows of their own. path: whether the critical path is
    drawn over the schedule. Where the plan has run: times, of TIMES, whose schedule is drawn; colour, of
    COLOURS, what the boxes of the graph are coloured by; neither is kept in a link."""

    graph: str = "operators"
    rows: str = "auto"
    pair: tuple[str, ...] = ()
    links: str = "auto"
    path: bool = False
    times: str = "both"
    colour: str = "devices"


@dataclass(frozen=True, slots=True)
class Session:
    """What the page asks for. settings is what a problem is made of; look and theme are how it is drawn. effort: how
    much work a search counts before it ends; time_limit_s guards against more than anyone waits for. profile,
    times and cluster: files that were handed in, of measured costs, of operator times and of devices and links, or the
    names of what the server has of these, or ""."""

    model: str = ""
    settings: Settings = field(default_factory=Settings)
    planner: str = "auto"
    time_limit_s: float = TIME_LIMIT_S
    theme: Theme = "light"
    look: Look = field(default_factory=Look)
    seed: int = 0
    effort: Effort = Effort.NORMAL
    profile: str = ""
    cluster: str = ""
    times: str = ""

    @property
    def divided_model(self) -> str:
        """The model with how its tensors are divided, by the name that a worker knows."""
        return divided_by(self.model, self.settings.tensor_parallel, self.settings.sequence_parallel)


@dataclass(frozen=True, slots=True)
class Choices:
    """The names a session may use; anything else is refused before a worker sees it."""

    models: tuple[str, ...]
    planners: tuple[str, ...]
    device_kinds: tuple[str, ...]
    targets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files that were handed in, by the names that the server gave them."""
    clusters: tuple[str, ...] = ()
    """Clusters that have a name."""
    most_time_limit_s: float = MAX_TIME_LIMIT_S
    """Seconds that a search may be given."""
    profiles: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    """What was measured and is saved on the server, by name."""


def parse(raw: Mapping[str, object], choices: Choices) -> Session:
    """A session from an untrusted mapping (a message of the browser, a query string).

    Missing, empty and "auto" values mean the default. Unknown keys are ignored, so that an old
    link still opens. Raises InvalidProblem that names the field, what was expected and found.
    """
    if not choices.models:
        raise InvalidProblem("there is no model to plan for")
    model, degree, tokens = in_parts(_model(raw, choices))
    settings = Settings(**_read({**raw, **_divided(raw, degree, tokens)}, choices, *LINKED))
    if (settings.tensor_parallel != 1 or undivided(model) != model) and _FILE.fullmatch(undivided(model)):
        raise InvalidProblem(
            "tensor_parallel: tensors of models that are traced here can be divided, those of files not; choose 1"
        )
    theme = _one_of(raw, "theme", THEMES)
    search = {"time_limit_s": min(TIME_LIMIT_S, choices.most_time_limit_s)} | _read(raw, choices, SearchSettings)
    if search["time_limit_s"] > choices.most_time_limit_s:
        raise InvalidProblem(
            f"a search may take {choices.most_time_limit_s:g} s on this server, not {search['time_limit_s']:g} s:"
            " stop after less"
        )
    return Session(
        model=model,
        settings=settings,
        theme="dark" if theme == "dark" else "light",
        look=parse_look(raw, choices),
        profile=_file(raw, "profile", choices, choices.profiles),
        cluster=_file(raw, "cluster", choices, choices.clusters),
        times=_file(raw, "times_file", choices, choices.times),
        **search,
    )


def _read(raw: Mapping[str, object], choices: Choices, *groups: type[Group]) -> dict[str, Any]:
    """What an untrusted mapping sets, by the fields of settings. Raises InvalidProblem."""
    allowed = {"device_kind": choices.device_kinds, "planner": choices.planners}
    values = [(one, _given(raw, one.link)) for one in declared(*groups) if one.link]
    return {
        one.field: one.kind.from_link(one.link, value, allowed.get(one.link, ()))
        for one, value in values
        if value is not None
    }


def parse_look(raw: Mapping[str, object], choices: Choices, before: Look | None = None) -> Look:
    """What is to be drawn: keys that are not there keep what was ``before``. pair: "a,b", two different
    planners; "none" is none. Raises InvalidProblem."""
    before = before or Look()
    return Look(
        _one_of(raw, "graph", GRAPHS, default=before.graph) or before.graph,
        _one_of(raw, "rows", ROWS, default="auto" if raw.get("rows") == "auto" else before.rows) or before.rows,
        _pair(raw, choices, before.pair),
        _one_of(raw, "link_rows", LINKS, default="auto" if raw.get("link_rows") == "auto" else before.links)
        or before.links,
        before.path if (path := _given(raw, "path")) is None else Switch().from_link("path", path),
        _one_of(raw, "times", TIMES, default=before.times) or before.times,
        _one_of(raw, "colour", COLOURS, default=before.colour) or before.colour,
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a page asks of a run: a target by name, measured steps, whether to compare with the whole model."""

    target: str
    steps: int = 5
    verify: bool = False


def parse_run(raw: Mapping[str, object], choices: Choices) -> RunOptions:
    """From an untrusted message. Raises InvalidProblem."""
    if not choices.targets:
        raise InvalidProblem("this server has no target to run plans on")
    return RunOptions(
        _one_of(raw, "target", choices.targets) or choices.targets[0],
        5 if (steps := _given(raw, "steps")) is None else Whole(1, MAX_RUN_STEPS).from_link("steps", steps),
        (verify := _given(raw, "verify")) is not None and Switch().from_link("verify", verify),
    )


def parse_query(query: str, choices: Choices) -> Session:
    """A session from a query string, with or without its "?"; one of the first version means what it meant. Raises
    InvalidProblem."""
    try:
        raw = dict(parse_qsl(query.removeprefix("?")[:MAX_QUERY], max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidProblem(f"a link has at most {MAX_FIELDS} fields") from None
    if raw.get("v", "") in ("", "1", "2"):
        raw |= {name: now for name, was, now in MEANT if raw.get(name) == was}
    session = parse(raw, choices)
    settings = session.settings
    if not raw or "v" in raw or settings.mini_batch is not None or not is_traced(session.model):
        return session
    kinds = settings.device_kind
    devices = len(kinds) if isinstance(kinds, tuple) else settings.devices or DEFAULT_DEVICES
    return replace(session, settings=replace(settings, mini_batch=FIRST_SAMPLES_PER_DEVICE * devices))


def with_first_question(session: Session) -> Session:
    """What is asked where nobody asked anything: of a model that is traced, few enough micro-batches to be seen; of a
    demo, training as it is done, in bf16 beside fp32 masters, on devices with the links that they are sold with."""
    if not is_traced(session.model):
        return session
    first = replace(session.settings, micro_batches=FIRST_MICRO_BATCHES)
    if session.model in MODELS:
        first = replace(first, dtype="bf16", precision=Precision.MIXED, wiring=Wiring.KIND)
    return replace(session, settings=first)


def compare_limit_s(session: Session) -> float:
    """Seconds for each planner of a comparison: what was asked for, or a third of what one alone is given."""
    return TIME_LIMIT_S / 3 if session.time_limit_s == TIME_LIMIT_S else session.time_limit_s


def member(planner: str, settings: Settings) -> str:
    """What a planner's plan under these settings is called in a pair."""
    return planner + (IN_SEQUENCE if settings.in_sequence else "")


def to_dict(session: Session) -> dict[str, object]:
    """The session as JSON, defaults left out: `parse` gives it back."""
    fields: dict[str, Any] = {"model": session.model, **_changed(session.settings, Settings())}
    fields |= _changed(session, Session(), SearchSettings) | {
        "profile": session.profile or None,
        "cluster": session.cluster or None,
        "times_file": session.times or None,
        "theme": session.theme if session.theme != "light" else None,
        "graph": session.look.graph if session.look.graph != "operators" else None,
        "rows": session.look.rows if session.look.rows != "auto" else None,
        "pair": ",".join(session.look.pair) or None,
        "link_rows": session.look.links if session.look.links != "auto" else None,
        "path": session.look.path or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _changed(of: Any, usual: Any, *groups: type[Group]) -> dict[str, Any]:
    """The settings in which ``of`` differs from ``usual``, by their keys in a link."""
    values = [(one, getattr(of, one.field)) for one in declared(*groups or LINKED) if one.link]
    return {one.link: one.kind.to_link(value) for one, value in values if value != getattr(usual, one.field)}


def to_query(session: Session) -> str:
    """The session as a query string, without the "?"."""
    return urlencode({key: plain(value) for key, value in to_dict(session).items()} | {"v": VERSION})


def _given(raw: Mapping[str, object], key: str) -> Any:
    value = raw.get(key)
    return None if value is None or value == "" or value == "auto" else value


def _pair(raw: Mapping[str, object], choices: Choices, before: tuple[str, ...]) -> tuple[str, ...]:
    value = _given(raw, "pair")
    if value is None:
        return before
    if value == "none":
        return ()
    names = tuple(value.split(",")) if isinstance(value, str) and len(value) <= 2 * MAX_NAME else ()
    if (
        len(set(names)) != 2
        or len(names) != 2
        or any(name.removesuffix(IN_SEQUENCE) not in choices.planners for name in names)
    ):
        raise InvalidProblem(f"pair: expected two different planners as NAME,NAME; found {shown(value)}")
    return names


def _one_of(raw: Mapping[str, object], key: str, allowed: tuple[str, ...], default: str | None = None) -> str | None:
    value = _given(raw, key)
    if value is None:
        return default
    return one_of(key, value, allowed)


def _model(raw: Mapping[str, object], choices: Choices) -> str:
    value = _given(raw, "model")
    if isinstance(value, str) and _FILE.fullmatch(value) and value not in choices.files:
        raise InvalidProblem("model: this file is no longer on the server; open it again, or choose another model")
    if value is not None and _whole(str(value)) in choices.models:
        return str(value)
    return _one_of(raw, "model", choices.models) or choices.models[0]


def _divided(raw: Mapping[str, object], degree: int, tokens: int) -> dict[str, object]:
    """How tensors are divided, as settings of a link say it. degree, tokens: as the model's name says it, which counts
    where it does."""
    kind = SETTINGS["tensor_parallel"].kind
    fields: dict[str, object] = {"tensor_parallel": SEARCHED} if raw.get("tensor_parallel") == AUTO_WORD else {}
    fields |= {"tensor_parallel": kind.to_link(degree)} if degree != 1 else {}
    return fields | ({"sequence_parallel": tokens} if tokens != 1 else {})


def _whole(model: str) -> str:
    """A model's name without what it says of how tensors are divided."""
    return undivided(model)


def _file(raw: Mapping[str, object], key: str, choices: Choices, named: Sequence[str]) -> str:
    """A file that was handed in, or one of what has a name."""
    value = _given(raw, key)
    if value is None:
        return ""
    if not isinstance(value, str) or (value not in choices.files and value not in named):
        gone = "this file is no longer on the server; open it again, or leave it out"
        if isinstance(value, str) and value and not _FILE.fullmatch(value):
            gone = f"{shown(value)} is not saved on this server; leave it out"
        raise InvalidProblem(f"{key}: {gone}")
    return value
