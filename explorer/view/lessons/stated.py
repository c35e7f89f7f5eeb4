"""The settings that a step states, as the question that a page asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from explorer.question.accelerators import DEFAULT_DEVICES
from explorer.question.written.quantities import parse_bandwidth, parse_bytes
from explorer.view.lessons.lesson import CONTROLS
from explorer.view.session import Choices, Session, parse, to_dict
from solvers.errors import InvalidProblem

LOOK = ("graph", "rows", "link_rows", "path")
"""How a plan is drawn: no part of the question."""
PINS = ("pins", "together")
STATED = (*CONTROLS, *PINS, *LOOK)
"""All that a step may state."""
NOT_IN_QUESTION = frozenset({*LOOK, "theme", "pair"})
MIB = 2**20


def session_of(settings: Mapping[str, object], choices: Choices) -> Session:
    """What a page asks that shows a step. Raises InvalidProblem that names the setting."""
    for name, value in settings.items():
        if name not in STATED:
            raise InvalidProblem(f"{name}: no setting of this name; there are {', '.join(STATED)}")
        if not isinstance(value, str | int | float) and name not in PINS:
            raise InvalidProblem(f"{name}: expected a text, a number, true or false")
    raw = {**settings}
    for name, read in (("memory", parse_bytes), ("bandwidth", parse_bandwidth)):
        value = raw.get(name)
        if isinstance(value, str) and value not in ("", "auto"):
            raw[name] = _read(name, value, read)
    if isinstance(memory := raw.get("memory"), int | float) and 0 < memory < 2**60:
        raw["memory"] = math.ceil(memory / MIB) * MIB  # as the page's slider gives it
    kind = raw.get("device_kind") or choices.device_kinds[0]
    if kind not in choices.device_kinds:
        raise InvalidProblem(f"device_kind: expected one of {', '.join(choices.device_kinds)}")
    return parse({"devices": DEFAULT_DEVICES, "training": True, **raw, "device_kind": kind}, choices)


def _read(name: str, value: str, read: Callable[[str], float]) -> float:
    try:
        return float(read(value))
    except InvalidProblem as error:
        raise InvalidProblem(f"{name}: {error}") from None


def as_stated(session: Session, step: Session, settings: Mapping[str, object]) -> bool:
    """Whether a page asks what a step states. A cap above what a device has is none to the page."""
    now, then = to_dict(session), to_dict(step)
    names = (set(settings) | {"model"}) - NOT_IN_QUESTION
    return all(now.get(name) == then.get(name) or (name == "memory" and name not in now) for name in names)


def changed(session: Session, begun: Session) -> frozenset[str]:
    """The settings in which two questions differ."""
    now, then = to_dict(session), to_dict(begun)
    return frozenset(name for name in now.keys() | then.keys() if now.get(name) != then.get(name)) - NOT_IN_QUESTION


def controls_of(step: Session) -> dict[str, object]:
    """What a page sets its controls to: the question by the names of a link, pins as a link has them."""
    controls = to_dict(step)
    return {name: controls[name] for name in controls if name not in NOT_IN_QUESTION} | {
        "look": {
            "graph": step.look.graph, "rows": step.look.rows, "link_rows": step.look.links, "path": step.look.path,
        }
    }  # fmt: skip
