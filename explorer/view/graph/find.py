"""Operators by name: what a person types, and where each that matches is shown and runs."""

from __future__ import annotations

import re
import time
from typing import TypedDict

from explorer.view.plan_types import PlanView, Skeleton
from explorer.words import text

MOST = 12
MAX_WORDS = 80


class Match(TypedDict):
    """box: the element that is its own; what: its type; where: its devices."""

    box: str
    name: str
    what: str
    where: str


class Matches(TypedDict):
    """matches: how many there are; items: the first of them."""

    matches: int
    items: list[Match]


ATTRIBUTES = ("name", "type", "module", "shape")
MOST_REPEATS = 2
"""Unbounded repeats of an expression: more of them may take minutes on a long name."""
SEARCH_S = 0.5
_PREFIXES = tuple(f"{one}:" for one in ATTRIBUTES)


def attribute_pattern(wanted: str) -> tuple[str, re.Pattern[str]] | None:
    """ "type:conv|linear" or "/norm[12]$/" (of names) as attribute and expression, whatever the case; None for plain
    words, and for an expression that is none or could take long: groups that repeat, references and more than
    MOST_REPEATS of * and +."""
    kind, colon, expression = wanted.strip().partition(":")
    if wanted.strip().startswith("/"):
        kind, colon, expression = "name", ":", wanted.strip()[1:].removesuffix("/")
    if not colon or kind not in ATTRIBUTES or not expression:
        return None
    if re.search(r"\)[*+?{]|\(\?|\\[0-9]|\{", expression) or len(re.findall(r"[*+]", expression)) > MOST_REPEATS:
        return None
    try:
        return kind, re.compile(expression.strip(), re.IGNORECASE)
    except re.error:
        return None


def _fitting(skeleton: Skeleton, attribute: str, pattern: re.Pattern[str]) -> list[bool]:
    """Whether each operator's attribute has the pattern in it; what takes longer than SEARCH_S is left out."""
    if attribute == "shape":
        texts = [""] * skeleton["operators"]
        for (producer, _, _, _), shape in zip(skeleton["tensors"], skeleton["shapes"], strict=True):
            texts[producer] += (" " if texts[producer] else "") + shape.replace("×", "x")
    else:
        texts = {"name": skeleton["names"], "type": skeleton["types"], "module": skeleton["modules"]}[attribute]
    until = time.perf_counter() + SEARCH_S
    return [time.perf_counter() < until and pattern.search(each) is not None for each in texts]


def find(skeleton: Skeleton, plan: PlanView | None, wanted: str, most: int = MOST) -> Matches:
    """Operators whose names hold all words of ``wanted``, whatever their case, or of which an attribute fits a regular
    expression (`attribute_pattern`): ``matches`` is how many there are,
    ``items`` the first of them, those that begin with it and short names before others: ``name``, ``what`` (its type),
    ``where`` (its devices) and ``box``, the element that is its own."""
    words = wanted[:MAX_WORDS].lower().split()
    if not words or wanted.strip() in _PREFIXES:
        return {"matches": 0, "items": []}
    names = skeleton["names"]
    pattern = attribute_pattern(wanted[:MAX_WORDS])
    if pattern is not None:
        fits = _fitting(skeleton, *pattern)
    else:
        fits = [all(w in name.lower() for w in words) for name in names]
    there = [i for i, anchor in enumerate(skeleton["anchors"]) if anchor == i and fits[i]]
    there.sort(key=lambda i: (not names[i].lower().startswith(words[0]), len(names[i]), i))
    devices = [] if plan is None else plan["devices"]
    items: list[Match] = [
        {
            "box": f"o:{i}",
            "name": names[i],
            "what": skeleton["types"][i],
            "where": text.listing([devices[d]["name"] for d in plan["placement"][i]], 2) if plan is not None else "",
        }
        for i in there[:most]
    ]
    return {"matches": len(there), "items": items}
