"""Operators by name: what a person types, and where each that matches is shown and runs."""

from __future__ import annotations

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


class Found(TypedDict):
    """matches: how many there are; items: the first of them."""

    matches: int
    items: list[Match]


def find(skeleton: Skeleton, plan: PlanView | None, wanted: str, most: int = MOST) -> Found:
    """Operators whose names hold all words of ``wanted``, whatever their case: ``matches`` is how many there are,
    ``items`` the first of them, those that begin with it and short names before others: ``name``, ``what`` (its type),
    ``where`` (its devices) and ``box``, the element that is its own."""
    words = wanted[:MAX_WORDS].lower().split()
    if not words:
        return {"matches": 0, "items": []}
    names = skeleton["names"]
    there = [
        i for i, anchor in enumerate(skeleton["anchors"]) if anchor == i and all(w in names[i].lower() for w in words)
    ]
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
