"""Numbers of somebody's own on operators, as colours of the graph's boxes: a JSON as Model Explorer has it.

Its custom node data: {graph: {"results": {node: {"value": number, "bgColor": colour, "textColor": colour}},
"thresholds": [{"value", "bgColor", "textColor"}], "gradient": [{"stop", "bgColor", "textColor"}]}}, or what stands
there for one graph alone (google-ai-edge/model-explorer, `node_data_builder.py`). {node: number} is read as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypedDict

from explorer.view.graph.elements import GraphView, full_name
from explorer.view.graph.palette import SURFACES, Theme, mix, text_on
from explorer.view.plan_types import Skeleton
from explorer.words import text
from solvers.errors import InvalidProblem

MAX_VALUES = 200_000
MAX_STOPS = 64
STEPS = 9
"""Of a gradient in the legend."""
ENDS: Mapping[Theme, tuple[str, str]] = {"light": ("#fff3d6", "#8c2d04"), "dark": ("#33291d", "#ffb55a")}
"""The smallest and the largest value, where the file has no colours."""
NAMED = {
    "black": "#000000", "white": "#ffffff", "gray": "#808080", "grey": "#808080", "red": "#ff0000", "green": "#008000",
    "lime": "#00ff00", "blue": "#0000ff", "yellow": "#ffff00", "orange": "#ffa500", "purple": "#800080",
    "cyan": "#00ffff", "magenta": "#ff00ff", "pink": "#ffc0cb", "brown": "#a52a2a", "navy": "#000080",
}  # fmt: skip
"""Names of colours that are read; others are written as #rrggbb."""


@dataclass(frozen=True, slots=True)
class Value:
    """number, and its colours where the file states them: "#rrggbb" or ""."""

    number: float
    fill: str = ""
    ink: str = ""


@dataclass(frozen=True, slots=True)
class NodeData:
    """values: by operator or module; thresholds: (upper end, fill, ink) in order; gradient: (0 to 1, fill)."""

    title: str
    values: Mapping[str, Value]
    thresholds: tuple[tuple[float, str, str], ...] = ()
    gradient: tuple[tuple[float, str], ...] = ()


class Stop(TypedDict):
    fill: str
    label: str


class BoxValues(TypedDict):
    """fills: {element id: (fill, text on it)}; labels: {element id: its value}; title; stops: the legend; note: how
    many operators have a value."""

    fills: dict[str, tuple[str, str]]
    labels: dict[str, str]
    title: str
    stops: list[Stop]
    note: str


def is_node_data(value: object) -> bool:
    """Whether a JSON is node data rather than a model; {node: whole number} is a placement on devices."""
    if not isinstance(value, Mapping) or not value:
        return False
    if isinstance(value.get("results"), Mapping):
        return True
    each = list(value.values())
    if all(isinstance(one, Mapping) and isinstance(one.get("results"), Mapping) for one in each):
        return True
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in each)
    return numbers and any(isinstance(one, float) for one in each)


def read_node_data(value: Mapping[str, object], where: str) -> NodeData:
    """The values of a JSON for which `is_node_data` holds; those of all its graphs. where: the file's name, which is
    the title. Raises InvalidProblem."""
    return _Reader(where).read(value)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def read(self, value: Mapping[str, Any]) -> NodeData:
        if isinstance(value.get("results"), Mapping):
            graphs: list[Mapping[str, Any]] = [value]
        elif all(isinstance(one, Mapping) and isinstance(one.get("results"), Mapping) for one in value.values()):
            graphs = list(value.values())
        else:
            graphs = [{"results": value}]
        values: dict[str, Value] = {}
        for graph in graphs:
            for name, result in graph["results"].items():
                if isinstance(result, Mapping) and isinstance(result.get("value"), str):
                    self.fail(f"{name}: values are numbers here, found {text.short(repr(result['value']), 40)}")
                stated = result if isinstance(result, Mapping) else {"value": result}
                values[name] = Value(
                    self.number(stated.get("value"), name),
                    self.colour(stated.get("bgColor"), name),
                    self.colour(stated.get("textColor"), name),
                )
        if not 0 < len(values) <= MAX_VALUES:
            self.fail(f"expected 1 to {MAX_VALUES:,} values, found {len(values):,}")
        thresholds = [
            (self.number(one.get("value"), "thresholds"), self.colour(one.get("bgColor"), "thresholds"),
             self.colour(one.get("textColor"), "thresholds"))
            for one in self.items(graphs[0], "thresholds")
        ]  # fmt: skip
        gradient = [
            (self.number(one.get("stop"), "gradient"), self.colour(one.get("bgColor"), "gradient"))
            for one in self.items(graphs[0], "gradient")
        ]
        if any(not 0 <= stop <= 1 or not fill for stop, fill in gradient):
            self.fail("gradient: expected stops from 0 to 1, each with a bgColor")
        return NodeData(self.where, values, tuple(sorted(thresholds)), tuple(sorted(gradient)))

    def items(self, graph: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        items = graph.get(key) or []
        if not isinstance(items, list) or len(items) > MAX_STOPS or not all(isinstance(one, Mapping) for one in items):
            self.fail(f"{key}: expected at most {MAX_STOPS} objects")
        return items

    def number(self, value: object, name: str) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            self.fail(f"{name}: expected a number, found {text.short(repr(value), 40)}")
        return float(value)

    def colour(self, value: object, name: str) -> str:
        if value in (None, ""):
            return ""
        word = str(value).strip().lower()
        if re.fullmatch("#[0-9a-f]{3}", word):
            word = "#" + "".join(2 * digit for digit in word[1:])
        if re.fullmatch("#[0-9a-f]{6}", word):
            return word
        if word not in NAMED:
            self.fail(f"{name}: colours are #rrggbb or {', '.join(NAMED)}; found {text.short(word, 40)!r}")
        return NAMED[word]

    def fail(self, words: str) -> NoReturn:
        raise InvalidProblem(f"{self.where}: {words}")


def box_values(view: GraphView, skeleton: Skeleton, data: NodeData, theme: Theme) -> BoxValues:
    """What node data lays over the boxes: a box has the value that is stated for it, else the mean over its forward
    operators that have one."""
    numbers = [value.number for value in data.values.values()]
    low, high = min(numbers), max(numbers)
    fills: dict[str, tuple[str, str]] = {}
    labels: dict[str, str] = {}
    names = skeleton["names"]
    for box, members in view.boxes.items():
        stated = data.values.get(full_name(skeleton, box))
        inside = [data.values[names[i]] for i in members if names[i] in data.values]
        if stated is None and not inside:
            fills[box] = (SURFACES[theme].lane, SURFACES[theme].quiet)
            continue
        one = stated or (inside[0] if len(inside) == 1 else None)
        number = one.number if one else math.fsum(value.number for value in inside) / len(inside)
        fill, ink = _paint(data, number, low, high, theme)
        if one is not None:
            fill, ink = one.fill or fill, one.ink or (text_on(one.fill) if one.fill else ink)
        fills[box], labels[box] = (fill, ink), text.digits(number)
    known = sum(name in data.values for name in names)
    note = f"{text.count(known)} of {text.plural(len(names), 'operator')}"
    return {
        "fills": fills,
        "labels": labels,
        "title": data.title,
        "stops": _legend(data, low, high, theme),
        "note": note,
    }


def _paint(data: NodeData, number: float, low: float, high: float, theme: Theme) -> tuple[str, str]:
    """Fill of a number, and what can be read on it."""
    share = (number - low) / (high - low) if high > low else 0.5
    if data.gradient or not data.thresholds:
        fill = _between(data.gradient or tuple(enumerate(ENDS[theme])), share)
        return fill, text_on(fill)
    for most, fill, ink in data.thresholds:
        if number <= most and fill:
            return fill, ink or text_on(fill)
    return SURFACES[theme].lane, SURFACES[theme].text


def _between(stops: Sequence[tuple[float, str]], share: float) -> str:
    """The colour of a gradient at a share of its length."""
    before = [stop for stop in stops if stop[0] <= share] or [stops[0]]
    after = [stop for stop in stops if stop[0] > share] or [stops[-1]]
    (start, one), (end, other) = before[-1], after[0]
    return one if end <= start else mix(other, one, (share - start) / (end - start))


def _legend(data: NodeData, low: float, high: float, theme: Theme) -> list[Stop]:
    if data.thresholds and not data.gradient:
        return [{"fill": fill, "label": f"≤ {text.digits(most)}"} for most, fill, _ in data.thresholds if fill]
    ends = {0: text.digits(low), STEPS - 1: text.digits(high)}
    shares = [step / (STEPS - 1) for step in range(STEPS)]
    return [
        {"fill": _paint(data, low + share * (high - low), low, high, theme)[0], "label": ends.get(i, "")}
        for i, share in enumerate(shares)
    ]
