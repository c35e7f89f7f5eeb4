"""The state of one page: one value that fits in a query string. Nothing of it is trusted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from explorer.question.accelerators import DEFAULT_DEVICES
from explorer.question.loading import is_traced
from explorer.question.settings import MemoryModel, Settings
from explorer.question.written.device_lists import kinds_text, parse_kinds
from explorer.view.graph.palette import THEMES, Theme
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Wires
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Transfers
from solvers.problem.training import ZERO_STAGES
from solvers.search.effort import Effort

MAX_DEVICES = 64
MAX_BATCH = 65536
MIN_MEMORY, MAX_MEMORY = 2**20, 2**50
MIN_BANDWIDTH, MAX_BANDWIDTH = 1e3, 1e15
MAX_LATENCY_S = 10.0
MAX_TIME_LIMIT_S = 600.0
TIME_LIMIT_S = 30.0
"""Guards a search that ends by itself, by counted work, long before for most models."""
MAX_NAME = 200
MAX_SEED = 2**31 - 1
MAX_PINS = 64
MAX_PIN_TEXT = 8000
MAX_GROUPS = 16
"""Of operators and modules that are kept together."""
MAX_FIELDS = 40
"""Of a link."""
MAX_QUERY = 12_000
"""Characters."""
MAX_MIX = 30 * MAX_DEVICES
"""Characters of a kind for each accelerator."""
DTYPES = ("fp32", "bf16", "fp16")
GRAPHS = ("operators", "stages")
ROWS = ("auto", "devices", "stages")
LINKS = ("auto", "on", "off")
TIMES = ("both", "predicted", "measured")
COLOURS = ("devices", "errors")
MAX_RUN_STEPS = 1000
FIRST_MICRO_BATCHES = 8
"""Of a page that is opened without a question: bars that can be told apart."""
VERSION = "2"
"""Of the query strings that are written, as ``v``. Those of the first version state none."""
FIRST_SAMPLES_PER_DEVICE = 16
"""What a query string of the first version asks for where it leaves out the mini-batch of a model that is traced."""
IN_SEQUENCE = "/in-sequence"
"""After the name of a planner in a pair: its plan under the setting ``in_sequence``."""
PAIR = ("graph-pipeline", "pipedream-iter" + IN_SEQUENCE)
"""What is shown side by side unless others are named: a DAG of stages and a chain of them."""

_FILE = re.compile("file-[0-9a-f]{24}")

E = TypeVar("E", bound=StrEnum)


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


def parse(raw: Mapping[str, Any], choices: Choices) -> Session:
    """A session from an untrusted mapping (a message of the browser, a query string).

    Missing, empty and "auto" values mean the default. Unknown keys are ignored, so that an old
    link still opens. Raises InvalidProblem that names the field, what was expected and found.
    """
    settings = Settings(
        devices=_integer(raw, "devices", 1, MAX_DEVICES),
        device_kind=_kinds(raw, choices.device_kinds),
        memory_bytes=_caps(raw),
        keep_free_bytes=_number(raw, "keep_free", 0.0, MAX_MEMORY) or 0.0,
        cpus=_integer(raw, "cpus", 0, MAX_DEVICES),
        bandwidth_bytes_per_s=_number(raw, "bandwidth", MIN_BANDWIDTH, MAX_BANDWIDTH),
        latency_s=_number(raw, "latency", 0.0, MAX_LATENCY_S),
        links=_enum(raw, "links", Wires),
        memory_model=_enum(raw, "memory_model", MemoryModel) or MemoryModel.PEAK,
        objective=_enum(raw, "objective", Objective),
        contiguity=_enum(raw, "contiguity", Contiguity),
        transfers=_enum(raw, "transfers", Transfers),
        execution=_enum(raw, "execution", Execution),
        pipeline=_enum(raw, "pipeline", Pipeline) or Pipeline.ONE_F_ONE_B,
        training=_boolean(raw, "training"),
        dtype=_one_of(raw, "dtype", DTYPES),
        optimizer=_enum(raw, "optimizer", Optimizer) or Optimizer.ADAM,
        precision=_enum(raw, "precision", Precision) or Precision.PURE,
        zero=_integer(raw, "zero", 0, ZERO_STAGES[-1]) or 0,
        mini_batch=_integer(raw, "mini_batch", 1, MAX_BATCH),
        micro_batches=_integer(raw, "micro_batches", 1, MAX_BATCH),
        devices_per_node=_integer(raw, "devices_per_node", 1, MAX_DEVICES),
        max_replicas=_replicas(raw),
        recompute=_boolean(raw, "recompute") or False,
        in_sequence=_boolean(raw, "in_sequence") or False,
        pins=_pins(raw),
        together=_together(raw),
    )
    if not choices.models:
        raise InvalidProblem("there is no model to plan for")
    theme = _one_of(raw, "theme", THEMES)
    return Session(
        model=_model(raw, choices),
        settings=settings,
        planner=_one_of(raw, "planner", choices.planners, default="auto") or "auto",
        time_limit_s=_time_limit_s(raw, choices.most_time_limit_s),
        theme="dark" if theme == "dark" else "light",
        look=parse_look(raw, choices),
        seed=_integer(raw, "seed", 0, MAX_SEED) or 0,
        effort=_enum(raw, "effort", Effort) or Effort.NORMAL,
        profile=_file(raw, "profile", choices, choices.profiles),
        cluster=_file(raw, "cluster", choices, choices.clusters),
        times=_file(raw, "times_file", choices, choices.times),
    )


def parse_look(raw: Mapping[str, Any], choices: Choices, before: Look | None = None) -> Look:
    """What is to be drawn: keys that are not there keep what was ``before``. pair: "a,b", two different
    planners; "none" is none. Raises InvalidProblem."""
    before = before or Look()
    return Look(
        _one_of(raw, "graph", GRAPHS, default=before.graph) or before.graph,
        _one_of(raw, "rows", ROWS, default="auto" if raw.get("rows") == "auto" else before.rows) or before.rows,
        _pair(raw, choices, before.pair),
        _one_of(raw, "link_rows", LINKS, default="auto" if raw.get("link_rows") == "auto" else before.links)
        or before.links,
        before.path if _given(raw, "path") is None else _boolean(raw, "path") or False,
        _one_of(raw, "times", TIMES, default=before.times) or before.times,
        _one_of(raw, "colour", COLOURS, default=before.colour) or before.colour,
    )


@dataclass(frozen=True, slots=True)
class RunAsked:
    """What a page asks of a run: a target by name, measured steps, whether to compare with the whole model."""

    target: str
    steps: int = 5
    verify: bool = False


def parse_run(raw: Mapping[str, Any], choices: Choices) -> RunAsked:
    """From an untrusted message. Raises InvalidProblem."""
    if not choices.targets:
        raise InvalidProblem("this server has no target to run plans on")
    return RunAsked(
        _one_of(raw, "target", choices.targets) or choices.targets[0],
        _integer(raw, "steps", 1, MAX_RUN_STEPS) or 5,
        _boolean(raw, "verify") or False,
    )


def parse_query(query: str, choices: Choices) -> Session:
    """A session from a query string, with or without its "?"; one of the first version means what it meant. Raises
    InvalidProblem."""
    try:
        raw = dict(parse_qsl(query.removeprefix("?")[:MAX_QUERY], max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidProblem(f"a link has at most {MAX_FIELDS} fields") from None
    session = parse(raw, choices)
    settings = session.settings
    if not raw or "v" in raw or settings.mini_batch is not None or not is_traced(session.model):
        return session
    kinds = settings.device_kind
    devices = len(kinds) if isinstance(kinds, tuple) else settings.devices or DEFAULT_DEVICES
    return replace(session, settings=replace(settings, mini_batch=FIRST_SAMPLES_PER_DEVICE * devices))


def unasked(session: Session) -> Session:
    """What is asked where nobody asked anything: of a model that is traced, few enough micro-batches to be seen."""
    if not is_traced(session.model):
        return session
    return replace(session, settings=replace(session.settings, micro_batches=FIRST_MICRO_BATCHES))


def compare_limit_s(session: Session) -> float:
    """Seconds for each planner of a comparison: what was asked for, or a third of what one alone is given."""
    return TIME_LIMIT_S / 3 if session.time_limit_s == TIME_LIMIT_S else session.time_limit_s


def member(planner: str, settings: Settings) -> str:
    """What a planner's plan under these settings is called in a pair."""
    return planner + (IN_SEQUENCE if settings.in_sequence else "")


def to_dict(session: Session) -> dict[str, Any]:
    """The session as JSON, defaults left out: `parse` gives it back."""
    settings = session.settings
    found: dict[str, Any] = {
        "model": session.model,
        "devices": settings.devices,
        "device_kind": kinds_text(settings.device_kind) if settings.device_kind else None,
        "memory": _caps_text(settings.memory_bytes),
        "keep_free": settings.keep_free_bytes or None,
        "cpus": settings.cpus,
        "bandwidth": settings.bandwidth_bytes_per_s,
        "latency": settings.latency_s,
        "links": settings.links.value if settings.links else None,
        "memory_model": settings.memory_model.value if settings.memory_model is not MemoryModel.PEAK else None,
        "objective": settings.objective.value if settings.objective else None,
        "contiguity": settings.contiguity.value if settings.contiguity else None,
        "transfers": settings.transfers.value if settings.transfers else None,
        "execution": settings.execution.value if settings.execution else None,
        "pipeline": settings.pipeline.value if settings.pipeline is not Pipeline.ONE_F_ONE_B else None,
        "training": settings.training,
        "dtype": settings.dtype,
        "optimizer": settings.optimizer.value if settings.optimizer is not Optimizer.ADAM else None,
        "precision": settings.precision.value if settings.precision is not Precision.PURE else None,
        "zero": settings.zero or None,
        "mini_batch": settings.mini_batch,
        "micro_batches": settings.micro_batches,
        "devices_per_node": settings.devices_per_node,
        "max_replicas": ("all" if settings.max_replicas == 0 else settings.max_replicas)
        if settings.max_replicas != 1
        else None,
        "recompute": settings.recompute or None,
        "in_sequence": settings.in_sequence or None,
        "pins": json.dumps(dict(sorted(settings.pins.items())), separators=(",", ":")) if settings.pins else None,
        "together": json.dumps(settings.together, separators=(",", ":")) if settings.together else None,
        "planner": session.planner if session.planner != "auto" else None,
        "time_limit": session.time_limit_s if session.time_limit_s != TIME_LIMIT_S else None,
        "seed": session.seed or None,
        "effort": session.effort.value if session.effort is not Effort.NORMAL else None,
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
    return {key: value for key, value in found.items() if value is not None}


def to_query(session: Session) -> str:
    """The session as a query string, without the "?"."""
    return urlencode({key: _plain(value) for key, value in to_dict(session).items()} | {"v": VERSION})


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.0f}" if isinstance(value, float) and value == int(value) else str(value)


def _given(raw: Mapping[str, Any], key: str) -> Any:
    value = raw.get(key)
    return None if value is None or value == "" or value == "auto" else value


def _time_limit_s(raw: Mapping[str, Any], most_s: float) -> float:
    asked = _number(raw, "time_limit", 0.1, MAX_TIME_LIMIT_S) or min(TIME_LIMIT_S, most_s)
    if asked > most_s:
        raise InvalidProblem(f"a search may take {most_s:g} s on this server, not {asked:g} s: stop after less")
    return asked


def _number(raw: Mapping[str, Any], key: str, low: float, high: float) -> float | None:
    value = _given(raw, key)
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not low <= number <= high:
        raise InvalidProblem(f"{key}: expected a number from {low:g} to {high:g}, found {_shown(value)}")
    return number


def _integer(raw: Mapping[str, Any], key: str, low: int, high: int) -> int | None:
    number = _number(raw, key, low, high)
    if number is None:
        return None
    if number != int(number):
        raise InvalidProblem(f"{key}: expected a whole number, found {_shown(raw[key])}")
    return int(number)


def _boolean(raw: Mapping[str, Any], key: str) -> bool | None:
    value = _given(raw, key)
    if value is None:
        return None
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise InvalidProblem(f"{key}: expected true or false, found {_shown(value)}")


def _kinds(raw: Mapping[str, Any], allowed: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """One kind for all accelerators, or "2xA,B": one for each."""
    value = _given(raw, "device_kind")
    if not isinstance(value, str) or value in allowed or len(value) > MAX_MIX:
        return _one_of(raw, "device_kind", allowed)
    try:
        kinds = parse_kinds(value)
    except InvalidProblem as error:
        raise InvalidProblem(f"device_kind: {error}") from None
    each = (kinds,) if isinstance(kinds, str) else kinds
    if len(each) > MAX_DEVICES or not set(each) <= set(allowed):
        raise InvalidProblem(
            f"device_kind: expected at most {MAX_DEVICES} accelerators, each one of {', '.join(allowed)};"
            f" found {_shown(value)}"
        )
    return kinds


def _caps(raw: Mapping[str, Any]) -> float | tuple[float, ...] | None:
    """One cap for all accelerators, or "a,b": one for each."""
    value = _given(raw, "memory")
    if not isinstance(value, str) or "," not in value or value.count(",") >= MAX_DEVICES:
        return _number(raw, "memory", MIN_MEMORY, MAX_MEMORY)
    sizes = [_number({"memory": size}, "memory", MIN_MEMORY, MAX_MEMORY) for size in value.split(",")]
    if None in sizes:
        raise InvalidProblem(f"memory: expected a size for each accelerator, found {_shown(value)}")
    return tuple(size for size in sizes if size is not None)


def _caps_text(caps: float | tuple[float, ...] | None) -> float | str | None:
    return ",".join(_plain(size) for size in caps) if isinstance(caps, tuple) else caps


def _replicas(raw: Mapping[str, Any]) -> int:
    """1 is none; "all" is as many as there are devices, which is 0 in the settings."""
    if raw.get("max_replicas") == "all":
        return 0
    return _integer(raw, "max_replicas", 1, MAX_DEVICES) or 1


def _pins(raw: Mapping[str, Any]) -> dict[str, int]:
    """{"module or operator": device}, itself or as JSON."""
    value = _json(_given(raw, "pins"))
    if _given(raw, "pins") is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_PINS:
        raise InvalidProblem(f"pins: expected at most {MAX_PINS} names with a device each, found {_shown(raw['pins'])}")
    for name, device in value.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise InvalidProblem(f"pins: expected the name of an operator or module, found {_shown(name)}")
        if type(device) is not int or not 0 <= device < 2 * MAX_DEVICES:
            raise InvalidProblem(f"pins: expected the number of a device for {_shown(name)}, found {_shown(device)}")
    return dict(value)


def _together(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """[["module or operator", "another"]], itself or as JSON."""
    value = _json(_given(raw, "together"))
    if _given(raw, "together") is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_GROUPS:
        shown = _shown(raw["together"])
        raise InvalidProblem(f"together: expected at most {MAX_GROUPS} groups of names, found {shown}")
    for group in value:
        if not isinstance(group, Sequence) or isinstance(group, str) or not 2 <= len(group) <= MAX_PINS:
            raise InvalidProblem(f"together: expected 2 to {MAX_PINS} names in a group, found {_shown(group)}")
        for name in group:
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
                raise InvalidProblem(f"together: expected the name of an operator or module, found {_shown(name)}")
    return tuple(tuple(group) for group in value)


def _json(value: Any) -> Any:
    """What a short text says as JSON, None if it is none; what is no text is what it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if len(value) <= MAX_PIN_TEXT else None
    except (ValueError, RecursionError):
        return None


def _pair(raw: Mapping[str, Any], choices: Choices, before: tuple[str, ...]) -> tuple[str, ...]:
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
        raise InvalidProblem(f"pair: expected two different planners as NAME,NAME; found {_shown(value)}")
    return names


def _one_of(raw: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str | None = None) -> str | None:
    value = _given(raw, key)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > MAX_NAME or value not in allowed:
        raise InvalidProblem(f"{key}: expected one of {', '.join(allowed)}; found {_shown(value)}")
    return value


def _model(raw: Mapping[str, Any], choices: Choices) -> str:
    value = _given(raw, "model")
    if isinstance(value, str) and _FILE.fullmatch(value) and value not in choices.files:
        raise InvalidProblem("model: this file is no longer on the server; open it again, or choose another model")
    return _one_of(raw, "model", choices.models) or choices.models[0]


def _file(raw: Mapping[str, Any], key: str, choices: Choices, named: Sequence[str]) -> str:
    """A file that was handed in, or one of what has a name."""
    value = _given(raw, key)
    if value is None:
        return ""
    if not isinstance(value, str) or (value not in choices.files and value not in named):
        gone = "this file is no longer on the server; open it again, or leave it out"
        if isinstance(value, str) and value and not _FILE.fullmatch(value):
            gone = f"{_shown(value)} is not saved on this server; leave it out"
        raise InvalidProblem(f"{key}: {gone}")
    return value


def _enum(raw: Mapping[str, Any], key: str, kind: Callable[[str], E]) -> E | None:
    value = _given(raw, key)
    if value is None:
        return None
    try:
        return kind(str(value))
    except ValueError:
        raise InvalidProblem(f"{key}: {_shown(value)} is not one of the choices") from None


def _shown(value: object) -> str:
    return repr(value)[:60]
